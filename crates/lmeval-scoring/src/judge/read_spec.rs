//! Reads and checks the options of the scorer `judge`.

use std::sync::Arc;

use lmeval_metrics::nearest;
use lmeval_pycompat::{Dict, Value, repr};
use lmeval_template::{Environment, Template};

use super::marker::MARKER;
use super::neutral;
use super::read_answer::{extract, generation, guided};
use super::reduce::Reduce;
use super::scale::{Against, PairLabels, Scale};
use super::spec::{JudgeSpec, NamedTemplate, OnUnparsed, SpecProblem};
use super::templates::{self, BUILT_IN};

/// The most votes of one judge on one answer, and the most retries.
const MOST: i64 = 100;

/// The variables that prompts may use.
pub(super) const VARIABLES: [&str; 14] = [
    "doc",
    "target",
    "prediction",
    "predictions",
    "input",
    "question",
    "reference",
    "rubric",
    "first",
    "second",
    "lowest",
    "highest",
    "labels",
    MARKER,
];

/// The options whose values are templates for the built-in prompts.
const TEXTS: [&str; 3] = ["question", "reference", "rubric"];

pub(super) type Read<T> = Result<T, SpecProblem>;

impl JudgeSpec {
    /// Reads the options of the scorer.
    ///
    /// ```
    /// use lmeval_scoring::judge::JudgeSpec;
    /// use lmeval_pycompat::{Dict, Value};
    ///
    /// let mut options = Dict::new();
    /// options.insert("role", "grader");
    /// let problem = JudgeSpec::read(&options).unwrap_err();
    /// assert_eq!(problem.message, "The judge has neither `prompt` nor `template`");
    /// options.insert("template", "reference_qa");
    /// assert_eq!(&*JudgeSpec::read(&options).unwrap().roles()[0], "grader");
    /// ```
    pub fn read(options: &Dict) -> Result<Self, SpecProblem> {
        let environment = Environment::new();
        let built_in = match text(options, &["template"])? {
            None => None,
            Some(name) => Some(templates::built_in(&name).ok_or_else(|| {
                let names: Vec<&str> = BUILT_IN.iter().map(|known| known.name).collect();
                unknown(&["template"], &name, "a built-in prompt", &names)
            })?),
        };
        let source = match (text(options, &["prompt"])?, built_in) {
            (Some(_), Some(_)) => {
                return Err(SpecProblem::new(&["template"], "A judge has either `prompt` or `template`"));
            }
            (Some(source), None) => source,
            (None, Some(built_in)) => built_in.prompt.to_owned(),
            (None, None) => {
                let names: Vec<String> = BUILT_IN.iter().map(|known| format!("`{}`", known.name)).collect();
                return Err(SpecProblem::new(&[], "The judge has neither `prompt` nor `template`")
                    .hint(format!("Built-in templates are {}", names.join(", "))));
            }
        };
        let key = if built_in.is_some() { "template" } else { "prompt" };
        let roles = roles(options)?;
        let scale = scale(options, built_in.and_then(|built_in| (built_in.scale)()))?;
        let prompt = template(&environment, key, &source)?;
        check_variables(&[key], &prompt, &VARIABLES)?;
        let system = text(options, &["system"])?.or_else(|| built_in.map(|known| known.system.to_owned()));
        let system = system.map(|source| template(&environment, "system", &source)).transpose()?;
        if let Some(system) = &system {
            check_variables(&["system"], system, &VARIABLES)?;
        }
        let mut texts: Vec<NamedTemplate> = Vec::new();
        for name in TEXTS {
            if let Some(source) = text(options, &[name])? {
                let made = template(&environment, name, &source)?;
                check_variables(&[name], &made, &["doc", "target", "input"])?;
                texts.push((name, made));
            }
        }
        check_shown(key, &prompt, system.as_ref(), &scale, &texts)?;
        let samples = integer(options, "samples")?.unwrap_or(1);
        if !(1..=MOST).contains(&samples) {
            return Err(SpecProblem::new(&["samples"], format!("`samples` must be between 1 and {MOST}")));
        }
        let reduce = reduce(options, &scale)?;
        let swap = flag(options, "swap")?.unwrap_or(scale.is_pairwise());
        if swap && !scale.is_pairwise() {
            let problem = SpecProblem::new(&["swap"], "`swap` needs `pairwise`: other judges see one answer");
            return Err(problem);
        }
        let on_unparsed = on_unparsed(options, &scale)?;
        let generation = generation(options)?;
        let guided = guided(options, &generation)?;
        let mut marks = neutral::marks(prompt.source());
        marks.extend(delimiters(options)?);
        let uses = |name: &str| {
            let own = texts.iter().map(|(_, template)| template).chain([&prompt]).chain(&system);
            own.into_iter().any(|template| template.undeclared_variables().contains(name))
        };
        // Without its own template, the question is the request of the evaluated model.
        let asks = uses("question") && !texts.iter().any(|(name, _)| *name == "question");
        let needs_input = uses("input") || asks;
        let has_marker = uses(MARKER);
        let extract = extract(options, &scale, has_marker)?;
        Ok(Self {
            roles,
            prompt,
            system,
            texts,
            scale,
            extract,
            samples: usize::try_from(samples).unwrap_or(1),
            reduce,
            swap,
            on_unparsed,
            generation,
            guided,
            marks,
            higher_is_better: flag(options, "higher_is_better")?.unwrap_or(true),
            needs_input,
            has_marker,
        })
    }
}

