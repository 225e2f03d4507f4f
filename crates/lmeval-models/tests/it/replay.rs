//! `replay`.

use std::sync::Arc;

use lmeval_core::{
    Arguments, ChatMessage, Context, Diagnose as _, DocId, Model, ModelErrorKind, ModelRequest, Response,
    Role,
};
use lmeval_pycompat::json::{Options, dumps};
use lmeval_pycompat::{Dict, Value};
use tempfile::TempDir;

use crate::local::{ask, generate, identity, loglikelihood, model, rolling, score, text, value};

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/e2e/recorded.json");

/// A folder with files of these names and contents.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs_err::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn replay_with(folder: &TempDir, name: &str, more: &str) -> Result<Arc<dyn Model>, lmeval_core::ModelError> {
    let path = folder.path().join(name).display().to_string();
    model("replay", &format!(r#"{{"path": {path:?}{more}}}"#))
}

fn replay(text: &str) -> Arc<dyn Model> {
    let folder = folder(&[("a.jsonl", text)]);
    replay_with(&folder, "a.jsonl", "").unwrap()
}

fn line(value: &Value) -> String {
    dumps(value, &Options { ensure_ascii: false, ..Options::default() }).unwrap()
}

/// The requests of a recorded case, with their answers.
fn requests(case: &Dict) -> Vec<(ModelRequest, Value)> {
    let mut seen: Vec<ModelRequest> = Vec::new();
    let mut requests = Vec::new();
    for recorded in case.get_str("requests").and_then(Value::as_list).unwrap_or_default() {
        let recorded = recorded.as_dict().unwrap();
        let get = |name: &str| recorded.get_str(name).unwrap();
        let args = get("args").as_list().unwrap();
        let arg = |index: usize| args[index].as_str().unwrap();
        let arguments = match get("type").as_str().unwrap() {
            "loglikelihood" => {
                Arguments::Loglikelihood { context: arg(0).into(), continuation: arg(1).into() }
            }
            "loglikelihood_rolling" => Arguments::Rolling { text: arg(1).into() },
            _ => Arguments::Generate {
                context: arg(0).into(),
                kwargs: Arc::new(args[1].as_dict().unwrap().clone()),
            },
        };
        let mut request = ModelRequest {
            task_name: get("task").as_str().unwrap().into(),
            doc_id: DocId(get("doc_id").as_i64().unwrap() as usize),
            idx: get("idx").as_i64().unwrap() as usize,
            repeat: 0,
            arguments,
            additional_args: None,
            document: None,
            progress: None,
        };
        let repeat = seen.iter().filter(|other| **other == request).count();
        seen.push(request.clone());
        request.repeat = repeat;
        requests.push((request, get("response").clone()));
    }
    requests
}

fn as_value(response: &Response) -> Value {
    match response {
        Response::Text(text) => Value::Str(Arc::clone(text)),
        Response::Rolling { logprob } => Value::list([Value::Float(*logprob), Value::Bool(false)]),
        Response::Loglikelihood { logprob, is_greedy } => {
            Value::list([Value::Float(*logprob), Value::Bool(*is_greedy)])
        }
        Response::Letters(_) => response.to_value(),
    }
}

#[test]
fn replays_every_recorded_case() {
    let cases = value(&fs_err::read_to_string(RECORDED).unwrap());
    let mut count = 0;
    for case in cases.as_list().unwrap() {
        let case = case.as_dict().unwrap();
        let requests = requests(case);
        if requests.is_empty() {
            continue;
        }
        let recorded = case.get_str("requests").unwrap().as_list().unwrap();
        let lines: Vec<String> = recorded.iter().map(line).collect();
        let folder = folder(&[("a.jsonl", &lines.join("\n"))]);
        for strict in ["", r#", "strict": true"#] {
            let model = replay_with(&folder, "a.jsonl", strict).unwrap();
            for (request, expected) in &requests {
                let response = ask(&*model, request.clone()).unwrap();
                assert_eq!(as_value(&response), *expected, "{}", request.describe());
                count += 1;
            }
        }
    }
    assert_eq!(count, 2 * 1224);
}

/// The samples of a task, as written to a samples file.
fn samples_lines(records: &[Value]) -> String {
    fn leaves(value: &Value) -> Value {
        match value {
            Value::List(items) => Value::list(items.iter().map(leaves)),
            Value::Str(_) => value.clone(),
            other => Value::from(lmeval_pycompat::repr::str(other)),
        }
    }
    let mut lines = String::new();
    for record in records {
        let mut record = record.as_dict().unwrap().clone();
        let requests = record.get_str("arguments").unwrap().as_list().unwrap().to_vec();
        let named = requests.iter().enumerate().map(|(index, args)| {
            let args = args.as_list().unwrap().iter().enumerate();
            (
                format!("gen_args_{index}"),
                Value::dict(args.map(|(index, arg)| (format!("arg_{index}"), arg.clone()))),
            )
        });
        record.insert("arguments", Value::dict(named));
        let answers = leaves(record.get_str("resps").unwrap());
        record.insert("resps", answers);
        lines += &line(&Value::from(record));
        lines.push('\n');
    }
    lines
}

#[test]
fn replays_the_samples_of_every_recorded_case() {
    let cases = value(&fs_err::read_to_string(RECORDED).unwrap());
    let mut count = 0;
    for case in cases.as_list().unwrap() {
        let case = case.as_dict().unwrap();
        let Some(samples) =
            case.get_str("samples").and_then(Value::as_dict).filter(|samples| !samples.is_empty())
        else {
            continue;
        };
        let folder = tempfile::tempdir().unwrap();
        for (task, records) in samples.iter() {
            let name = format!("samples_{}_2025-01-01T00-00-00.000001.jsonl", task.as_str().unwrap());
            fs_err::write(folder.path().join(name), samples_lines(records.as_list().unwrap())).unwrap();
        }
        let model = replay_with(&folder, "", "").unwrap();
        for (request, expected) in requests(case) {
            let response = ask(&*model, request.clone()).unwrap();
            assert_eq!(as_value(&response), expected, "{}", request.describe());
            count += 1;
        }
    }
    assert!(count > 1000, "{count}");
}

#[test]
fn replays_repeats_in_order() {
    let model = replay(concat!(
        r#"{"type": "generate_until", "args": ["q", {}], "response": "one"}"#,
        "\n\n",
        r#"{"type": "generate_until", "args": ["q"], "response": "two"}"#,
        "\n",
        r#"{"type": "generate_until", "args": ["same", {}], "response": "s"}"#,
    ));
    let repeat = |context: &str, repeat| {
        let mut request = generate(context, "{}");
        request.repeat = repeat;
        ask(&*model, request)
    };
    assert_eq!(repeat("q", 0).unwrap(), Response::Text("one".into()));
    assert_eq!(repeat("q", 1).unwrap(), Response::Text("two".into()));
    assert_eq!(repeat("same", 7).unwrap(), Response::Text("s".into()));
    let error = repeat("q", 2).unwrap_err();
    assert_eq!(error.kind(), ModelErrorKind::Request);
    assert_eq!(
        error.to_string(),
        "The recording has 2 answers to `t`, document 0, generate_until 0, but repeat 3 was requested: `q`",
    );
}

#[test]
fn prefers_answers_of_the_same_document() {
    let model = replay(concat!(
        r#"{"task": "g::t@cot", "doc_id": 0, "idx": 0, "type": "generate_until", "args": ["q", {}], "response": "a0"}"#,
        "\n",
        r#"{"task": "t", "doc_id": 1, "type": "generate_until", "args": ["q", {}], "response": "b0"}"#,
        "\n",
        r#"{"task": "t", "doc_id": 0, "idx": 0, "type": "generate_until", "args": ["q", {}], "response": "a1"}"#,
        "\n",
        r#"{"task": "t", "doc_id": 0, "idx": 1, "type": "generate_until", "args": ["q", {}], "response": "other"}"#,
    ));
    let at = |doc_id, idx, repeat| {
        let mut request = generate("q", "{}");
        (request.doc_id, request.idx, request.repeat) = (DocId(doc_id), idx, repeat);
        text(&*model, request)
    };
    assert_eq!([at(0, 0, 0), at(0, 0, 1), at(0, 1, 0), at(1, 0, 0)], ["a0", "a1", "other", "b0"]);
    assert_eq!([at(7, 0, 0), at(7, 0, 1)], ["a0", "b0"]);
    assert!(model.traits().depends_on_document);
}

#[test]
fn reads_all_kinds_of_numbers() {
    let model = replay(concat!(
        r#"{"type": "loglikelihood", "args": ["a", " b"], "response": [-Infinity, true]}"#,
        "\n",
        r#"{"type": "loglikelihood", "args": ["a", " c"], "response": [-2, false]}"#,
        "\n",
        r#"{"type": "loglikelihood_rolling", "args": ["", "x"], "response": -1.5}"#,
        "\n",
        r#"{"type": "loglikelihood_rolling", "args": ["y"], "response": [-2.5, false]}"#,
        "\n",
    ));
    assert_eq!(score(&*model, loglikelihood("a", " b")), (f64::NEG_INFINITY, true));
    assert_eq!(score(&*model, loglikelihood("a", " c")), (-2.0, false));
    assert_eq!(score(&*model, rolling("x")).0, -1.5);
    assert_eq!(score(&*model, rolling("y")).0, -2.5);
}

#[test]
fn names_missing_requests() {
    let model = replay(concat!(
        r#"{"task": "t", "doc_id": 0, "type": "loglikelihood", "args": ["One two\nthree", " b"], "response": [-1, true]}"#,
        "\n",
    ));
    let error = ask(&*model, loglikelihood("One two\nfour", " b")).unwrap_err();
    assert_eq!(error.kind(), ModelErrorKind::Request);
    assert_eq!(
        error.to_string(),
        r"The recording has no `t`, document 0, loglikelihood 0: `One two\nfour` + ` b`",
    );
    assert_eq!(
        error.hints(),
        [
            "The recorded prompt of this document differs from character 8 on: requested `four b`, recorded `three b`"
        ],
    );
    let long = "x".repeat(1000);
    let error = ask(&*model, generate(long.as_str(), "{}")).unwrap_err().to_string();
    assert!(error.ends_with(&format!("`{}…`", "x".repeat(200))), "{error}");
}

#[test]
fn strict_compares_settings() {
    let recording = folder(&[(
        "a.jsonl",
        r#"{"type": "generate_until", "args": ["q", {"until": ["\n"], "temperature": 0}], "response": "r"}"#,
    )]);
    let loose = replay_with(&recording, "a.jsonl", "").unwrap();
    assert_eq!(text(&*loose, generate("q", "{}")), "r");
    let strict = replay_with(&recording, "a.jsonl", r#", "strict": true"#).unwrap();
    assert_eq!(text(&*strict, generate("q", r#"{"temperature": 0.0, "until": ["\n"]}"#)), "r");
    let error = ask(&*strict, generate("q", r#"{"until": ["\n"]}"#)).unwrap_err();
    assert!(error.to_string().contains("only with other generation settings"), "{error}");
    assert!(error.hints()[0].contains("'temperature': 0"), "{:?}", error.hints());
}

#[test]
fn matches_chat_messages_in_any_form() {
    let messages: Arc<[ChatMessage]> =
        [ChatMessage::new(Role::System, "s"), ChatMessage::new(Role::User, "héllo")].into();
    let as_list = r#"[{"role": "system", "content": "s"}, {"role": "user", "content": "héllo"}]"#;
    let typed =
        r#"[{"role":"system","content":"s","type":"text"},{"type":"text","content":"héllo","role":"user"}]"#;
    let as_text = line(&Value::str(typed));
    for context in [as_list.to_owned(), typed.to_owned(), as_text.clone(), format!("[{as_text}]")] {
        let model =
            replay(&format!(r#"{{"type": "generate_until", "args": [{context}, {{}}], "response": "r"}}"#));
        let template = model.chat_template(None).unwrap().template;
        let applied = template.apply(messages.to_vec(), true).unwrap();
        assert_eq!(text(&*model, generate(applied, "{}")), "r", "{context}");
        assert_eq!(text(&*model, generate(Context::Json(as_list.into()), "{}")), "r", "{context}");
        assert!(ask(&*model, generate("héllo", "{}")).is_err());
    }
}

#[test]
fn renders_a_template_file() {
    let template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}\
                    {% if add_generation_prompt %}<assistant>{% endif %}";
    let recording = folder(&[
        ("chat.jinja", template),
        ("bad.jinja", "{% for %}"),
        (
            "a.jsonl",
            r#"{"type": "generate_until", "args": ["<user>q</user><assistant>", {}], "response": "r"}"#,
        ),
    ]);
    let with = |name: &str| {
        let path = recording.path().join(name).display().to_string();
        replay_with(&recording, "a.jsonl", &format!(r#", "chat_template": {path:?}"#))
    };
    let model = with("chat.jinja").unwrap();
    let chat = model.chat_template(None).unwrap();
    assert_eq!(chat.source.as_deref(), Some(template));
    let context = chat.template.apply(vec![ChatMessage::new(Role::User, "q")], true).unwrap();
    assert_eq!(text(&*model, generate(context, "{}")), "r");
    assert!(with("bad.jinja").unwrap_err().to_string().contains("bad.jinja"));
    assert!(with("none.jinja").unwrap_err().to_string().contains("none.jinja"));
}

#[test]
fn names_the_bad_line() {
    for (text, message) in [
        ("{\"type\": \"loglikelihood\"", "it is not JSON"),
        ("[1]", "it is not a JSON object"),
        (r#"{"args": ["a", "b"], "response": [1, true]}"#, "it has no `type`"),
        (r#"{"type": "guess", "args": [], "response": 1}"#, "its `type` is not"),
        (r#"{"type": "loglikelihood", "response": [1, true]}"#, "it has no list `args`"),
        (r#"{"type": "loglikelihood", "args": ["a"], "response": [1, true]}"#, "argument 1"),
        (r#"{"type": "generate_until", "args": [7], "response": "x"}"#, "the context"),
        (r#"{"type": "generate_until", "args": []}"#, "the context"),
        (r#"{"type": "generate_until", "args": ["a"]}"#, "it has no `response`"),
        (r#"{"type": "loglikelihood", "args": ["a", "b"], "response": "x"}"#, "its answer is not a list"),
        (
            r#"{"type": "loglikelihood_rolling", "args": ["a"], "response": "x"}"#,
            "its answer is not a number",
        ),
        (r#"{"type": "generate_until", "args": ["a"], "response": null}"#, "its answer is not a string"),
        (r#"{"resps": [], "doc_id": 0}"#, "its `arguments` are not a mapping"),
        (r#"{"resps": 1, "arguments": {}}"#, "its `resps` are not a list"),
        (r#"{"resps": [], "arguments": {"gen_args_0": {"arg_0": "x", "arg_1": "y"}}}"#, "1 requests"),
        (r#"{"resps": [[]], "arguments": {"x": 1}}"#, "no `gen_args_0`"),
        (r#"{"resps": [[]], "arguments": {"gen_args_0": {"arg_0": 1}}}"#, "do not match any request type"),
    ] {
        let good = r#"{"type": "loglikelihood_rolling", "args": ["a"], "response": 1}"#;
        let folder = folder(&[("a.jsonl", &format!("{good}\n{text}\n{good}\n"))]);
        let error = replay_with(&folder, "a.jsonl", "").unwrap_err();
        assert_eq!(error.kind(), ModelErrorKind::Configuration);
        let shown = error.to_string();
        assert!(shown.starts_with("Line 2 of `") && shown.contains(message), "{text}: {shown}");
    }
    let files = folder(&[("empty.jsonl", "\n"), ("binary.jsonl", "")]);
    fs_err::write(files.path().join("binary.jsonl"), [0xFF, 0xFE, b'\n']).unwrap();
    for (name, message) in [
        ("empty.jsonl", "is empty"),
        ("binary.jsonl", "Line 1 of"),
        ("none.jsonl", "none.jsonl"),
        ("", "has no samples file"),
    ] {
        let error = replay_with(&files, name, "").unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn reads_the_newest_samples_of_a_folder() {
    let sample = |filter: &str, answer: &str| {
        format!(
            r#"{{"doc_id": 0, "arguments": {{"gen_args_0": {{"arg_0": "q", "arg_1": {{}}}}}}, "resps": [["{answer}"]], "filter": "{filter}"}}"#
        )
    };
    let two = format!("{}\n{}\n", sample("a", "new"), sample("b", "new"));
    let folder = folder(&[
        ("samples_t_2024-01-01T00-00-00.0.jsonl", &sample("a", "old")),
        ("samples_t_2025-01-01T00-00-00.0.jsonl", &two),
        ("results_2025.json", "{"),
    ]);
    let model = replay_with(&folder, "", "").unwrap();
    assert_eq!(text(&*model, generate("q", "{}")), "new");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let both = format!(
        "{};{}",
        at("samples_t_2024-01-01T00-00-00.0.jsonl"),
        at("samples_t_2025-01-01T00-00-00.0.jsonl")
    );
    let both = crate::local::model("replay", &format!(r#"{{"path": {both:?}}}"#)).unwrap();
    let mut request = generate("q", "{}");
    assert_eq!(text(&*both, request.clone()), "old");
    request.repeat = 1;
    assert_eq!(text(&*both, request.clone()), "new");
    request.repeat = 2;
    assert!(ask(&*both, request).is_err());
    assert_ne!(identity(&*both).facts[1], identity(&*model).facts[1]);
}

#[test]
fn tasks_with_double_dashes_get_their_own_answers() {
    let sample = |answer: &str| {
        format!(
            r#"{{"doc_id": 0, "arguments": {{"gen_args_0": {{"arg_0": "q", "arg_1": {{}}}}}}, "resps": [["{answer}"]], "filter": "f"}}"#
        )
    };
    let folder = folder(&[
        ("samples_a_2025-01-01T00-00-00.0.jsonl", &sample("of a")),
        ("samples_g--in_group_2025-01-01T00-00-00.0.jsonl", &sample("of in_group")),
        ("samples_my--task_2025-01-01T00-00-00.0.jsonl", &sample("of my--task")),
        ("samples_task_2025-01-01T00-00-00.0.jsonl", &sample("of task")),
    ]);
    let model = replay_with(&folder, "", "").unwrap();
    for task in ["my--task", "task", "in_group", "a"] {
        let mut request = generate("q", "{}");
        request.task_name = task.into();
        assert_eq!(text(&*model, request), format!("of {task}"));
    }
}
