//! Compares random patterns with Python's `re`.
//!
//! One Python process answers for all patterns, each with several strings. `LM_EVAL_FUZZ_SEED` and `LM_EVAL_FUZZ_CASES`
//! set the seed and the number of pattern-string pairs. A differing case is shrunk before it is shown.

use std::path::Path;

use lmeval_testkit::{Confirmed, Dice, Oracle, fuzz_cases, fuzz_seed};
use serde_json::{Value as Json, json};

use super::generator::{grammatical, loose, mutated, template, text};
use super::vectors::{as_json, flags_from_bits, fs_read, optional_spans, spans};
use super::wording::{PythonError, Wordings};
use crate::re::pattern::Engine;
use crate::re::{Error, ErrorKind, Regex};

/// Strings searched with each pattern.
const STRINGS: usize = 10;
/// Patterns sent to Python at once.
const BATCH: usize = 1_000;
const STEPS: u64 = 100_000;
/// The version of Python that we match; others differ in syntax and Unicode tables.
const PYTHON: &str = "3.11";

/// A pattern, and the strings and template that it is applied to.
#[derive(Clone, Debug)]
struct Case {
    pattern: String,
    flags: u64,
    texts: Vec<String>,
    template: String,
    count: usize,
}

impl Case {
    fn random(dice: &mut Dice, seeds: &[String]) -> Self {
        let pattern = match dice.roll(20) {
            0..=13 => grammatical(dice),
            14..=17 => {
                let seed = &seeds[dice.roll(seeds.len())];
                mutated(dice, seed)
            }
            18 => {
                let seed = grammatical(dice);
                mutated(dice, &seed)
            }
            _ => loose(dice),
        };
        let flags = (0..5).filter(|_| dice.percent(6)).fold(0, |flags, bit| flags | 1 << bit);
        let texts = (0..STRINGS).map(|_| text(dice, &pattern)).collect();
        Self { pattern, flags, texts, template: template(dice), count: dice.roll(5) / 2 }
    }

    fn question(&self) -> String {
        let Self { pattern, flags, texts, template, count } = self;
        json!([pattern, flags, texts, template, count]).to_string()
    }

    /// Our answer, in the oracle's format.
    fn answer(&self, engine: Engine) -> Result<Json, Error> {
        let regex = Regex::new(&self.pattern, flags_from_bits(self.flags))?;
        let regex = regex.with_engine(engine).with_step_limit(STEPS);
        let names: Vec<Json> = regex.group_names().map(|(name, group)| json!([name, group])).collect();
        let answers =
            self.texts.iter().map(|text| self.answer_for(&regex, text)).collect::<Result<Vec<_>, _>>()?;
        Ok(json!([regex.groups(), names, answers]))
    }

    fn answer_for(&self, regex: &Regex, text: &str) -> Result<Json, Error> {
        let groups = regex.groups();
        let found = regex.find_iter(text)?;
        Ok(json!([
            optional_spans(regex.search(text)?, groups),
            optional_spans(regex.match_start(text)?, groups),
            optional_spans(regex.fullmatch(text)?, groups),
            found.iter().map(|found| spans(found, groups)).collect::<Vec<_>>(),
            regex.findall(text)?.iter().map(as_json).collect::<Vec<_>>(),
            regex.split(text, self.count)?,
            match regex.sub(&self.template, text, self.count) {
                Err(error) if error.kind() != ErrorKind::Limit => Json::Null,
                replaced => json!(replaced?),
            },
        ]))
    }

    /// Our error for an invalid template.
    fn template_error(&self) -> Option<Error> {
        let regex = Regex::new(&self.pattern, flags_from_bits(self.flags)).ok()?;
        regex.sub(&self.template, "", 0).err()
    }

    /// Our answer and our error for the template, as text.
    fn outcome(&self, answer: &Result<Json, Error>) -> String {
        let error = |error: &Error| format!("{:?} {error}", error.kind());
        match answer {
            Ok(answer) => format!("{answer} {:?}", self.template_error().as_ref().map(error)),
            Err(failure) => error(failure),
        }
    }

