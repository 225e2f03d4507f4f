//! Servers that sometimes answer badly.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lmeval_core::{Dialect, ModelErrorKind, ModelSettings, Response};
use lmeval_models::create;
use serde_json::{Value, json};

use crate::api_support::{Log, TOKENIZER, ask, dict, generate, model, pair, server};

const COMPLETION: &str = r#"{"choices": [{"index": 0, "text": " ok", "finish_reason": "stop"}]}"#;
const CHAT: &str = r#"{"choices": [{"index": 0, "message": {"content": " ok"}, "finish_reason": "stop"}]}"#;

/// A server whose first answer is bad.
async fn slipping(slip: &'static str, good: &'static str) -> (String, Log) {
    let calls = Arc::new(AtomicUsize::new(0));
    server(move |_, _| {
        let is_first = calls.fetch_add(1, Ordering::SeqCst) == 0;
        (200, if is_first { slip.to_owned() } else { good.to_owned() })
    })
    .await
}

/// The generation after one bad answer, and the number of calls.
async fn after_slip(backend: &str, path: &str, slip: &'static str, good: &'static str) -> (String, usize) {
    let (root, log) = slipping(slip, good).await;
    let args = format!(r#"{{"model": "m", "base_url": "{root}{path}", "tokenizer_backend": "none"}}"#);
    let model = model(backend, &args, 1, Dialect::V05).unwrap();
    let context = if backend.contains("chat") {
        lmeval_core::Context::Json(r#"[{"role": "user", "content": "a"}]"#.into())
    } else {
        "a".into()
    };
    let answer = ask(&model, generate(context, "{}")).await.unwrap_or_else(|error| panic!("{slip}: {error}"));
    let Response::Text(text) = answer.response else { panic!("no text") };
    let hits = log.lock().unwrap().len();
    (text.to_string(), hits)
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_malformed_generations() {
    for slip in [
        r#"{"choices": []}"#,
        r#"{"choices": [], "error": null}"#,
        r#"{"choices": [{"index": 0, "text": null, "finish_reason": "stop"}]}"#,
        r#"{"choices": [{"index": 0, "text": null}]}"#,
        r#"{"choices": [{"index": 0, "text": "a"}, {"index": 1, "text": "b"}]}"#,
        r#"{"choices": [{"index": 0, "text": "half", "finish_reason": "abort"}]}"#,
        r#"{"choices": [{"index": 0, "text": "", "finish_reason": "error"}]}"#,
        r#"{"choices": [{"index": 0, "text": "", "error": {"message": "overloaded"}}]}"#,
        r#"{"error": {"message": "overloaded"}, "choices": [{"index": 0, "text": ""}]}"#,
        r#"{"error": {"message": "overloaded"}}"#,
        r#"{"choices": [{"index": 0, "te"#,
        "<html><body>Bad gateway</body></html>",
        "null",
        "",
    ] {
        let found = after_slip("local-completions", "/v1/completions", slip, COMPLETION).await;
        assert_eq!(found, (" ok".to_owned(), 2), "{slip}");
    }
    for slip in [
        r#"{"choices": []}"#,
        r#"{"choices": [{}]}"#,
        r#"{"choices": [{"message": {"content": null}}]}"#,
        r#"{"choices": [{"message": {"content": null, "tool_calls": []}, "finish_reason": null}]}"#,
        r#"{"choices": [{"message": {"content": "half"}, "finish_reason": "error"}]}"#,
        r#"{"error": {"message": "overloaded"}}"#,
    ] {
        let found = after_slip("local-chat-completions", "/v1/chat/completions", slip, CHAT).await;
        assert_eq!(found, (" ok".to_owned(), 2), "{slip}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn accepts_an_empty_chat_answer_with_a_reason() {
    for answer in [
        r#"{"choices": [{"message": {"content": null}, "finish_reason": "stop"}]}"#,
        r#"{"choices": [{"message": {"content": null, "reasoning_content": "hm"}}]}"#,
        r#"{"choices": [{"message": {"content": null, "tool_calls": [{"id": "1"}]}}]}"#,
        r#"{"choices": [{"finish_reason": "content_filter"}]}"#,
    ] {
        let found = after_slip("local-chat-completions", "/v1/chat/completions", answer, CHAT).await;
        assert_eq!(found, (String::new(), 1), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn assigns_choices_by_index() {
    let choices = |indices: [i64; 2]| {
        let choice = |index: i64| json!({"index": index, "text": format!("text {index}")});
        json!({"choices": indices.map(choice)}).to_string()
    };
    for (first, hits) in [([1, 0], 1), ([0, 1], 1), ([0, 0], 2), ([1, 2], 2)] {
        let (first, good) = (choices(first), choices([0, 1]));
        let calls = Arc::new(AtomicUsize::new(0));
        let (root, log) = server(move |_, _| {
            let is_first = calls.fetch_add(1, Ordering::SeqCst) == 0;
            (200, if is_first { first.clone() } else { good.clone() })
        })
        .await;
        let args =
            format!(r#"{{"model": "m", "base_url": "{root}/v1/completions", "tokenizer_backend": "none"}}"#);
        let model = model("local-completions", &args, 2, Dialect::V05).unwrap();
        let requests = ["a", "b"].map(|text| generate(text.into(), "{}")).to_vec();
        let texts: Vec<Response> =
            model.answer(requests).await.into_iter().map(|answer| answer.unwrap().response).collect();
        assert_eq!(texts, ["text 0", "text 1"].map(|text| Response::Text(text.into())));
        assert_eq!(log.lock().unwrap().len(), hits);
    }
}

/// A good answer with log-probabilities for the tokens of a request.
fn scored(body: &str) -> String {
    let request: Value = serde_json::from_str(body).unwrap();
    let tokens = request["prompt"][0].as_array().unwrap().len() + 1;
    let logprobs =
        json!({"token_logprobs": vec![-1.0; tokens], "top_logprobs": vec![json!({"x": -1.0}); tokens]});
    json!({"choices": [{"index": 0, "logprobs": logprobs}]}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_log_probabilities_do_not_end_a_healthy_run() {
    let without = r#"{"choices": [{"index": 0, "text": "x", "logprobs": null}]}"#;
    // The second request gets one bad answer, the third only bad ones.
    let calls = Arc::new(AtomicUsize::new(0));
    let (root, log) = server(move |_, body| {
        let number = calls.fetch_add(1, Ordering::SeqCst);
        (200, if [0, 2].contains(&number) { scored(body) } else { without.to_owned() })
    })
    .await;
    let args =
        format!(r#"{{"model": "m", "base_url": "{root}/v1/completions", "tokenizer": "{TOKENIZER}"}}"#);
    let model = model("local-completions", &args, 1, Dialect::V05).unwrap();
    for hits in [1, 3] {
        ask(&model, pair("Hello world", " zero one")).await.unwrap();
        assert_eq!(log.lock().unwrap().len(), hits);
    }
    let error = ask(&model, pair("Hello world", " zero one")).await.unwrap_err();
    assert_eq!(error.kind(), ModelErrorKind::Answer, "{error}");
    assert!(!error.is_fatal() && error.to_string().contains("log-probabilities"), "{error}");
    assert_eq!(log.lock().unwrap().len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_a_first_answer_without_log_probabilities() {
    let calls = Arc::new(AtomicUsize::new(0));
    let (root, _) = server(move |_, body| {
        let is_first = calls.fetch_add(1, Ordering::SeqCst) == 0;
        (200, if is_first { r#"{"choices": [{"index": 0}]}"#.to_owned() } else { scored(body) })
    })
    .await;
    let args =
        format!(r#"{{"model": "m", "base_url": "{root}/v1/completions", "tokenizer": "{TOKENIZER}"}}"#);
    let model = model("local-completions", &args, 1, Dialect::V05).unwrap();
    ask(&model, pair("Hello world", " zero one")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_first_request_that_the_server_cannot_answer_does_not_end_the_run() {
    let is_poison = |body: &str| body.contains("poison");
    let (root, log) =
        server(
            move |_, body| {
                if is_poison(body) { (500, "cannot".to_owned()) } else { (200, COMPLETION.to_owned()) }
            },
        )
        .await;
    let args = format!(
        r#"{{"model": "m", "base_url": "{root}/v1/completions", "tokenizer_backend": "none", "num_concurrent": 1}}"#
    );
    let mut args = dict(&args);
    args.insert("retry_wait", 20);
    let model = create("local-completions", &ModelSettings::from_args(args)).unwrap();
    let error = ask(&model, generate("poison".into(), "{}")).await.unwrap_err();
    assert!(!error.is_fatal() && error.to_string().contains("10 attempts"), "{error}");
    ask(&model, generate("harmless".into(), "{}")).await.unwrap();
    let trials = log.lock().unwrap().iter().filter(|(_, body)| body.contains("Hello")).count();
    assert!(trials > 0, "{log:?}");
}
