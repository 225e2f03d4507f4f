//! Tokenizers of folders.

use std::path::Path;

use lmeval_core::{ChatMessage, Context, ModelErrorKind, Role};
use lmeval_tokenizers::{HuggingFaceTokenizer, TokenizerTemplate};

use crate::TOKENIZER;

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