pub(super) fn type_problem(path: &[&str], expected: &str, found: &Value) -> SpecProblem {
    let name = path.last().copied().unwrap_or("scorer");
    SpecProblem::new(path, format!("`{name}` must be {expected}, not {}", found.type_name()))
}

pub(super) fn unknown(path: &[&str], found: &str, what: &str, known: &[&str]) -> SpecProblem {
    let problem = SpecProblem::new(path, format!("`{found}` is not {what}"));
    let near = nearest(found, known.iter().copied());
    let problem = match near.first() {
        Some(near) => problem.hint(format!("Did you mean `{near}`?")),
        None => problem,
    };
    problem.hint(format!("Known: `{}`", known.join("`, `")))
}

pub(super) fn given<'a>(options: &'a Dict, name: &str) -> Option<&'a Value> {
    options.get_str(name).filter(|value| !value.is_none())
}

pub(super) fn text(options: &Dict, path: &[&str]) -> Read<Option<String>> {
    let name = path.last().copied().unwrap_or_default();
    match given(options, name) {
        None => Ok(None),
        Some(Value::Str(text)) => Ok(Some(text.to_string())),
        Some(other) => Err(type_problem(path, "a str", other)),
    }
}

fn integer(options: &Dict, name: &str) -> Read<Option<i64>> {
    match given(options, name) {
        None => Ok(None),
        Some(Value::Int(number)) => Ok(Some(*number)),
        Some(other) => Err(type_problem(&[name], "an int", other)),
    }
}

fn flag(options: &Dict, name: &str) -> Read<Option<bool>> {
    match given(options, name) {
        None => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(other) => Err(type_problem(&[name], "true or false", other)),
    }
}

fn number(path: &[&str], value: &Value) -> Read<f64> {
    let number = match value {
        Value::Int(_) | Value::Float(_) | Value::Bool(_) => value.to_f64(),
        _ => None,
    };
    number.filter(|number| number.is_finite()).ok_or_else(|| type_problem(path, "a number", value))
}

pub(super) fn mapping<'a>(path: &[&str], value: &'a Value, known: &[&str]) -> Read<&'a Dict> {
    let dict = value.as_dict().ok_or_else(|| type_problem(path, "a dict", value))?;
    for key in dict.keys() {
        let key = repr::str(key);
        if !known.contains(&key.as_str()) {
            let full: Vec<&str> = path.iter().copied().chain([key.as_str()]).collect();
            return Err(unknown(&full, &key, &format!("a key of `{}`", path.join(".")), known));
        }
    }
    Ok(dict)
}

