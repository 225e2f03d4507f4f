//! Tokenizers from folders, the hub's cache, the hub and servers.

use std::path::Path;
use std::sync::Arc;

use lmeval_core::{ChatMessage, Context, Dialect, ModelErrorKind, Role};
use lmeval_models::{HubSettings, HuggingFaceTokenizer, ModelSettings, TokenizerTemplate, create};
use lmeval_pycompat::json;

use crate::api_support::{TOKENIZER, ask, bodies, dict, generate, model, pair, server};
use crate::http_support::{reply, serve};

#[test]
fn a_folder() {
    let tokenizer = HuggingFaceTokenizer::from_folder(TOKENIZER.as_ref()).unwrap();
    let plain = tokenizer.encode("Hello world", false).unwrap();
    let special = tokenizer.encode("Hello world", true).unwrap();
    assert_eq!(special, [vec![0], plain].concat());
    assert_eq!(tokenizer.decode(&special).unwrap(), "<s>Hello world");
    assert_eq!(tokenizer.decode(&tokenizer.encode("a , b . é", false).unwrap()).unwrap(), "a , b . é");
    assert_eq!(tokenizer.special_token("eos_token").unwrap().id, Some(1));
    assert_eq!(tokenizer.special_token("pad_token"), None);
    let template = tokenizer.chat_template(None).unwrap();
    let messages = vec![ChatMessage::new(Role::User, "hi")];
    assert_eq!(
        template.template.apply(messages.clone(), true).unwrap(),
        Context::from("<s><user>hi</s><assistant>")
    );
    assert_eq!(template.template.apply(messages, false).unwrap(), Context::from("<s><user>hi"));
    assert!(template.source.unwrap().starts_with("{{ bos_token }}"));
}

#[test]
fn folders_without_a_tokenizer() {
    let folder = tempfile::tempdir().unwrap();
    let error = HuggingFaceTokenizer::from_folder(folder.path()).unwrap_err();
    assert!(error.to_string().contains("tokenizer.json"), "{error}");
    fs_err::write(folder.path().join("tokenizer.json"), "{}").unwrap();
    let error = HuggingFaceTokenizer::from_folder(folder.path()).unwrap_err();
    assert!(error.to_string().contains("cannot be used"), "{error}");
    let error = TokenizerTemplate::read(folder.path(), None).unwrap_err();
    assert!(error.to_string().contains("neither `chat_template.jinja` nor"), "{error}");
}