    /// Slightly smaller cases, candidates for shrinking.
    fn smaller(&self) -> Vec<Self> {
        let mut cases = Vec::new();
        for index in 0..self.texts.len() {
            if self.texts.len() > 1 {
                cases.push(Self { texts: vec![self.texts[index].clone()], ..self.clone() });
            }
        }
        for pattern in shorter(&self.pattern) {
            cases.push(Self { pattern, ..self.clone() });
        }
        if let [text] = self.texts.as_slice() {
            cases.extend(shorter(text).into_iter().map(|text| Self { texts: vec![text], ..self.clone() }));
        }
        for template in shorter(&self.template) {
            cases.push(Self { template, ..self.clone() });
        }
        if self.flags != 0 {
            cases.push(Self { flags: self.flags & (self.flags - 1), ..self.clone() });
        }
        cases
    }
}

/// The string with a substring removed, longest removals first.
fn shorter(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let mut texts = Vec::new();
    let mut size = characters.len();
    while size > 0 {
        for start in (0..=characters.len() - size).step_by(size) {
            let (before, rest) = characters.split_at(start);
            texts.push(before.iter().chain(&rest[size..]).collect());
        }
        size /= 2;
    }
    texts
}

/// The result of a comparison.
enum Comparison {
    Same,
    /// Python or we hit a time or step limit, or do not support the pattern.
    Skipped,
    Different(String),
}

/// Compares our answer with Python's: null if it took too long, `{"error": …}` for an invalid pattern.
fn compare(case: &Case, ours: Result<Json, Error>, wanted: &Json, wordings: &mut Wordings) -> Comparison {
    if wanted.is_null() {
        return Comparison::Skipped;
    }
    let python_error = |error: &Json| -> Option<(String, String, Option<u64>)> {
        Some((error[0].as_str()?.to_owned(), error[1].as_str()?.to_owned(), error[2].as_u64()))
    };
    let mut same = |error: &Error, wanted: &Json| {
        python_error(wanted).is_some_and(|(class, message, position)| {
            wordings.agree(error, &PythonError { class: Some(&class), message: &message, position })
        })
    };
    match ours {
        Err(error) if matches!(error.kind(), ErrorKind::Limit | ErrorKind::NotSupported) => {
            Comparison::Skipped
        }
        Err(error) if same(&error, &wanted["error"]) => Comparison::Same,
        Err(error) => Comparison::Different(format!("{error}\nis not\n{wanted}")),
        Ok(answer) if answer != wanted["answer"] => {
            Comparison::Different(format!("{answer}\nis not\n{wanted}"))
        }
        Ok(_) => match (case.template_error(), &wanted["template"]) {
            (None, Json::Null) => Comparison::Same,
            (Some(error), wanted) if same(&error, wanted) => Comparison::Same,
            (error, wanted) => Comparison::Different(format!("{error:?}\nis not\n{wanted}")),
        },
    }
}

/// Finds a smaller case that still differs, and formats it.
fn shrink(
    oracle: &mut Oracle,
    mut case: Case,
    mut how: String,
    engine: Engine,
    wordings: &mut Wordings,
) -> String {
    let mut questions = 0;
    'smaller: while questions < 2_000 {
        for candidate in case.smaller() {
            questions += 1;
            let wanted = parsed(&oracle.ask(&candidate.question()));
            let ours = candidate.answer(engine);
            if let Comparison::Different(difference) = compare(&candidate, ours, &wanted, wordings) {
                (case, how) = (candidate, difference);
                continue 'smaller;
            }
        }
        break;
    }
    format!("{case:?} {engine:?}\n{how}")
}

/// Starts Python, unless its version is another one.
fn start(python: &Path) -> Option<Oracle> {
    let mut oracle = Oracle::start(python, "regex.py");
    let version = parsed(&oracle.receive());
    if version != json!(PYTHON) {
        lmeval_testkit::skip(&format!("the test environment has Python {version}, not {PYTHON}"));
        return None;
    }
    Some(oracle)
}

fn parsed(answer: &str) -> Json {
    serde_json::from_str(answer).expect("the oracle answers in JSON")
}

