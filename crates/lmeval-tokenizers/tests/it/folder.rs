//! Tokenizers in local folders.

use std::path::Path;

use lmeval_core::{ChatMessage, Context, Diagnose as _, ModelErrorKind, Role};
use lmeval_tokenizers::{HuggingFaceTokenizer, TokenizerTemplate};

use crate::TOKENIZER;

#[test]
fn reads_a_folder() {
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
fn refuses_folders_without_a_tokenizer() {
    let folder = tempfile::tempdir().unwrap();
    let error = HuggingFaceTokenizer::from_folder(folder.path()).unwrap_err();
    assert!(error.to_string().contains("tokenizer.json"), "{error}");
    fs_err::write(folder.path().join("tokenizer.json"), "{}").unwrap();
    let error = HuggingFaceTokenizer::from_folder(folder.path()).unwrap_err();
    assert!(error.to_string().contains("Cannot load the tokenizer"), "{error}");
    let error = TokenizerTemplate::read(folder.path(), None).unwrap_err();
    assert!(error.to_string().contains("neither `chat_template.jinja` nor"), "{error}");
}

/// The library accepts these files, and gives strings other tokens than the model was trained with.
#[test]
fn refuses_contradicting_ids_and_random_merges() {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs_err::read_to_string(Path::new(TOKENIZER).join("tokenizer.json")).unwrap();
    let read = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut file: serde_json::Value = serde_json::from_str(&whole).unwrap();
        change(&mut file);
        fs_err::write(folder.path().join("tokenizer.json"), file.to_string()).unwrap();
        HuggingFaceTokenizer::from_folder(folder.path()).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(read(&|_| ()), Ok(()));
    let same = read(&|file| file["model"]["vocab"]["a"] = file["model"]["vocab"]["b"].clone()).unwrap_err();
    assert!(same.contains("the tokens `a` and `b` have the same id"), "{same}");
    let added = |id: u32| {
        serde_json::json!({"id": id, "content": "<new>", "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false, "special": true})
    };
    let next = read(&|file| file["added_tokens"].as_array_mut().unwrap().push(added(9999))).unwrap_err();
    assert!(next.contains("the added token `<new>` has the id 9999, but would become "), "{next}");
    let map = serde_json::json!({"type": "Precompiled", "precompiled_charsmap": "AAAA////"});
    let table = read(&|file| file["normalizer"] = map.clone()).unwrap_err();
    assert!(table.contains("`precompiled_charsmap` of its normaliser is damaged"), "{table}");
    let dropout = read(&|file| file["model"]["dropout"] = 0.5.into()).unwrap_err();
    assert!(dropout.contains("drops merges at random (`dropout` is 0.5)"), "{dropout}");
    assert_eq!(read(&|file| file["model"]["dropout"] = 0.0.into()), Ok(()));
}

/// Some tokens are only in the other files, and some are defaults of the class.
#[test]
fn reads_special_tokens_from_every_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| fs_err::write(folder.path().join(name), text).unwrap();
    fs_err::copy(Path::new(TOKENIZER).join("tokenizer.json"), folder.path().join("tokenizer.json")).unwrap();
    let read = || HuggingFaceTokenizer::from_folder(folder.path()).unwrap();
    assert_eq!(read().special_token("eos_token"), None);
    // The model type implies a tokenizer class, which may have default tokens.
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

/// Reference: `.jinja` files replace the templates of the configuration.
#[test]
fn template_files_override_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| fs_err::write(folder.path().join(name), text).unwrap();
    let source = |name: Option<&str>| {
        TokenizerTemplate::read(folder.path(), name).map(|template| template.source().to_owned())
    };
    file(
        "tokenizer_config.json",
        r#"{"chat_template": [{"name": "default", "template": "d"}, {"name": "tools", "template": "t"}]}"#,
    );
    assert_eq!(source(None).unwrap(), "d");
    assert_eq!(source(Some("tools")).unwrap(), "t");
    file("chat_template.jinja", "file");
    assert_eq!(source(None).unwrap(), "file");
    assert_eq!(source(Some("tools")).unwrap(), "file");
    fs_err::create_dir(folder.path().join("additional_chat_templates")).unwrap();
    file("additional_chat_templates/tools.jinja", "tools file");
    assert_eq!(source(None).unwrap(), "file");
    assert_eq!(source(Some("tools")).unwrap(), "tools file");
    let error = source(Some("other")).unwrap_err();
    assert!(error.hints().join(" ").contains("`default`, `tools`"), "{error:?}");
    fs_err::remove_file(folder.path().join("chat_template.jinja")).unwrap();
    assert_eq!(source(Some("tools")).unwrap(), "tools file");
    assert!(source(None).unwrap_err().to_string().contains("no chat template `default`"));
}

/// Without these tokens, a prompt would be tokenized differently than by the reference.
#[test]
fn refuses_added_tokens_outside_the_vocabulary() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| fs_err::write(folder.path().join(name), text).unwrap();
    file("vocab.json", r#"{"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3}"#);
    file("merges.txt", "#version: 0.2\na b\n");
    file("config.json", r#"{"model_type": "gpt2"}"#);
    file("added_tokens.json", r#"{"<|endoftext|>": 3}"#);
    HuggingFaceTokenizer::from_folder(folder.path()).unwrap();
    file("added_tokens.json", r#"{"<new>": 4}"#);
    let error = HuggingFaceTokenizer::from_folder(folder.path()).unwrap_err();
    assert!(error.to_string().contains("the token `<new>` of `added_tokens.json`"), "{error}");
    file("special_tokens_map.json", r#"{"pad_token": "<new>"}"#);
    HuggingFaceTokenizer::from_folder(folder.path()).unwrap();
}

/// A malformed configuration must not be treated as absent: the tokens would differ.
#[test]
fn refuses_malformed_configuration_files() {
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
