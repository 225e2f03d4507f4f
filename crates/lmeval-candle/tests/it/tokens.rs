//! Compares tokenizer classes with `transformers`.

use std::path::Path;

use lmeval_core::{Diagnose as _, ModelErrorKind};
use lmeval_tokenizers::HuggingFaceTokenizer;
use serde_json::Value;

use super::model::fixture;

pub(crate) fn recorded(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap()
}

#[test]
fn special_tokens_follow_the_class() {
    let recorded = recorded("tokens.json");
    let text = recorded["text"].as_str().unwrap();
    for case in recorded["cases"].as_array().unwrap() {
        for files in case["files"].as_array().unwrap() {
            let folder = tempfile::tempdir().unwrap();
            fs_err::copy(fixture().join("tokenizer.json"), folder.path().join("tokenizer.json")).unwrap();
            for (name, fields) in files.as_object().unwrap() {
                fs_err::write(folder.path().join(name), fields.to_string()).unwrap();
            }
            let tokenizer = HuggingFaceTokenizer::from_folder(folder.path()).unwrap();
            for name in
                ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"]
            {
                let found =
                    tokenizer.special_token(name).map(|token| serde_json::json!([token.text, token.id]));
                assert_eq!(found.as_ref(), case["special"].get(name), "{name} of {files}");
            }
            let (padding, id) = tokenizer.padding();
            assert_eq!(serde_json::json!([padding, id]), case["padding"], "{files}");
            // The reference cannot encode with a class that does not match the vocabulary.
            if !case["tokens"].is_null() {
                let tokens = tokenizer.encode(text, true).unwrap();
                assert_eq!(serde_json::json!(tokens), case["tokens"], "{files}");
                assert_eq!(
                    tokenizer.decode_plain(&tokens).unwrap(),
                    case["plain"].as_str().unwrap(),
                    "{files}"
                );
            }
        }
    }
}

#[test]
fn leading_spaces_follow_the_class() {
    let blanks = &recorded("tokens.json")["blanks"];
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, fields: &Value| {
        fs_err::write(folder.path().join(name), fields.to_string()).unwrap();
    };
    write("tokenizer.json", &blanks["tokenizer"]);
    for case in blanks["cases"].as_array().unwrap() {
        write("config.json", &serde_json::json!({"model_type": case["model_type"]}));
        write("tokenizer_config.json", &case["fields"]);
        let tokenizer = HuggingFaceTokenizer::from_folder(folder.path()).unwrap();
        for (index, text) in blanks["texts"].as_array().unwrap().iter().enumerate() {
            let tokens = tokenizer.encode(text.as_str().unwrap(), true).unwrap();
            assert_eq!(serde_json::json!(tokens), case["tokens"][index], "{text} with {}", case["fields"]);
            let decoded = tokenizer.decode(&tokens).unwrap();
            assert_eq!(decoded, case["decoded"][index].as_str().unwrap(), "{text} with {}", case["fields"]);
        }
    }
}

#[test]
fn pipeline_of_the_class_overrides_the_file() {
    let recorded = recorded("tokens.json");
    let rules = &recorded["rules"];
    let bytes: Value =
        serde_json::from_slice(&fs_err::read(fixture().join("tokenizer.json")).unwrap()).unwrap();
    for case in rules["cases"].as_array().unwrap() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: String| fs_err::write(folder.path().join(name), text).unwrap();
        let base = case["base"].as_str().unwrap();
        if base == "parts" {
            write("vocab.json", bytes["model"]["vocab"].to_string());
            write("merges.txt", merges(&bytes["model"]["merges"]));
        } else {
            let mut file =
                if base == "bytes" { bytes.clone() } else { recorded["blanks"]["tokenizer"].clone() };
            change(&mut file, &rules["changes"][base]);
            if base == "pieces" {
                change(&mut file["model"], &rules["changes"]["pieces model"]);
            }
            write("tokenizer.json", file.to_string());
        }
        write("config.json", serde_json::json!({"model_type": case["model_type"]}).to_string());
        write("tokenizer_config.json", case["fields"].to_string());
        let tokenizer = HuggingFaceTokenizer::from_folder(folder.path()).unwrap();
        let name = format!("{base} of {} with {}", case["model_type"], case["fields"]);
        for (index, text) in rules["texts"].as_array().unwrap().iter().enumerate() {
            let tokens = tokenizer.encode(text.as_str().unwrap(), true).unwrap();
            assert_eq!(serde_json::json!(tokens), case["tokens"][index], "{text} by {name}");
            let decoded = tokenizer.decode(&tokens).unwrap();
            assert_eq!(decoded, case["decoded"][index].as_str().unwrap(), "{text} by {name}");
        }
    }
}

fn change(fields: &mut Value, changes: &Value) {
    for (name, value) in changes.as_object().unwrap() {
        fields[name] = value.clone();
    }
}

fn merges(listed: &Value) -> String {
    let line = |merge: &Value| match merge.as_array() {
        Some(parts) => parts.iter().map(|part| part.as_str().unwrap()).collect::<Vec<_>>().join(" "),
        None => merge.as_str().unwrap().to_owned(),
    };
    let lines: Vec<String> = listed.as_array().unwrap().iter().map(line).collect();
    format!("#version: 0.2\n{}\n", lines.join("\n"))
}

#[test]
fn refuses_folders_without_a_tokenizer() {
    let folder = tempfile::tempdir().unwrap();
    let problem = || HuggingFaceTokenizer::from_folder(folder.path()).unwrap_err().to_string();
    assert!(
        problem().contains("none of the tokenizer files `tokenizer.json`, `vocab.json`"),
        "{}",
        problem()
    );
    let error = HuggingFaceTokenizer::from_folder(folder.path()).unwrap_err();
    assert_eq!(error.kind(), ModelErrorKind::Unsupported);
    assert!(error.hints()[0].contains("tokenizer="));
    fs_err::write(folder.path().join("vocab.json"), "{}").unwrap();
    assert!(problem().contains("`vocab.json` with `merges.txt`"), "{}", problem());
    fs_err::write(folder.path().join("merges.txt"), "").unwrap();
    assert!(problem().contains("its tokenizer class"), "{}", problem());
}
