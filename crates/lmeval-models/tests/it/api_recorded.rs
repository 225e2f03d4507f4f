//! Bodies and numbers recorded from the reference harness by `api_reference.py`.

use std::collections::{HashMap, HashSet};
use std::process::Command;
use std::sync::Arc;

use lmeval_core::{Arguments, Context, Dialect, ModelRequest, Response};
use lmeval_pycompat::{Dict, Value, json};

use crate::api_support::{TOKENIZER, bodies, model, request, server, value};

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/api_recorded.json");

fn cases(wanted: impl Fn(&str) -> bool) -> Vec<Dict> {
    let recorded = value(&fs_err::read_to_string(RECORDED).unwrap());
    let cases = recorded.as_list().unwrap().iter().map(|case| case.as_dict().unwrap().clone());
    cases.filter(|case| wanted(text(case, "backend"))).collect()
}

fn text<'a>(dict: &'a Dict, name: &str) -> &'a str {
    dict.get_str(name).and_then(Value::as_str).unwrap()
}

fn list<'a>(dict: &'a Dict, name: &str) -> &'a [Value] {
    dict.get_str(name).and_then(Value::as_list).unwrap()
}

fn context(recorded: &Value) -> Context {
    match recorded {
        Value::Str(text) => Context::Text(Arc::clone(text)),
        messages => {
            let options = json::Options { ensure_ascii: false, ..json::Options::default() };
            Context::Json(json::dumps(messages, &options).unwrap().into())
        }
    }
}

fn recorded_request(recorded: &Value) -> ModelRequest {
    let parts = recorded.as_list().unwrap();
    request(match parts[0].as_str().unwrap() {
        "loglikelihood" => Arguments::Loglikelihood {
            context: context(&parts[1]),
            continuation: parts[2].as_str().unwrap().into(),
        },
        "loglikelihood_rolling" => Arguments::Rolling { text: parts[1].as_str().unwrap().into() },
        _ => Arguments::Generate {
            context: context(&parts[1]),
            kwargs: Arc::new(parts[2].as_dict().unwrap().clone()),
        },
    })
}

fn check(response: &Response, recorded: &Value, backend: &str, location: &str) {
    match response {
        Response::Text(text) => assert_eq!(recorded.as_str(), Some(text.as_ref()), "{location}"),
        Response::Rolling { logprob } => assert_eq!(recorded.to_f64(), Some(*logprob), "{location}"),
        Response::Loglikelihood { logprob, is_greedy } => {
            let recorded = recorded.as_list().unwrap();
            assert_eq!(recorded[0].to_f64(), Some(*logprob), "{location}");
            // The reference inverts SGLang's flag.
            let expected = recorded[1].as_bool().unwrap() != (backend == "sglang-generate");
            assert_eq!(*is_greedy, expected, "{location}");
        }
        Response::Letters(_) => panic!("{location}: no recording has letters"),
    }
}

async fn replay(case: &Dict) {
    let backend = text(case, "backend");
    let exchanges: Vec<&Dict> =
        list(case, "exchanges").iter().map(|exchange| exchange.as_dict().unwrap()).collect();
    let answers: HashMap<(String, String), String> = exchanges
        .iter()
        .map(|exchange| {
            let part = |name| text(exchange, name).to_owned();
            ((part("path"), part("body")), part("answer"))
        })
        .collect();
    let (root, log) = server(move |path, body| match answers.get(&(path.to_owned(), body.to_owned())) {
        Some(answer) => (200, answer.clone()),
        None => (400, format!("not recorded: {path} {body}")),
    })
    .await;
    let mut args = case.get_str("args").and_then(Value::as_dict).unwrap().clone();
    if args.contains_str("tokenizer") {
        args.insert("tokenizer", TOKENIZER);
    }
    args.insert("base_url", format!("{root}{}", text(case, "path")));
    let args = json::dumps(&Value::Dict(Arc::new(args)), &json::Options::default()).unwrap();
    let batch_size = case.get_str("batch_size").and_then(Value::as_i64).unwrap();
    let model = model(backend, &args, batch_size, Dialect::V04).unwrap();
    let requests: Vec<ModelRequest> = list(case, "requests").iter().map(recorded_request).collect();
    for (number, chunk) in requests.chunks(batch_size as usize).enumerate() {
        let answers = model.answer(chunk.to_vec()).await;
        for (offset, answer) in answers.into_iter().enumerate() {
            let index = number * batch_size as usize + offset;
            let location = format!("{args}: {:?}", requests[index].arguments);
            let answer = answer.unwrap_or_else(|error| panic!("{location}: {error}"));
            check(&answer.response, &list(case, "results")[index], backend, &location);
        }
    }
    let sent: HashSet<String> = bodies(&log).into_iter().collect();
    let expected: HashSet<String> =
        exchanges.iter().map(|exchange| text(exchange, "body").to_owned()).collect();
    assert_eq!(sent, expected, "{args}");
}

#[tokio::test(flavor = "multi_thread")]
async fn matches_recorded_bodies_and_numbers() {
    let cases = cases(|backend| backend != "anthropic-chat");
    assert!(cases.len() > 15);
    for case in &cases {
        replay(case).await;
    }
}

/// Anthropic's key comes only from the environment, so this test reruns itself in a process that has one.
#[test]
fn matches_recorded_anthropic_bodies() {
    if std::env::var("ANTHROPIC_API_KEY").is_ok_and(|key| key == "key") {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        for case in &cases(|backend| backend == "anthropic-chat") {
            runtime.block_on(replay(case));
        }
        return;
    }
    let name = "api_recorded::matches_recorded_anthropic_bodies";
    let again = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--test-threads=1"])
        .env("ANTHROPIC_API_KEY", "key")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success() && output.contains("1 passed"), "{output}");
}