/// Patterns to mutate: the recorded ones and those of the public task library.
fn seeds() -> Vec<String> {
    let recorded = fs_read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/re.json"));
    let cases: Vec<Json> = serde_json::from_str(&recorded).expect("recorded JSON");
    let mut seeds: Vec<String> =
        cases.iter().filter_map(|case| Some(case["p"].as_str()?.to_owned())).collect();
    if let Some(library) = lmeval_testkit::reference_library() {
        let mut lines = Vec::new();
        collect_patterns(&library, &mut lines);
        lines.sort_unstable();
        lines.dedup();
        // Repeated, so that both kinds are about equally likely.
        seeds.extend(lines.iter().cycle().take(lines.len().max(1000.min(lines.len() * 20))).cloned());
    }
    seeds
}

/// Collects the patterns of task files; leftover YAML quoting does not matter in a seed.
fn collect_patterns(folder: &Path, lines: &mut Vec<String>) {
    for entry in fs_err::read_dir(folder).expect("library").map(|entry| entry.expect("library")) {
        let path = entry.path();
        if path.is_dir() {
            collect_patterns(&path, lines);
        } else if path.to_string_lossy().ends_with("yaml")
            && let Ok(text) = fs_err::read_to_string(&path)
        {
            let patterns = text.lines().filter_map(|line| line.split_once("regex_pattern: "));
            lines.extend(patterns.map(|(_, pattern)| pattern.trim_matches(['"', '\'', ' ']).to_owned()));
        }
    }
}

#[test]
fn random_patterns_match_as_in_python() {
    let Some(python) = lmeval_testkit::test_environment() else { return };
    let seed = fuzz_seed(15);
    let cases = fuzz_cases(320_000) / STRINGS;
    let mut confirmed = Confirmed::load("patterns");
    let mut oracle: Option<Oracle> = None;
    let seeds = seeds();
    let mut dice = Dice::new(seed);
    let mut wordings = Wordings::default();
    let (mut done, mut skipped, mut invalid, mut different) = (0, 0, 0, Vec::new());
    while done < cases {
        let batch: Vec<(Case, Engine)> = (done..cases.min(done + BATCH))
            .map(|index| {
                let engine = if index.is_multiple_of(16) { Engine::Fast } else { Engine::Machine };
                (Case::random(&mut dice, &seeds), engine)
            })
            .collect();
        done += batch.len();
        let questions: Vec<String> = batch.iter().map(|(case, _)| case.question()).collect();
        let ours: Vec<_> = batch.iter().map(|(case, engine)| case.answer(*engine)).collect();
        let outcomes = batch.iter().zip(&ours).map(|((case, _), ours)| case.outcome(ours));
        if confirmed.contains(questions.iter().cloned().chain(outcomes)) {
            invalid += ours.iter().filter(|ours| ours.is_err()).count();
            continue;
        }
        if oracle.is_none() {
            oracle = start(&python);
        }
        let Some(oracle) = &mut oracle else { return };
        let (theirs, ()) = oracle.ask_all(&questions, || ());
        for (((case, engine), ours), theirs) in batch.into_iter().zip(ours).zip(theirs) {
            let wanted = parsed(&theirs);
            invalid += usize::from(wanted.get("error").is_some());
            match compare(&case, ours, &wanted, &mut wordings) {
                Comparison::Same => {}
                Comparison::Skipped => skipped += 1,
                Comparison::Different(how) => different.push((case, how, engine)),
            }
        }
    }
    println!("{cases} patterns, {invalid} not valid, {skipped} not compared, {} different", different.len());
    let count = different.len();
    let shown: Vec<String> = different
        .into_iter()
        .take(6)
        .map(|(case, how, engine)| {
            let oracle = oracle.as_mut().expect("Python found the difference");
            shrink(oracle, case, how, engine, &mut wordings)
        })
        .collect();
    assert!(count == 0, "seed {seed}: {count} differ\n{}", shown.join("\n\n"));
    assert!(skipped * 20 < cases, "{skipped} of {cases} were not compared");
    assert!(invalid * 2 < cases, "{invalid} of {cases} are not valid");
    confirmed.finish();
}
