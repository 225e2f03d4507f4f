//! Every template of the released task library, with generated documents, against Jinja2.
//!
//! Slow on purpose: Jinja2 takes seconds for all of them, and there is no other oracle.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use lmeval_pycompat::json::{Options, dumps, loads};
use lmeval_pycompat::random::Random;
use lmeval_pycompat::{Dict, Value, yaml};
use lmeval_template::Environment;

/// Documents per template.
const DOCUMENTS: usize = 12;

#[test]
fn library_templates_match_jinja2() {
    let environment = (lmeval_testkit::test_environment(), lmeval_testkit::reference_library());
    let (Some(python), Some(library)) = environment else {
        return;
    };
    let mut templates = BTreeSet::new();
    collect(&library, &mut templates);
    assert!(templates.len() > 1_500, "only {} templates", templates.len());
    let mut random = Random::from_seed(7);
    let environment = Environment::new();
    let mut requests = String::new();
    let mut ours = Vec::new();
    for source in &templates {
        let template = environment.compile(source);
        let names: Vec<String> = template
            .as_ref()
            .map(|template| template.undeclared_variables().into_iter().collect())
            .unwrap_or_default();
        for _ in 0..DOCUMENTS {
            let document: Dict =
                names.iter().map(|name| (Value::from(name.as_str()), value(&mut random, 2))).collect();
            let rendered = template.as_ref().ok().and_then(|template| template.render(&document).ok());
            let request =
                Value::dict([("template", Value::from(source.as_str())), ("doc", Value::from(document))]);
            requests.push_str(&dumps(&request, &Options::default()).unwrap());
            requests.push('\n');
            ours.push(rendered);
        }
    }
    let theirs = jinja2(&python, requests.clone());
    assert_eq!(theirs.len(), ours.len());
    let mut rendered = 0;
    for ((ours, theirs), request) in ours.iter().zip(&theirs).zip(requests.lines()) {
        assert_eq!(ours, theirs, "{request}");
        rendered += usize::from(ours.is_some());
    }
    assert!(rendered * 2 > ours.len(), "only {rendered} of {} render at all", ours.len());
}

/// The answers of `tests/record/jinja_lines.py`: the output, or `None` for a failure.
fn jinja2(python: &Path, requests: String) -> Vec<Option<String>> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/record/jinja_lines.py");
    let mut child =
        Command::new(python).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(requests.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| {
            let answer = loads(line).unwrap();
            answer.as_dict().unwrap().get_str("out").and_then(Value::as_str).map(str::to_owned)
        })
        .collect()
}

/// Adds the templates of all task files below a folder.
pub(crate) fn collect(folder: &Path, templates: &mut BTreeSet<String>) {
    for entry in fs_err::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), templates);
        } else if entry.file_name().to_string_lossy().ends_with("yaml") {
            let loader = yaml::Loader::for_directory("");
            if let Ok(loaded) = loader.load_bytes(&fs_err::read(entry.path()).unwrap()) {
                strings(&loaded.value, templates);
            }
        }
    }
}

fn strings(value: &Value, templates: &mut BTreeSet<String>) {
    match value {
        Value::Str(text) if text.contains("{{") || text.contains("{%") => {
            templates.insert(text.to_string());
        }
        Value::List(items) => items.iter().for_each(|item| strings(item, templates)),
        Value::Dict(dict) => dict.values().for_each(|value| strings(value, templates)),
        _ => {}
    }
}

/// A value of a kind that columns have.
fn value(random: &mut Random, depth: usize) -> Value {
    const TEXTS: [&str; 12] = [
        "A",
        "b",
        "",
        " yes ",
        "naïve 日本",
        "What's \"up\"?\n",
        "12",
        "3.5",
        "a|b",
        "option1",
        "[1, 2]",
        "True",
    ];
    let pick = |random: &mut Random, count: usize| random.choice_index(count).unwrap();
    let kinds = if depth == 0 { 6 } else { 9 };
    match pick(random, kinds) {
        0..=2 => Value::from(TEXTS[pick(random, TEXTS.len())]),
        3 => Value::Int([0, 1, 2, 3, -1, 1_000_000][pick(random, 6)]),
        4 => Value::Float([0.5, 1e22, -0.0, 3.0][pick(random, 4)]),
        5 => [Value::None, Value::Bool(true), Value::Bool(false)][pick(random, 3)].clone(),
        6 | 7 => {
            let count = pick(random, 5);
            Value::list((0..count).map(|_| value(random, depth - 1)))
        }
        _ => {
            let keys = ["text", "label", "choices", "0", "question", "answer"];
            Value::dict(keys.map(|key| (key, value(random, depth - 1))))
        }
    }
}