fn template(environment: &Environment, key: &str, source: &str) -> Read<Template> {
    environment.compile(source).map_err(|error| {
        let line = error.line().map_or_else(String::new, |line| format!("line {line} of the template: "));
        let message = format!("The template of `{key}` is invalid: {line}{}", error.message());
        error
            .hints()
            .iter()
            .fold(SpecProblem::new(&[key], message), |problem, hint| problem.hint(hint.as_str()))
    })
}

/// Every variable of a template must be known.
fn check_variables(path: &[&str], template: &Template, known: &[&str]) -> Read<()> {
    match template.undeclared_variables().iter().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(unknown(path, name, "a variable of a judge's template", known)
            .hint(format!("Columns of the document are written `doc.{name}`"))),
    }
}

/// The prompt must show what is judged, and everything that it shows must be given.
fn check_shown(
    key: &str,
    prompt: &Template,
    system: Option<&Template>,
    scale: &Scale,
    texts: &[NamedTemplate],
) -> Read<()> {
    let mut used = prompt.undeclared_variables();
    let shown = if scale.is_pairwise() { &["first", "second"][..] } else { &["prediction", "predictions"] };
    let is_shown = if scale.is_pairwise() {
        shown.iter().all(|name| used.contains(*name))
    } else {
        shown.iter().any(|name| used.contains(*name))
    };
    if !is_shown {
        let problem = SpecProblem::new(&[key], "The prompt does not show the judge what to judge");
        return Err(problem.hint(if scale.is_pairwise() {
            "A pairwise prompt shows the two answers as `{{ first }}` and `{{ second }}`"
        } else {
            "Show the answer with `{{ prediction }}`"
        }));
    }
    if !scale.is_pairwise()
        && let Some(name) = ["first", "second"].into_iter().find(|name| used.contains(*name))
    {
        return Err(SpecProblem::new(&[key], format!("`{name}` exists only with `pairwise`")));
    }
    used.extend(system.iter().flat_map(|system| system.undeclared_variables()));
    if !matches!(scale, Scale::Range(..))
        && let Some(name) = ["lowest", "highest"].into_iter().find(|name| used.contains(*name))
    {
        return Err(SpecProblem::new(&[key], format!("`{name}` exists only with `range`")));
    }
    if used.contains("rubric") && !texts.iter().any(|(name, _)| *name == "rubric") {
        return Err(SpecProblem::new(&[key], "The prompt shows a rubric, but the judge has none")
            .hint("Write it under `rubric`"));
    }
    Ok(())
}

fn roles(options: &Dict) -> Read<Vec<Arc<str>>> {
    let role = text(options, &["role"])?;
    let roles: Vec<Arc<str>> = match given(options, "judges") {
        None => role.iter().map(|role| role.as_str().into()).collect(),
        Some(Value::List(names)) => names
            .iter()
            .map(|name| match name {
                Value::Str(name) => Ok(Arc::clone(name)),
                other => Err(type_problem(&["judges"], "a list of roles", other)),
            })
            .collect::<Read<_>>()?,
        Some(other) => return Err(type_problem(&["judges"], "a list of roles", other)),
    };
    if roles.is_empty() {
        return Err(SpecProblem::new(&[], "The judge has no `role`")
            .hint("Name a role, such as `role: grader`, and bind it with `--judge grader=BACKEND,…`"));
    }
    if let Some(role) = role.filter(|role| !roles.iter().any(|known| **known == **role)) {
        let message = format!("`role` is `{role}`, which is not one of `judges`");
        return Err(SpecProblem::new(&["role"], message).hint("`judges` lists the whole jury"));
    }
    let invalid = |role: &Arc<str>| {
        role.is_empty() || !role.chars().all(|letter| letter.is_alphanumeric() || "_-.".contains(letter))
    };
    if let Some(role) = roles.iter().find(|role| invalid(role)) {
        let key = if options.contains_str("judges") { "judges" } else { "role" };
        let message = format!("`{role}` is not a role: use letters, digits, `_`, `-` and `.`");
        return Err(SpecProblem::new(&[key], message));
    }
    if let Some(twice) = roles.iter().enumerate().find(|(index, role)| roles[..*index].contains(role)) {
        let message = format!("`judges` names `{}` twice", twice.1);
        return Err(
            SpecProblem::new(&["judges"], message).hint("For several votes of one judge, set `samples`")
        );
    }
    Ok(roles)
}

