//! Differential fuzzing against Jinja2.
//!
//! Templates come from a grammar-based generator and from mutations of recorded and released templates. One
//! Python process renders them with Jinja2; both must print the same output or fail in the same phase for the
//! same kind of reason. A differing template is shrunk before it is shown.
//!
//! `LM_EVAL_FUZZ_SEED` and `LM_EVAL_FUZZ_CASES` select other templates and more of them.

mod expression;
mod generate;
mod mutate;
mod oracle;
mod scope;

use std::collections::BTreeSet;

use lmeval_pycompat::{Dict, Value};
use lmeval_template::chat::ChatTemplate;
use lmeval_template::{Environment, Error, ErrorKind};
use lmeval_testkit::{Confirmed, Dice, Oracle, fuzz_cases, fuzz_seed};

use self::oracle::Case;

/// The default number of templates.
const CASES: usize = 100_000;

/// Templates sent to Jinja2 at once.
const BATCH: usize = 1_000;

/// Differences to shrink and show.
const SHOWN: usize = 12;

/// The outcome of rendering a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Text(String),
    Failure { kind: String, message: String },
}

impl Outcome {
    fn failure(kind: &str, message: impl Into<String>) -> Self {
        Self::Failure { kind: kind.into(), message: message.into() }
    }

    /// Whether two outcomes are equal as far as users can tell.
    fn agrees(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(ours), Self::Text(theirs)) => ours == theirs,
            // Which of several run-time failures comes first depends on evaluation order.
            (Self::Failure { kind: ours, .. }, Self::Failure { kind: theirs, .. }) => {
                (ours == "syntax") == (theirs == "syntax")
            }
            _ => false,
        }
    }

    /// The property that shrinking preserves.
    fn kind(&self) -> &str {
        match self {
            Self::Text(_) => "text",
            Self::Failure { kind, .. } => kind,
        }
    }

    /// As much of the outcome as [`agrees`](Self::agrees) compares.
    fn compared(&self) -> String {
        match self {
            _ if self.is_incomparable() => "incomparable".to_owned(),
            Self::Text(text) => format!("text {text}"),
            Self::Failure { kind, .. } if kind == "syntax" => "syntax".to_owned(),
            Self::Failure { .. } => "failure".to_owned(),
        }
    }

    /// Whether the outcome cannot be compared.
    fn is_incomparable(&self) -> bool {
        match self {
            // A Python object that is not data, with its address or class.
            Self::Text(text) => {
                [" at 0x", "<bound method", "<class 'jinja2."].iter().any(|object| text.contains(object))
            }
            // We limit steps, depth and size; the reference limits time and memory.
            Self::Failure { kind, .. } => kind == "skipped",
        }
    }
}

fn ours(case: &Case, documents: &Documents) -> Outcome {
    let document =
        case.document.as_ref().unwrap_or(if case.chat { &documents.chat } else { &documents.prompt });
    let rendered = if case.chat {
        let compiled = ChatTemplate::compile(&case.template);
        compiled.map(|template| template.with_clock(str::to_owned).render(document))
    } else {
        Environment::new()
            .with_fuel(1_000_000)
            .compile(&case.template)
            .map(|template| template.render(document))
    };
    match rendered {
        Ok(Ok(text)) => Outcome::Text(text),
        Ok(Err(error)) => Outcome::failure(runtime_kind(&error), error.to_string()),
        Err(error) if error.kind() == ErrorKind::Limit => Outcome::failure("skipped", error.to_string()),
        Err(error) => Outcome::failure("syntax", error.to_string()),
    }
}

fn runtime_kind(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::Undefined => "undefined",
        ErrorKind::Limit => "skipped",
        _ => "other",
    }
}

/// The variables that templates are rendered with.
pub(super) struct Documents {
    prompt: Dict,
    chat: Dict,
}

fn documents() -> Documents {
    let recording = crate::recordings::load("vectors/jinja.json");
    let of = |key: &str| crate::recordings::field(&recording, key).as_dict().unwrap().clone();
    let mut prompt = of("doc");
    for (name, value) in generate::variables() {
        prompt.insert(name, value);
    }
    let mut chat = of("chat_doc");
    for (name, value) in generate::variables() {
        // The reference passes them as keywords, where this one has a special meaning.
        if name != "self" {
            chat.insert(name, value);
        }
    }
    Documents { prompt, chat }
}

