//! Compares random patterns with the `re` of a running Python.
//!
//! One Python process answers for all patterns, each with several texts. `LM_EVAL_FUZZ_SEED` and `LM_EVAL_FUZZ_CASES`
//! choose other cases and how many pairs of pattern and text there are. What differs is made smaller before it is shown.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value as Json, json};

use super::generator::{Dice, grammatical, loose, mutated, template, text};
use super::vectors::{as_json, flags_from_bits, fs_read, optional_spans, spans};
use super::wording::{Said, Wordings};
use crate::re::pattern::Engine;
use crate::re::{Error, ErrorKind, Regex};

/// Texts for each pattern.
const TEXTS: usize = 10;
const STEPS: u64 = 100_000;
/// The version of Python whose answers count.
const ORACLE: &str = "3.11";

/// A pattern and what is done with it.
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
        let pattern = match dice.below(20) {
            0..=13 => grammatical(dice),
            14..=17 => {
                let seed = dice.pick(seeds).clone();
                mutated(dice, &seed)
            }
            18 => {
                let seed = grammatical(dice);
                mutated(dice, &seed)
            }
            _ => loose(dice),
        };
        let flags = (0..5).filter(|_| dice.percent(6)).fold(0, |flags, bit| flags | 1 << bit);
        let texts = (0..TEXTS).map(|_| text(dice, &pattern)).collect();
        Self { pattern, flags, texts, template: template(dice), count: dice.below(5) / 2 }
    }

    fn question(&self) -> String {
        let Self { pattern, flags, texts, template, count } = self;
        json!([pattern, flags, texts, template, count]).to_string()
    }

    /// What we answer, in the form of the script.
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

    /// The error about the template.
    fn template_error(&self) -> Option<Error> {
        let regex = Regex::new(&self.pattern, flags_from_bits(self.flags)).ok()?;
        regex.sub(&self.template, "", 0).err()
    }

    /// Cases that are a little smaller.
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

/// A text without some of its characters.
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

/// What came of a comparison.
enum Outcome {
    Same,
    /// Not compared, as one of both cannot answer.
    Skipped,
    Different(String),
}

struct Oracle {
    process: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    fn start(python: &Path) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracle/regex.py");
        let mut process = Command::new(python)
            .args(["-W", "ignore", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python runs");
        let questions = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().expect("piped"));
        Self { process, questions, answers }
    }

    fn answer(&mut self) -> Json {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("an answer");
        serde_json::from_str(&line).expect("an answer in JSON")
    }

    fn ask(&mut self, case: &Case) -> Json {
        let questions = self.questions.as_mut().expect("open");
        writeln!(questions, "{}", case.question()).expect("question");
        questions.flush().expect("question");
        self.answer()
    }
}

/// Compares our answer with Python's: null where it took too long, `{"error": …}` for a pattern that is not valid.
fn compare(case: &Case, wanted: &Json, engine: Engine, wordings: &mut Wordings) -> Outcome {
    if wanted.is_null() {
        return Outcome::Skipped;
    }
    let said = |error: &Json| -> Option<(String, String, Option<u64>)> {
        Some((error[0].as_str()?.to_owned(), error[1].as_str()?.to_owned(), error[2].as_u64()))
    };
    let mut same = |error: &Error, wanted: &Json| {
        said(wanted).is_some_and(|(class, message, position)| {
            wordings.agree(error, &Said { class: Some(&class), message: &message, position })
        })
    };
    match case.answer(engine) {
        Err(error) if matches!(error.kind(), ErrorKind::Limit | ErrorKind::NotSupported) => Outcome::Skipped,
        Err(error) if same(&error, &wanted["error"]) => Outcome::Same,
        Err(error) => Outcome::Different(format!("{error}\nis not\n{wanted}")),
        Ok(answer) if answer != wanted["answer"] => Outcome::Different(format!("{answer}\nis not\n{wanted}")),
        Ok(_) => match (case.template_error(), &wanted["template"]) {
            (None, Json::Null) => Outcome::Same,
            (Some(error), wanted) if same(&error, wanted) => Outcome::Same,
            (error, wanted) => Outcome::Different(format!("{error:?}\nis not\n{wanted}")),
        },
    }
}

/// The smallest case that still differs, and how.
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
            let wanted = oracle.ask(&candidate);
            if let Outcome::Different(difference) = compare(&candidate, &wanted, engine, wordings) {
                (case, how) = (candidate, difference);
                continue 'smaller;
            }
        }
        break;
    }
    format!("{case:?} {engine:?}\n{how}")
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

/// Patterns to change: those of the recording, and those in the files of the public library.
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
        // As many of them as of the others, so that both kinds are drawn.
        seeds.extend(lines.iter().cycle().take(lines.len().max(1000.min(lines.len() * 20))).cloned());
    }
    seeds
}

/// The lines of task files that give a pattern; that YAML may quote it does no harm to a seed.
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
fn random_patterns_do_what_python_does() {
    let Some(python) = lmeval_testkit::test_environment() else { return };
    let seed = from_environment("LM_EVAL_FUZZ_SEED", 15);
    let cases = from_environment("LM_EVAL_FUZZ_CASES", 320_000) as usize / TEXTS;
    let mut oracle = Oracle::start(&python);
    let version = oracle.answer();
    if version != json!(ORACLE) {
        println!("Python {version} is not {ORACLE}, whose answers count");
        return;
    }
    let seeds = seeds();
    let mut writer = oracle.questions.take().expect("piped");
    let every_seed = seeds.clone();
    let asking = std::thread::spawn(move || {
        let mut dice = Dice::new(seed);
        for _ in 0..cases {
            writeln!(writer, "{}", Case::random(&mut dice, &every_seed).question()).expect("question");
        }
        writer
    });
    let mut dice = Dice::new(seed);
    let mut wordings = Wordings::default();
    let (mut skipped, mut invalid, mut different) = (0, 0, Vec::new());
    for index in 0..cases {
        let case = Case::random(&mut dice, &seeds);
        let wanted = oracle.answer();
        let engine = if index % 16 == 0 { Engine::Fast } else { Engine::Machine };
        invalid += usize::from(wanted.get("error").is_some());
        match compare(&case, &wanted, engine, &mut wordings) {
            Outcome::Same => {}
            Outcome::Skipped => skipped += 1,
            Outcome::Different(how) => different.push((case, how, engine)),
        }
    }
    oracle.questions = Some(asking.join().expect("all asked"));
    println!("{cases} patterns, {invalid} not valid, {skipped} not compared, {} different", different.len());
    let count = different.len();
    let shown: Vec<String> = different
        .into_iter()
        .take(6)
        .map(|(case, how, engine)| shrink(&mut oracle, case, how, engine, &mut wordings))
        .collect();
    drop(oracle.questions.take());
    oracle.process.wait().expect("Python ends");
    assert!(count == 0, "seed {seed}: {count} differ\n{}", shown.join("\n\n"));
    assert!(skipped * 20 < cases, "{skipped} of {cases} were not compared");
    assert!(invalid * 2 < cases, "{invalid} of {cases} are not valid");
}