fn scale(options: &Dict, default: Option<Scale>) -> Read<Scale> {
    let kinds: Vec<&str> =
        ["verdicts", "range", "pairwise"].into_iter().filter(|name| given(options, name).is_some()).collect();
    let (kind, value) = match kinds.as_slice() {
        [] => {
            return default.ok_or_else(|| {
                SpecProblem::new(&[], "The judge has no `verdicts`, `range` or `pairwise`").hint(
                    "Say what its answers are worth, as in `verdicts: {C: 1, I: 0}`, `range: [1, 10]` or \
                     `pairwise: {against: baseline}`",
                )
            });
        }
        [only] => (*only, given(options, only)),
        [first, second, ..] => {
            let message = format!("A judge has either `{first}` or `{second}`");
            return Err(SpecProblem::new(&[second], message));
        }
    };
    let Some(value) = value else { return Err(SpecProblem::new(&[kind], "The value is missing")) };
    let scale = match kind {
        "verdicts" => verdicts(value)?,
        "range" => range(value)?,
        _ => pairwise(value)?,
    };
    match (&default, &scale) {
        (Some(Scale::Verdicts(asked)), Scale::Verdicts(given)) => {
            let missing = asked.iter().find(|(label, _)| !given.iter().any(|(known, _)| known == label));
            match missing {
                Some((label, _)) => Err(SpecProblem::new(
                    &["verdicts"],
                    format!("The template asks for the grade `{label}`, which `verdicts` lacks"),
                )),
                None => Ok(scale),
            }
        }
        (Some(Scale::Range(..)), Scale::Range(..)) | (None, _) => Ok(scale),
        _ => Err(SpecProblem::new(&[kind], format!("The template does not ask for `{kind}`"))),
    }
}

fn verdicts(value: &Value) -> Read<Scale> {
    let dict =
        value.as_dict().ok_or_else(|| type_problem(&["verdicts"], "a dict of labels and values", value))?;
    let mut verdicts: Vec<(String, f64)> = Vec::new();
    for (label, value) in dict.iter() {
        // YAML reads `Y` and `N` as strings but `yes`, `no` and digits as something else.
        let label = match label {
            Value::Str(label) => label.to_string(),
            Value::Int(_) => repr::str(label),
            other => {
                return Err(type_problem(&["verdicts"], "a dict whose keys are strings", other)
                    .hint("Put labels such as `yes` and `no` in quotes"));
            }
        };
        if label.trim().is_empty() {
            return Err(SpecProblem::new(&["verdicts"], "A label of `verdicts` is empty"));
        }
        let worth = number(&["verdicts", &label], value)?;
        verdicts.push((label, worth));
    }
    if verdicts.len() < 2 {
        return Err(SpecProblem::new(&["verdicts"], "`verdicts` needs at least two labels"));
    }
    Ok(Scale::Verdicts(verdicts))
}

fn range(value: &Value) -> Read<Scale> {
    let ends = match value {
        Value::List(ends) | Value::Tuple(ends) => ends.as_slice(),
        other => return Err(type_problem(&["range"], "a list of two numbers", other)),
    };
    let [low, high] = ends else {
        return Err(SpecProblem::new(
            &["range"],
            format!("`range` must have two numbers, not {}", ends.len()),
        ));
    };
    let (low, high) = (number(&["range"], low)?, number(&["range"], high)?);
    if low >= high {
        return Err(SpecProblem::new(&["range"], "The first number of `range` must be less than the second"));
    }
    Ok(Scale::Range(low, high))
}

