//! `lm-eval run` with recorded answers reproduces the recorded results and samples.

use std::path::{Path, PathBuf};

use lmeval_pycompat::{Dict, Value, float, json, repr};
use lmeval_testkit::TestContext;

use crate::context;

pub(crate) const TEMPLATE: &str = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}\
                        {% if add_generation_prompt %}<assistant>{% endif %}";

pub(crate) fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/e2e")
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs_err::create_dir_all(to).unwrap();
    for entry in fs_err::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs_err::copy(entry.path(), target).unwrap();
        }
    }
}

pub(crate) fn dumps(value: &Value) -> String {
    json::dumps(value, &json::Options::default()).unwrap()
}

pub(crate) fn part<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value.as_dict()?.get_str(key)
}

/// The flags of a recorded run.
pub(crate) fn flags(context: &TestContext, run: &Dict) -> Vec<String> {
    let mut words = Vec::new();
    for (key, value) in run.iter() {
        let key = key.as_str().unwrap();
        let text = value.as_str().map_or_else(|| dumps(value), str::to_owned);
        match key {
            "tasks" => {
                words.push("--tasks".to_owned());
                for task in value.as_list().unwrap() {
                    words.push(match task.as_str() {
                        Some(name) => name.to_owned(),
                        None => {
                            context.write("inline.yaml", dumps(task));
                            "inline.yaml".to_owned()
                        }
                    });
                }
            }
            "limit"
            | "num_fewshot"
            | "system_instruction"
            | "samples"
            | "fewshot_as_multiturn"
            | "gen_kwargs"
            | "repeats"
            | "bootstrap_iters" => words.extend([format!("--{key}"), text]),
            "fewshot_random_seed" => words.extend(["--seed".to_owned(), format!("0,1234,1234,{text}")]),
            "apply_chat_template" => words.extend([
                "--apply_chat_template".to_owned(),
                "--model_args".to_owned(),
                "chat_template=template.jinja".to_owned(),
            ]),
            "predict_only" => words.push("--predict_only".to_owned()),
            other => panic!("unknown argument `{other}`"),
        }
    }
    words
}

/// Equal except for the last digits of floats.
fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Dict(ours), Value::Dict(theirs)) => {
            ours.len() == theirs.len()
                && ours.iter().all(|(key, value)| theirs.get(key).is_some_and(|their| same(value, their)))
        }
        (Value::List(ours), Value::List(theirs)) => {
            ours.len() == theirs.len()
                && ours.iter().zip(theirs.iter()).all(|(left, right)| same(left, right))
        }
        (Value::Float(ours), Value::Float(theirs)) => close(*ours, *theirs),
        (Value::Str(ours), Value::Str(theirs)) => {
            ours == theirs
                || matches!(
                    (float::parse_float(ours), float::parse_float(theirs)),
                    (Some(left), Some(right)) if close(left, right)
                )
        }
        _ => ours == theirs,
    }
}

fn close(left: f64, right: f64) -> bool {
    left == right
        || (left.is_nan() && right.is_nan())
        || (left - right).abs() <= 1e-12 * left.abs().max(right.abs())
}

fn leaves_as_text(value: &Value) -> Value {
    match value {
        Value::List(items) => Value::list(items.iter().map(leaves_as_text)),
        other => Value::from(repr::str(other)),
    }
}

/// A record as written to files.
fn as_in_files(record: &Value) -> Value {
    let mut record = Dict::clone(match record {
        Value::Dict(record) => record,
        _ => panic!("a record is a mapping"),
    });
    let requests = record.get_str("arguments").unwrap().as_list().unwrap().to_vec();
    let named = requests.iter().enumerate().map(|(index, arguments)| {
        let arguments = arguments.as_list().unwrap().iter().enumerate();
        let named = arguments.map(|(index, argument)| (format!("arg_{index}"), argument.clone()));
        (format!("gen_args_{index}"), Value::dict(named))
    });
    let named = Value::dict(named);
    record.insert("arguments", named);
    for key in ["resps", "filtered_resps"] {
        let text = leaves_as_text(record.get_str(key).unwrap());
        record.insert(key, text);
    }
    let target = repr::str(record.get_str("target").unwrap());
    record.insert("target", target);
    Value::from(record)
}

