//! Existing templates with a few tokens changed.

use lmeval_pycompat::{Dict, Value};
use lmeval_template::Environment;
use lmeval_testkit::Dice;

use super::oracle::Case;

/// Templates to start from.
pub(super) struct Sources {
    prompts: Vec<String>,
    chats: Vec<String>,
    /// Templates of the released library, rendered with made-up variables.
    library: Vec<String>,
}

/// Tokens to insert.
const POOL: [&str; 62] = [
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "#}",
    "{{-",
    "-}}",
    "{%-",
    "-%}",
    "{%+",
    "+%}",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    ".",
    "|",
    "=",
    "==",
    "!=",
    "<",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "~",
    "if",
    "else",
    "elif",
    "endif",
    "for",
    "in",
    "endfor",
    "recursive",
    "set",
    "endset",
    "is",
    "not",
    "and",
    "or",
    "loop",
    "true",
    "none",
    "'",
    "\"",
    "\\",
    "\n",
    " ",
    "0",
    "2",
    "1.5",
    "a",
    "s",
    "l",
];

/// Words whose templates are not compared.
///
/// `lipsum` and `random` differ by design, `**` may take Python minutes, the others are filters for HTML and
/// terminals that are not supported.
const SKIPPED: [&str; 12] = [
    "lipsum",
    "random",
    "**",
    "urlize",
    "wordwrap",
    "pprint",
    "xmlattr",
    "striptags",
    "filesizeformat",
    "escape",
    "safe",
    "autoescape",
];

impl Sources {
    pub(super) fn load() -> Self {
        let recording = crate::recordings::load("vectors/jinja.json");
        let mut prompts = Vec::new();
        let mut chats = Vec::new();
        for (kind, cases) in crate::recordings::field(&recording, "cases").as_dict().unwrap().iter() {
            for case in cases.as_list().unwrap() {
                let template = case.as_list().unwrap()[0].as_str().unwrap();
                // Jinja2 has no `zip`.
                if SKIPPED.iter().any(|word| template.contains(word)) || template.contains("zip") {
                    continue;
                }
                if kind.as_str() == Some("chat") { &mut chats } else { &mut prompts }
                    .push(template.to_owned());
            }
        }
        let mut library = std::collections::BTreeSet::new();
        if let Some(folder) = lmeval_testkit::reference_library() {
            crate::library::collect(&folder, &mut library);
        }
        let library = library.into_iter().filter(|template| template.len() < 600).collect();
        Self { prompts, chats, library }
    }

    pub(super) fn mutated(&self, dice: &mut Dice) -> Case {
        loop {
            let (sources, chat) = match dice.roll(10) {
                0..2 => (&self.chats, true),
                2..4 if !self.library.is_empty() => (&self.library, false),
                _ => (&self.prompts, false),
            };
            let template = mutate(dice, sources);
            if SKIPPED.iter().any(|word| template.contains(word)) || template.contains("zip") {
                continue;
            }
            let document = std::ptr::eq(sources, &raw const self.library).then(|| made_up(dice, &template));
            return Case { template, chat, document };
        }
    }
}

fn mutate(dice: &mut Dice, sources: &[String]) -> String {
    let template = &sources[dice.roll(sources.len())];
    let mut tokens: Vec<&str> = tokens(template);
    for _ in 0..=dice.roll(3) {
        let at = dice.roll(tokens.len().max(1)).min(tokens.len());
        let is_inside = at < tokens.len();
        match dice.roll(7) {
            0 if is_inside => {
                let end = (at + 1 + dice.roll(4)).min(tokens.len());
                tokens.drain(at..end);
            }
            1 if is_inside => tokens.insert(at, tokens[at]),
            2 if is_inside => {
                let other = dice.roll(tokens.len());
                tokens.swap(at, other);
            }
            3 if is_inside => tokens[at] = dice.pick(&POOL),
            4 => {
                // A piece of another template.
                let other = self::tokens(&sources[dice.roll(sources.len())]);
                let start = dice.roll(other.len().max(1)).min(other.len());
                let end = (start + 1 + dice.roll(8)).min(other.len());
                tokens.splice(at..at, other[start..end].iter().copied());
            }
            _ => tokens.insert(at, dice.pick(&POOL)),
        }
    }
    tokens.concat()
}

/// Values for the variables that a template uses.
fn made_up(dice: &mut Dice, template: &str) -> Dict {
    let names = Environment::new().compile(template).map(|template| template.undeclared_variables());
    let values = || {
        [
            Value::from("A b"),
            Value::from(" yes\n"),
            Value::Int(1),
            Value::Float(0.5),
            Value::None,
            Value::list([Value::from("x"), Value::from("y z"), Value::from("")]),
            Value::dict([("text", Value::from("t")), ("label", Value::list([Value::Int(0), Value::Int(1)]))]),
        ]
    };
    let mut document = Dict::new();
    for name in names.unwrap_or_default() {
        document.insert(name.as_str(), values()[dice.roll(7)].clone());
    }
    document
}

/// Splits a template into delimiters, words, numbers and single characters.
pub(super) fn tokens(template: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = template;
    while let Some(first) = rest.chars().next() {
        let is_word = |character: char| character.is_alphanumeric() || character == '_';
        let length = if is_word(first) {
            rest.find(|character| !is_word(character)).unwrap_or(rest.len())
        } else if ["{{-", "{%-", "{#-", "-}}", "-%}", "-#}", "{%+", "+%}"]
            .iter()
            .any(|delimiter| rest.starts_with(delimiter))
        {
            3
        } else if ["{{", "}}", "{%", "%}", "{#", "#}", "==", "!=", "<=", ">=", "//"]
            .iter()
            .any(|symbol| rest.starts_with(symbol))
        {
            2
        } else {
            first.len_utf8()
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after;
    }
    tokens
}
