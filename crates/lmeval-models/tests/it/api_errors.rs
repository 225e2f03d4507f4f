//! Servers that lack what a task needs.

use std::sync::Arc;

use lmeval_core::{Diagnose as _, Dialect, Model, ModelError, ModelErrorKind, RequestType};
use lmeval_models::{ModelSettings, create};

use crate::api_support::{TOKENIZER, ask, dict, generate, model, pair, server};

async fn scored_by(name: &str, path: &str, more: &str, answer: &'static str) -> (ModelError, usize) {
    let (root, log) = server(move |_, _| (200, answer.to_owned())).await;
    let args = format!(
        r#"{{"model": "m", "base_url": "{root}{path}", "tokenizer_backend": "huggingface", "tokenizer": "{TOKENIZER}"{more}}}"#
    );
    let model = model(name, &args, 1, Dialect::V05).unwrap();
    let error = ask(&model, pair("Hello world", " zero one two three")).await.expect_err(answer);
    let hits = log.lock().unwrap().len();
    (error, hits)
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_missing_prompt_log_probabilities() {
    for answer in [
        r#"{"choices": [{"index": 0, "text": "x"}]}"#,
        r#"{"choices": [{"index": 0, "text": "x", "logprobs": null}]}"#,
        r#"{"choices": [{"index": 0, "text": "x", "logprobs": {"tokens": []}}]}"#,
        r#"{"choices": [{"index": 0, "text": "x", "logprobs": {"token_logprobs": []}}]}"#,
        r#"{"choices": [{"index": 0, "text": "x", "logprobs": {"token_logprobs": [-0.5], "top_logprobs": [{"x": -0.5}]}}]}"#,
        r#"{"choices": [{"index": 0, "text": "x", "logprobs": {"content": [{"token": "x", "logprob": -0.5}]}}]}"#,
    ] {
        for more in ["", r#", "tokenized_requests": false"#] {
            let (error, hits) = scored_by("local-completions", "/v1/completions", more, answer).await;
            assert_eq!(error.kind(), ModelErrorKind::Capability, "{answer}: {error}");
            assert!(error.is_fatal() && error.hints()[0].contains("--logits_all true"), "{error}");
            // More than once, since it may be transient; less often than other failures, since every request
            // would fail.
            assert_eq!(hits, 2, "{answer}");
        }
        let (error, _) = scored_by("gguf", "", "", answer).await;
        assert_eq!(error.kind(), ModelErrorKind::Capability, "{answer}: {error}");
    }
    let (error, _) =
        scored_by("sglang-generate", "/generate", "", r#"[{"text": "x", "meta_info": {}}]"#).await;
    assert_eq!(error.kind(), ModelErrorKind::Capability);
}

#[tokio::test(flavor = "multi_thread")]
async fn detects_a_different_tokenizer() {
    let long = r#"{"choices": [{"index": 0, "logprobs": {"token_logprobs": [null, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1], "top_logprobs": []}}]}"#;
    for more in ["", r#", "tokenized_requests": false"#] {
        let (error, _) = scored_by("local-completions", "/v1/completions", more, long).await;
        assert_eq!(error.kind(), ModelErrorKind::Answer, "{error}");
        assert!(!error.is_fatal());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_malformed_answers() {
    for answer in ["", "[1]", "{}", r#"{"error": {"message": "loading"}}"#, r#"{"choices": [{}]}"#] {
        let (root, log) = server(move |_, _| (200, answer.to_owned())).await;
        let args =
            format!(r#"{{"model": "m", "base_url": "{root}/v1/completions", "tokenizer_backend": "none"}}"#);
        let model = model("local-completions", &args, 1, Dialect::V05).unwrap();
        let error = ask(&model, generate("a".into(), "{}")).await.expect_err(answer);
        assert!(!error.is_fatal(), "{answer}: {error}");
        assert_eq!(log.lock().unwrap().len(), 2, "{answer}");
    }
    let two = r#"{"choices": [{"index": 0, "text": "a"}, {"index": 1, "text": "b"}]}"#;
    let (root, log) = server(move |_, _| (200, two.to_owned())).await;
    let args =
        format!(r#"{{"model": "m", "base_url": "{root}/v1/completions", "tokenizer_backend": "none"}}"#);
    let model = model("local-completions", &args, 1, Dialect::V05).unwrap();
    let error = ask(&model, generate("a".into(), r#"{"n": 2}"#)).await.unwrap_err();
    assert_eq!((error.kind(), log.lock().unwrap().len()), (ModelErrorKind::Answer, 1));
}

fn create_model(name: &str, args: &str) -> Result<Arc<dyn Model>, ModelError> {
    create(name, &ModelSettings::from_args(dict(args)))
}

#[test]
fn names_missing_keys_and_arguments() {
    for (name, variable, args) in [
        ("openai-completions", "OPENAI_API_KEY", r#"{"model": "davinci-002"}"#),
        ("openai-chat-completions", "OPENAI_API_KEY", r#"{"model": "gpt-4o"}"#),
        ("anthropic-completions", "ANTHROPIC_API_KEY", "{}"),
        ("textsynth", "TEXTSYNTH_API_SECRET_KEY", r#"{"engine": "gptj_6B"}"#),
        (
            "azure-openai-chat-completions",
            "AZURE_OPENAI_API_KEY",
            r#"{"model": "m", "base_url": "http://a"}"#,
        ),
    ] {
        if std::env::var(variable).is_ok() {
            continue;
        }
        let error = create_model(name, args).unwrap_err();
        assert_eq!(error.kind(), ModelErrorKind::Configuration);
        assert!(error.to_string().contains(variable), "{error}");
    }
    assert!(create_model("textsynth", "{}").unwrap_err().to_string().contains("`engine`"));
    assert!(create_model("gguf", "{}").unwrap_err().to_string().contains("`base_url`"));
}

#[test]
fn reports_unsupported_requests() {
    let header = r#""header": {"Authorization": "Bearer x"}"#;
    let openai = |model: &str| {
        create_model("openai-completions", &format!(r#"{{"model": "{model}", {header}}}"#)).unwrap()
    };
    assert!(openai("davinci-002").supports(RequestType::Loglikelihood).is_ok());
    let error = openai("gpt-4o").supports(RequestType::Loglikelihood).unwrap_err();
    assert!(error.to_string().contains("`babbage-002`, `davinci-002`"), "{error}");
    assert!(openai("gpt-4o").supports(RequestType::LoglikelihoodRolling).is_ok());
    assert!(openai("gpt-4o").chat_template(None).is_err());
    let none = create_model("local-completions", r#"{"base_url": "http://a", "tokenizer_backend": "none"}"#)
        .unwrap();
    assert!(none.supports(RequestType::LoglikelihoodRolling).unwrap_err().hints()[0].contains("tokenizer="));
    assert!(none.supports(RequestType::GenerateUntil).is_ok());
    let sglang = format!(
        r#"{{"base_url": "http://a/generate", "tokenizer": "{TOKENIZER}", "tokenized_requests": false}}"#
    );
    assert!(create_model("sglang-generate", &sglang).unwrap().supports(RequestType::Loglikelihood).is_err());
    let gguf = create_model("ggml", r#"{"base_url": "http://a"}"#).unwrap();
    assert!(gguf.supports(RequestType::LoglikelihoodRolling).is_err());
    assert!(gguf.supports(RequestType::Loglikelihood).is_ok());
    for args in [
        r#"{"base_url": "http://a", "max_length": 2}"#,
        r#"{"base_url": "http://a", "max_gen_toks": "many"}"#,
    ] {
        assert_eq!(
            create_model("local-chat-completions", args).unwrap_err().kind(),
            ModelErrorKind::Configuration
        );
    }
}