fn pairwise(value: &Value) -> Read<Scale> {
    let dict = mapping(&["pairwise"], value, &["against", "column", "labels"])?;
    let against = match (given(dict, "against"), given(dict, "column")) {
        (Some(Value::Str(word)), None) if &**word == "baseline" => Against::Baseline,
        (None, Some(Value::Str(column))) => Against::Column(column.to_string()),
        (None, None) => {
            return Err(SpecProblem::new(
                &["pairwise"],
                "`pairwise` does not say what answers are compared with",
            )
            .hint(
                "`against: baseline` for the run given with `--baseline`, or `column: NAME` for a column",
            ));
        }
        (Some(_), Some(_)) => {
            return Err(SpecProblem::new(
                &["pairwise", "column"],
                "`pairwise` has either `against` or `column`",
            ));
        }
        (Some(_), None) => {
            return Err(SpecProblem::new(&["pairwise", "against"], "`against` must be `baseline`")
                .hint("For a fixed answer of each document, use `column: NAME`"));
        }
        (None, Some(other)) => return Err(type_problem(&["pairwise", "column"], "a str", other)),
    };
    let labels = match given(dict, "labels") {
        None => PairLabels::default(),
        Some(Value::List(names)) => {
            let names: Vec<String> = names.iter().map(repr::str).collect();
            let [first, second, tie] = names.as_slice() else {
                let message = "`labels` must name three: the first answer, the second one, and a tie";
                return Err(SpecProblem::new(&["pairwise", "labels"], message));
            };
            PairLabels { first: first.clone(), second: second.clone(), tie: tie.clone() }
        }
        Some(other) => return Err(type_problem(&["pairwise", "labels"], "a list", other)),
    };
    Ok(Scale::Pairwise { against, labels })
}

fn reduce(options: &Dict, scale: &Scale) -> Read<Reduce> {
    match text(options, &["reduce"])? {
        None if matches!(scale, Scale::Range(..)) => Ok(Reduce::Mean),
        None => Ok(Reduce::Majority),
        Some(name) => Reduce::named(&name)
            .ok_or_else(|| unknown(&["reduce"], &name, "a reduction of votes", &Reduce::NAMES)),
    }
}

fn on_unparsed(options: &Dict, scale: &Scale) -> Read<OnUnparsed> {
    let path = ["on_unparsed"];
    let expected = "`unscored`, `retry: N`, a number or a label of `verdicts`";
    let value_of = |path: &[&str], value: &Value| match value {
        Value::Str(word) if &**word == "unscored" => Ok(None),
        Value::Str(word) => match scale.value(word, false) {
            Some((_, value)) => Ok(Some(value)),
            None => Err(SpecProblem::new(path, format!("`{word}` is not {expected}"))),
        },
        Value::Int(_) | Value::Float(_) => {
            let number = number(path, value)?;
            let (low, high) = scale.ends();
            if (low..=high).contains(&number) {
                Ok(Some(number))
            } else {
                Err(SpecProblem::new(path, format!("The value must be between {low} and {high}")))
            }
        }
        other => Err(type_problem(path, expected, other)),
    };
    match given(options, "on_unparsed") {
        None => Ok(OnUnparsed { retries: 0, value: None }),
        Some(value @ Value::Dict(_)) => {
            let dict = mapping(&path, value, &["retry", "then"])?;
            let retries = match given(dict, "retry") {
                Some(Value::Int(number @ 0..=MOST)) => usize::try_from(*number).unwrap_or(0),
                _ => {
                    let message = format!("`retry` must be a number of further attempts, up to {MOST}");
                    return Err(SpecProblem::new(&["on_unparsed", "retry"], message));
                }
            };
            let value = given(dict, "then").map(|value| value_of(&["on_unparsed", "then"], value));
            Ok(OnUnparsed { retries, value: value.transpose()?.flatten() })
        }
        Some(value) => Ok(OnUnparsed { retries: 0, value: value_of(&path, value)? }),
    }
}

fn delimiters(options: &Dict) -> Read<Vec<String>> {
    match given(options, "delimiters") {
        None => Ok(Vec::new()),
        Some(Value::List(marks)) => marks
            .iter()
            .map(|mark| match mark {
                Value::Str(mark) if !mark.trim().is_empty() => Ok(mark.to_string()),
                other => Err(type_problem(&["delimiters"], "a list of strings that are not empty", other)),
            })
            .collect(),
        Some(other) => Err(type_problem(&["delimiters"], "a list of strings", other)),
    }
}
