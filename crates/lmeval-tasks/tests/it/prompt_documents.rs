//! Synthetic documents that fit a task's templates, to compare many tasks without their data.

use std::collections::BTreeSet;

use lmeval_pycompat::Value;
use lmeval_tasks::config::{Field, TaskConfig};
use lmeval_template::Environment;

/// The shape of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Index,
    Letter,
    Digit,
    Literal,
    Texts,
    Indices,
    MapOfTexts,
    MapOfLists,
    MapOfIndices,
    Maps,
    Truth,
}

/// The order in which the shapes are tried.
const KINDS: [Kind; 12] = [
    Kind::Text,
    Kind::Index,
    Kind::Texts,
    Kind::Letter,
    Kind::Digit,
    Kind::MapOfLists,
    Kind::Literal,
    Kind::MapOfTexts,
    Kind::Maps,
    Kind::Indices,
    Kind::MapOfIndices,
    Kind::Truth,
];

/// The columns that a task's fields use, with a guess at their values.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    pub(crate) names: Vec<String>,
    pub(crate) kinds: Vec<Kind>,
    /// Names of attributes and items in templates.
    keys: Vec<String>,
    /// String literals in templates.
    literals: Vec<String>,
}

impl Columns {
    /// Collects the columns of a task's fields.
    pub(crate) fn of(config: &TaskConfig) -> Self {
        let fewshot = &config.fewshot_config;
        let questions = [
            &config.doc_to_text,
            &config.doc_to_target,
            &config.doc_to_choice,
            &fewshot.doc_to_text,
            &fewshot.doc_to_target,
            &fewshot.doc_to_choice,
        ];
        let others = [
            &config.description,
            &config.gen_prefix,
            &fewshot.gen_prefix,
            &config.doc_to_image,
            &config.doc_to_audio,
        ];
        let mut names = BTreeSet::new();
        let (mut keys, mut literals) = (BTreeSet::new(), BTreeSet::new());
        let environment = Environment::new();
        for (field, question) in
            questions.iter().map(|field| (field, true)).chain(others.iter().map(|field| (field, false)))
        {
            let elements: Vec<String> = match field {
                Some(Field::Text(text)) => vec![text.to_string()],
                Some(Field::List(items)) => {
                    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
                }
                _ => continue,
            };
            let named = question && matches!(field, Some(Field::Text(_)));
            for text in elements {
                if !text.contains('{') {
                    if named
                        && !text.is_empty()
                        && text.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
                    {
                        names.insert(text);
                    }
                    continue;
                }
                if let Ok(template) = environment.compile(&text) {
                    names.extend(template.undeclared_variables());
                }
                collect(&text, &mut keys, &mut literals);
            }
        }
        let names: Vec<String> = names.into_iter().collect();
        let kinds = names.iter().map(|name| guess(name, config)).collect();
        Self { names, kinds, keys: keys.into_iter().collect(), literals: literals.into_iter().collect() }
    }

    /// Other guesses, closest first.
    pub(crate) fn alternatives(&self, most: usize) -> Vec<Vec<Kind>> {
        let mut all = vec![self.kinds.clone()];
        for column in 0..self.names.len() {
            for kind in KINDS {
                let mut kinds = self.kinds.clone();
                kinds[column] = kind;
                all.push(kinds);
            }
        }
        for first in 0..self.names.len() {
            for second in first + 1..self.names.len() {
                for (one, other) in KINDS.iter().flat_map(|one| KINDS.iter().map(move |other| (*one, *other)))
                {
                    let mut kinds = self.kinds.clone();
                    (kinds[first], kinds[second]) = (one, other);
                    all.push(kinds);
                }
            }
        }
        all.truncate(most);
        all
    }

    /// One document; `number` makes it unique.
    pub(crate) fn document(&self, number: usize) -> Value {
        let values = self.names.iter().zip(&self.kinds).enumerate();
        Value::dict(
            values.map(|(column, (name, kind))| (name.as_str(), self.value(*kind, name, column, number))),
        )
    }

    fn value(&self, kind: Kind, name: &str, column: usize, number: usize) -> Value {
        const ODD: [&str; 6] = ["It's", "naïve 日本", "two\nlines", "\"quoted\" ", "plain", "50% {x}"];
        let text = |more: usize| {
            let odd = ODD[(number + column + more) % ODD.len()];
            Value::from(format!("{name} {number} {more} {odd}"))
        };
        let index = |more: usize| Value::Int(((number + more) % 2) as i64);
        let map = |value: &dyn Fn(usize) -> Value| {
            Value::dict(self.keys.iter().enumerate().map(|(key, name)| (name.as_str(), value(key))))
        };
        match kind {
            Kind::Text => text(0),
            Kind::Index => index(0),
            Kind::Letter => Value::str(["A", "B"][number % 2]),
            Kind::Digit => Value::str(["1", "2"][number % 2]),
            Kind::Literal if self.literals.is_empty() => text(0),
            Kind::Literal => Value::str(self.literals[number % self.literals.len()].as_str()),
            Kind::Texts => Value::list((0..4).map(text)),
            Kind::Indices => Value::list((0..3).map(index)),
            Kind::MapOfTexts => map(&text),
            Kind::MapOfLists => map(&|key| {
                let letters = self.keys[key].contains("label");
                let item = |item: usize| {
                    if letters { Value::str(["A", "B", "C", "D"][item]) } else { text(4 * key + item) }
                };
                Value::list((0..4).map(item))
            }),
            Kind::MapOfIndices => map(&index),
            Kind::Maps => Value::list((0..4).map(|item| map(&|key| text(10 * item + key)))),
            Kind::Truth => Value::Bool(number.is_multiple_of(2)),
        }
    }
}

/// Guesses the shape of a column from its name.
fn guess(name: &str, config: &TaskConfig) -> Kind {
    let is_field = |field: &Option<Field>| matches!(field, Some(Field::Text(text)) if &**text == name);
    let lower = name.to_lowercase();
    if is_field(&config.doc_to_choice)
        || ["choices", "options", "endings", "distractors"].iter().any(|word| lower.contains(word))
    {
        Kind::Texts
    } else if ["label", "gold", "idx", "target_index"].iter().any(|word| lower.contains(word))
        || (is_field(&config.doc_to_target) && config.doc_to_choice.is_some())
    {
        Kind::Index
    } else {
        Kind::Text
    }
}

/// Finds the names after dots and the string literals.
fn collect(template: &str, keys: &mut BTreeSet<String>, literals: &mut BTreeSet<String>) {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    for (at, _) in template.match_indices('.') {
        let rest = &template[at + 1..];
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let before = template[..at].chars().next_back();
        if end > 0 && !rest[end..].starts_with('(') && before.is_some_and(|c| is_name(c) || c == ']') {
            keys.insert(rest[..end].to_owned());
        }
    }
    for quote in ['\'', '"'] {
        for text in template.split(quote).skip(1).step_by(2).filter(|text| text.len() < 40) {
            if !text.contains('{') {
                literals.insert(text.to_owned());
            }
            let named = [format!("[{quote}{text}{quote}]"), format!("attribute={quote}{text}{quote}")];
            if named.iter().any(|named| template.contains(named)) {
                keys.insert(text.to_owned());
            }
        }
    }
}
