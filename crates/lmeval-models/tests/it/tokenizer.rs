//! Tokenizer selection: named tokenizers and those of servers.

use std::sync::Arc;

use lmeval_core::{ChatMessage, Context, Diagnose as _, Dialect, ModelErrorKind, Role};
use lmeval_models::{ModelSettings, create};
use lmeval_pycompat::json;
use lmeval_tokenizers::HuggingFaceTokenizer;

use crate::api_support::{TOKENIZER, ask, bodies, dict, generate, model, pair, server};

/// A server's tokenizer endpoints, plus completions.
fn tokenizing(path: &str, body: &str) -> (u16, String) {
    let tokenizer = HuggingFaceTokenizer::from_folder(TOKENIZER.as_ref()).unwrap();
    match path {
        "/tokenizer_info" => {
            (200, r#"{"eos_token": "</s>", "bos_token": "<s>", "tokenizer_class": "T", "chat_template": "{{ bos_token }}{% for m in messages %}[{{ m.content }}]{% endfor %}"}"#.into())
        }
        "/tokenize" => {
            let body = dict(body);
            let tokens = tokenizer.encode(body.get_str("prompt").unwrap().as_str().unwrap(), false).unwrap();
            (200, format!("{{\"tokens\": {tokens:?}}}"))
        }
        "/v1/completions" => (200, r#"{"choices": [{"index": 0, "text": "ok"}]}"#.into()),
        _ => (404, "no".into()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn uses_the_server_tokenizer() {
    let (root, log) = server(tokenizing).await;
    let args = format!(r#"{{"base_url": "{root}/v1/completions", "model": "m"}}"#);
    let model = model("local-completions", &args, 1, Dialect::V05).unwrap();
    let identity = model.identity().await.unwrap().to_string();
    assert!(identity.contains("tokenizer remote T"), "{identity}");
    let template = model.chat_template(None).unwrap();
    let context = template.template.apply(vec![ChatMessage::new(Role::User, "zero")], true).unwrap();
    assert_eq!(context, Context::from("<s>[zero]"));
    ask(&model, generate(context, r#"{"until": ["x"], "max_gen_toks": 5}"#)).await.unwrap();
    let tokenizer = HuggingFaceTokenizer::from_folder(TOKENIZER.as_ref()).unwrap();
    let tokens = tokenizer.encode("<s>[zero]", false).unwrap();
    let expected = format!(
        r#"{{"prompt": [{tokens:?}], "model": "m", "max_tokens": 5, "temperature": 0, "stop": ["x", "</s>"], "seed": 1234}}"#
    );
    assert_eq!(bodies(&log).last(), Some(&expected));
    // A named tokenizer takes precedence over the server's.
    let args =
        format!(r#"{{"base_url": "{root}/v1/completions", "model": "m", "tokenizer": "{TOKENIZER}"}}"#);
    let named = crate::api_support::model("local-completions", &args, 1, Dialect::V05).unwrap();
    let identity = named.identity().await.unwrap().to_string();
    assert!(identity.contains("tokenizer huggingface"), "{identity}");
    let error = ask(&named, pair("zero", " one")).await.unwrap_err();
    assert_eq!(error.kind(), ModelErrorKind::Capability);
}

#[test]
fn reports_tokenizers_that_cannot_be_selected() {
    let error = |args: &str| {
        let mut args = dict(args);
        args.insert("base_url", "http://127.0.0.1:9/v1/completions");
        create("local-completions", &ModelSettings::from_args(args)).unwrap_err()
    };
    let missing = error(r#"{"model": "./no/such folder", "tokenizer_backend": "huggingface"}"#);
    assert_eq!(
        missing.to_string(),
        "`./no/such folder` is neither a folder with a tokenizer nor a name on the hub"
    );
    assert!(missing.hints().iter().any(|hint| hint.contains("tokenizer_backend=remote")));
    assert!(
        error(r#"{"tokenizer_backend": "huggingface"}"#)
            .to_string()
            .contains("neither `tokenizer` nor `model`")
    );
    assert!(error(r#"{"tokenizer_backend": "sentencepiece"}"#).to_string().contains("`sentencepiece`"));
    assert!(error(r#"{"tokenizer_backend": "tiktoken", "model": "mine"}"#).to_string().contains("`mine`"));
    assert!(error(r#"{"tokenizer_backend": "remote"}"#).to_string().contains("The tokenizer of the server"));
    let none = dict(r#"{"tokenizer_backend": null, "base_url": "http://127.0.0.1:9/v1/completions"}"#);
    let none: Arc<dyn lmeval_core::Model> =
        create("local-completions", &ModelSettings::from_args(none)).unwrap();
    assert!(
        json::dumps(
            &lmeval_pycompat::Value::Dict(Arc::new(none.facts().tokenizer)),
            &json::Options::default()
        )
        .unwrap()
            == "{}"
    );
}