/// The only file in a folder with this prefix.
fn only_file(folder: &Path, start: &str) -> PathBuf {
    let mut found: Vec<PathBuf> = fs_err::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(start))
        .collect();
    assert_eq!(found.len(), 1, "{start}: {found:?}");
    found.remove(0)
}

#[test]
fn reproduces_recorded_results_and_samples() {
    let context = context();
    copy(&recordings(), &context.work());
    context.write("template.jinja", TEMPLATE);
    let recorded = fs_err::read_to_string(recordings().join("recorded.json")).unwrap();
    let recorded = json::loads(&recorded).unwrap();
    let mut compared = 0;
    for (number, case) in recorded.as_list().unwrap().iter().enumerate() {
        let name = part(case, "name").unwrap().as_str().unwrap().to_owned();
        let answers: String = part(case, "requests")
            .and_then(Value::as_list)
            .unwrap_or_default()
            .iter()
            .map(|line| dumps(line) + "\n")
            .collect();
        let recording = format!("answers-{number}.jsonl");
        let answers = if answers.is_empty() {
            "{\"type\": \"loglikelihood\", \"args\": [\"\", \"x\"], \"response\": [0.0, true]}\n".to_owned()
        } else {
            answers
        };
        context.write(&recording, answers);
        let out = format!("out-{number}");
        let model_args = format!("path={recording},strict=True");
        let mut words: Vec<String> = [
            "run",
            "--model",
            "replay",
            "--model_args",
            &model_args,
            "--library",
            "none",
            "--include_path",
            "tasks",
        ]
        .map(str::to_owned)
        .to_vec();
        words.extend(flags(&context, part(case, "run").unwrap().as_dict().unwrap()));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let run = |rest: &[&str]| context.run(&[words.as_slice(), rest].concat());
        let output = run(&["--output_path", &out, "--log_samples"]);
        if part(case, "error").is_some() {
            assert_eq!(output.status, 1, "{name}: {output}");
            continue;
        }
        assert_eq!(output.status, 0, "{name}: {output}");
        let folder = context.work().join(&out).join(format!("answers-{number}.jsonl"));
        let text = fs_err::read_to_string(only_file(&folder, "results_")).unwrap();
        let ours = json::loads(&text).unwrap();
        // Predictions need an output folder.
        let unlogged = run(&["--output_path", &format!("unlogged-{number}"), "--format", "json"]);
        assert_eq!(unlogged.status, 0, "{name}: {unlogged}");
        let printed = &unlogged.stdout[unlogged.stdout.find("{\n").unwrap()..];
        let unlogged = json::loads(printed).unwrap();
        for key in
            ["results", "groups", "group_subtasks", "versions", "n-shot", "higher_is_better", "n-samples"]
        {
            // Logging samples changes nothing else.
            assert_eq!(part(&unlogged, key).map(dumps), part(&ours, key).map(dumps), "{name}: {key}");
            match (part(&ours, key), part(case, key)) {
                (None, None) => {}
                (Some(ours), Some(theirs)) if same(ours, theirs) => {}
                (ours, theirs) => panic!("{name}: {key}\n{ours:?}\n{theirs:?}"),
            }
        }
        for (task, theirs) in part(case, "samples").unwrap().as_dict().unwrap().iter() {
            let task = task.as_str().unwrap();
            let text = fs_err::read_to_string(only_file(
                &folder,
                &format!("samples_{}_2", task.replace("::", "--")),
            ))
            .unwrap();
            let records: Vec<Value> = text.lines().map(|line| json::loads(line).unwrap()).collect();
            let theirs: Vec<Value> = theirs.as_list().unwrap().iter().map(as_in_files).collect();
            assert_eq!(records.len(), theirs.len(), "{name}: {task}");
            for (ours, theirs) in records.iter().zip(&theirs) {
                assert!(same(ours, theirs), "{name}: {task}\n{}\n{}", dumps(ours), dumps(theirs));
            }
            assert!(part(part(&ours, "task_hashes").unwrap(), task).is_some(), "{name}: {task}");
        }
        compared += 1;
    }
    assert_eq!(compared, 30);
}