#[test]
fn random_templates_match_jinja2() {
    let Some(python) = lmeval_testkit::test_environment() else { return };
    let (seed, cases) = (fuzz_seed(1), fuzz_cases(CASES));
    let documents = documents();
    let sources = mutate::Sources::load();
    let mut confirmed = Confirmed::load("templates");
    let mut oracle = None;
    let mut dice = Dice::new(seed);
    let mut report = Report::default();
    let mut left = cases;
    while left > 0 && report.differences.len() < SHOWN {
        let batch: Vec<Case> = (0..left.min(BATCH)).map(|_| case(&mut dice, &sources)).collect();
        left -= batch.len();
        let lines: Vec<String> = batch.iter().map(Case::line).collect();
        let ours: Vec<Outcome> = batch.iter().map(|case| ours(case, &documents)).collect();
        if confirmed.contains(lines.iter().cloned().chain(ours.iter().map(Outcome::compared))) {
            batch.iter().zip(&ours).for_each(|(case, ours)| report.add(case, ours, ours));
            continue;
        }
        let oracle = oracle.get_or_insert_with(|| oracle::start(&python, &documents));
        let (answers, ()) = oracle.ask_all(&lines, || ());
        for ((case, ours), answer) in batch.iter().zip(&ours).zip(&answers) {
            report.add(case, ours, &oracle::outcome(answer));
        }
    }
    println!(
        "seed {seed}, {cases} templates: {} render, {} fail, {} cannot be compared",
        report.rendered, report.failed, report.skipped
    );
    let shown: Vec<String> = report
        .differences
        .iter()
        .map(|case| {
            let oracle = oracle.get_or_insert_with(|| oracle::start(&python, &documents));
            shrink(case.clone(), oracle, &documents)
        })
        .collect();
    assert!(shown.is_empty(), "seed {seed}, {cases} cases:\n{}", shown.join("\n"));
    assert!(report.rendered * 2 > cases, "only {} of {cases} templates render at all", report.rendered);
    assert!(report.failed * 10 > cases, "only {} of {cases} templates fail", report.failed);
    assert!(report.skipped * 50 < cases, "{} of {cases} templates could not be compared", report.skipped);
    confirmed.finish();
}

/// Results so far.
#[derive(Default)]
struct Report {
    rendered: usize,
    failed: usize,
    skipped: usize,
    differences: Vec<Case>,
    messages: BTreeSet<String>,
}

impl Report {
    fn add(&mut self, case: &Case, ours: &Outcome, theirs: &Outcome) {
        if ours.is_incomparable() || theirs.is_incomparable() {
            self.skipped += 1;
            return;
        }
        match theirs {
            Outcome::Text(_) => self.rendered += 1,
            Outcome::Failure { .. } => self.failed += 1,
        }
        if ours.agrees(theirs) {
            return;
        }
        // One template per pair of messages is enough.
        let message = |outcome: &Outcome| match outcome {
            Outcome::Text(_) => "text".to_owned(),
            Outcome::Failure { kind, message } => format!("{kind} {message}"),
        };
        if self.messages.insert(format!("{} / {}", message(ours), message(theirs))) {
            self.differences.push(case.clone());
        }
    }
}

fn case(dice: &mut Dice, sources: &mutate::Sources) -> Case {
    match dice.roll(100) {
        0..55 => Case { template: generate::template(dice, false), chat: false, document: None },
        55..70 => Case { template: generate::template(dice, true), chat: true, document: None },
        _ => sources.mutated(dice),
    }
}

/// Shrinks a differing template by omitting tokens; returns it with both outcomes.
fn shrink(mut case: Case, oracle: &mut Oracle, documents: &Documents) -> String {
    let mut outcomes = |case: &Case| (ours(case, documents), oracle::outcome(&oracle.ask(&case.line())));
    let (first_ours, first_theirs) = outcomes(&case);
    let mut differs = |case: &Case| {
        let (ours, theirs) = outcomes(case);
        let same = ours.kind() == first_ours.kind() && theirs.kind() == first_theirs.kind();
        let differs = same && !theirs.is_incomparable() && !ours.agrees(&theirs);
        (differs, ours, theirs)
    };
    let mut size = mutate::tokens(&case.template).len();
    let mut attempts = 2_000;
    while size > 0 {
        let mut start = 0;
        let whole = case.template.clone();
        let mut tokens = mutate::tokens(&whole);
        while start < tokens.len() && attempts > 0 {
            attempts -= 1;
            let mut fewer = tokens.clone();
            fewer.drain(start..(start + size).min(tokens.len()));
            let smaller = Case { template: fewer.concat(), ..case.clone() };
            if differs(&smaller).0 {
                case = smaller;
                tokens = fewer;
            } else {
                start += size;
            }
        }
        size /= 2;
    }
    let (_, ours, theirs) = differs(&case);
    let document =
        case.document.as_ref().map(|document| format!(" with {:?}", Value::from(document.clone())));
    let chat = if case.chat { "chat " } else { "" };
    format!(
        "{chat}{:?}{}\n    ours   {ours:?}\n    theirs {theirs:?}",
        case.template,
        document.unwrap_or_default()
    )
}