/// Tokens that only the other files name, and names that only the kind of tokenizer gives.
#[test]
fn special_tokens_from_every_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| fs_err::write(folder.path().join(name), text).unwrap();
    fs_err::copy(Path::new(TOKENIZER).join("tokenizer.json"), folder.path().join("tokenizer.json")).unwrap();
    let read = || HuggingFaceTokenizer::from_folder(folder.path()).unwrap();
    assert_eq!(read().special_token("eos_token"), None);
    // The type of a model may stand for a class of tokenizers with tokens of its own.
    file("config.json", r#"{"model_type": "llama"}"#);
    assert_eq!(read().special_token("bos_token"), None);
    file("config.json", r#"{"model_type": "gpt2"}"#);
    assert_eq!(read().special_token("bos_token").unwrap().text, "<|endoftext|>");
    file(
        "special_tokens_map.json",
        r#"{"pad_token": {"content": "<pad>", "lstrip": false}, "eos_token": "</s>"}"#,
    );
    let tokenizer = read();
    let padding = tokenizer.special_token("pad_token").unwrap().id.unwrap();
    assert_eq!(tokenizer.encode("a<pad>", false).unwrap().last(), Some(&padding));
    file(
        "tokenizer_config.json",
        r#"{"added_tokens_decoder": {"900": {"content": "<new>", "special": false}}, "eos_token": "<s>"}"#,
    );
    let tokenizer = read();
    assert_eq!(tokenizer.special_token("eos_token").unwrap().text, "<s>");
    assert_eq!(tokenizer.encode("<new>", false).unwrap().len(), 1);
}

fn hub(endpoint: &str, cache: &Path, offline: bool) -> HubSettings {
    HubSettings { endpoint: endpoint.into(), cache: cache.into(), token: None, offline }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hub_and_its_cache() {
    let commit = "c".repeat(40);
    let server = serve(move |asked| {
        let file = asked.path.rsplit('/').next().unwrap().to_owned();
        let content = fs_err::read_to_string(Path::new(TOKENIZER).join(&file));
        let headers = [("x-repo-commit", commit.as_str()), ("etag", &format!("\"{}-hash\"", file.len()))];
        let response = match content {
            Ok(content) if asked.path.starts_with("/org/name/resolve/main/") => {
                reply(200, &headers, &content)
            }
            _ => reply(404, &[], "Entry not found"),
        };
        async move { response }
    })
    .await;
    let endpoint = server.url.trim_end_matches("/v1/completions");
    let cache = tempfile::tempdir().unwrap();
    let error = hub(endpoint, cache.path(), true).locate("org/name", "main").await.unwrap_err();
    let expected = format!("The tokenizer of `org/name` is not in the cache `{}`", cache.path().display());
    assert!(error.to_string().starts_with(&expected), "{error}");
    assert_eq!(server.hits(), 0);
    let folder = hub(endpoint, cache.path(), false).locate("org/name", "main").await.unwrap();
    assert_eq!(folder, cache.path().join("models--org--name/snapshots").join("c".repeat(40)));
    HuggingFaceTokenizer::from_folder(&folder).unwrap().chat_template(None).unwrap();
    let hits = server.hits();
    assert_eq!(hub(endpoint, cache.path(), true).locate("org/name", "main").await.unwrap(), folder);
    assert_eq!(hub(endpoint, cache.path(), true).locate("org/name", &"c".repeat(40)).await.unwrap(), folder);
    assert_eq!(server.hits(), hits);
    for name in ["org/other", "../name", "a/b/c", ""] {
        let error = hub(endpoint, cache.path(), false).locate(name, "main").await.unwrap_err();
        assert_eq!(error.kind(), ModelErrorKind::Configuration, "{name}");
        assert!(error.hints().iter().any(|hint| hint.contains("tokenizer=")), "{name}");
    }
    let error = hub("http://127.0.0.1:9", cache.path(), false).locate("org/third", "main").await.unwrap_err();
    assert!(
        error.to_string().starts_with("There is no local copy of the tokenizer of `org/third`"),
        "{error}"
    );
    assert!(error.to_string().contains("cannot be downloaded"), "{error}");
    let looked = format!("in the cache `{}`", cache.path().display());
    assert!(
        error.hints().iter().any(|hint| hint.contains(&looked) && hint.contains("/org/third`")),
        "{error:?}"
    );
}

/// As published OPT has it: a vocabulary, merges, and no `tokenizer.json`.
#[tokio::test(flavor = "multi_thread")]
async fn a_vocabulary_and_merges_on_the_hub() {
    let server = serve(move |asked| {
        let file = asked.path.rsplit('/').next().unwrap().to_owned();
        let content = match file.as_str() {
            "vocab.json" => r#"{"a": 0, "b": 1, "ab": 2, "</s>": 3, "Ġ": 4}"#,
            "merges.txt" if !asked.path.starts_with("/org/half/") => "#version: 0.2\na b\n",
            "config.json" => r#"{"model_type": "opt"}"#,
            "tokenizer_config.json" => r#"{"add_bos_token": true, "bos_token": "</s>"}"#,
            _ => "",
        };
        let headers = [("x-repo-commit", "abc"), ("etag", &format!("\"{file}\""))];
        let response =
            if content.is_empty() { reply(404, &[], "none") } else { reply(200, &headers, content) };
        async move { response }
    })
    .await;
    let endpoint = server.url.trim_end_matches("/v1/completions");
    let cache = tempfile::tempdir().unwrap();
    let folder = hub(endpoint, cache.path(), false).locate("org/name", "main").await.unwrap();
    let tokenizer = HuggingFaceTokenizer::from_folder(&folder).unwrap();
    assert_eq!(tokenizer.encode("ab b", true).unwrap(), [3, 2, 4, 1]);
    assert_eq!(hub(endpoint, cache.path(), true).locate("org/name", "main").await.unwrap(), folder);
    let error = hub(endpoint, cache.path(), false).locate("org/half", "main").await.unwrap_err();
    assert!(error.to_string().contains("nor both of `vocab.json` and `merges.txt`"), "{error}");
}

/// The tokenizer endpoints of a server, and completions that say how many tokens came.
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
async fn a_server_s_tokenizer() {
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
    // A tokenizer that is named is used, whatever the server offers.
    let args =
        format!(r#"{{"base_url": "{root}/v1/completions", "model": "m", "tokenizer": "{TOKENIZER}"}}"#);
    let named = crate::api_support::model("local-completions", &args, 1, Dialect::V05).unwrap();
    let identity = named.identity().await.unwrap().to_string();
    assert!(identity.contains("tokenizer huggingface"), "{identity}");
    let error = ask(&named, pair("zero", " one")).await.unwrap_err();
    assert_eq!(error.kind(), ModelErrorKind::Capability);
}

#[test]
fn choices_that_fail() {
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

/// Files beside the tokenizer that cannot be used are no absent ones: without them there would be other tokens.
#[test]
fn unreadable_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    fs_err::copy(Path::new(TOKENIZER).join("tokenizer.json"), folder.path().join("tokenizer.json")).unwrap();
    for name in ["tokenizer_config.json", "special_tokens_map.json", "config.json"] {
        let path = folder.path().join(name);
        for text in ["{\"bos_token\": ", "[1]", ""] {
            fs_err::write(&path, text).unwrap();
            let error = HuggingFaceTokenizer::from_folder(folder.path()).unwrap_err();
            assert_eq!(error.kind(), ModelErrorKind::Configuration);
            assert!(error.to_string().contains(name), "{text}: {error}");
        }
        fs_err::remove_file(&path).unwrap();
        fs_err::create_dir(&path).unwrap();
        let error = HuggingFaceTokenizer::from_folder(folder.path()).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        fs_err::remove_dir(&path).unwrap();
    }
    HuggingFaceTokenizer::from_folder(folder.path()).unwrap();
}
