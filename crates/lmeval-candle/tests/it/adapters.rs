//! Adapters through the public interface: where they come from, what they change, and what is refused.

use std::path::Path;

use lmeval_core::{Diagnose as _, Model, ModelErrorKind};
use lmeval_pycompat::Value;
use safetensors::tensor::{Dtype, TensorView};
use tempfile::TempDir;

use crate::model::{answer, create, fixture, logprob, pair};

const MODULE: &str = "base_model.model.model.layers.0.self_attn.q_proj";

/// An adapter for the fixture with these fields, tensors and name of its model.
fn adapter(base: &str, fields: &str, tensors: &[(&str, [usize; 2])]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        r#"{{"peft_type": "LORA", "r": 2, "lora_alpha": 6, "base_model_name_or_path": "{base}"{fields}}}"#
    );
    fs_err::write(folder.path().join("adapter_config.json"), config).unwrap();
    let tensors: Vec<(String, [usize; 2], Vec<u8>)> = tensors
        .iter()
        .map(|(name, shape)| {
            let numbers = (0..shape[0] * shape[1]).map(|index| ((index * 7) as f32).sin());
            ((*name).to_owned(), *shape, numbers.flat_map(f32::to_le_bytes).collect())
        })
        .collect();
    let views = tensors.iter().map(|(name, shape, bytes)| {
        (name.as_str(), TensorView::new(Dtype::F32, shape.to_vec(), bytes).unwrap())
    });
    let bytes = safetensors::serialize(views, None).unwrap();
    fs_err::write(folder.path().join("adapter_model.safetensors"), bytes).unwrap();
    folder
}

fn factors(module: &str) -> [(String, [usize; 2]); 2] {
    [(format!("{module}.lora_A.weight"), [2, 32]), (format!("{module}.lora_B.weight"), [32, 2])]
}

/// An adapter of the usual kind.
fn usual(base: &str, fields: &str) -> TempDir {
    let factors = factors(MODULE);
    adapter(base, fields, &factors.each_ref().map(|(name, shape)| (name.as_str(), *shape)))
}

fn text(path: &Path) -> Value {
    Value::str(path.to_str().unwrap())
}

fn score(model: &dyn Model) -> f64 {
    logprob(&answer(model, vec![pair("the answer", " is that")])[0])
}

#[test]
fn adapter_is_an_argument_or_names_its_model() {
    let base = fixture();
    let own = usual(base.to_str().unwrap(), "");
    let plain = create(&base, &[]).unwrap();
    let with = create(&base, &[("peft", text(own.path()))]).unwrap();
    let alone = create(own.path(), &[]).unwrap();
    assert!((score(plain.as_ref()) - score(with.as_ref())).abs() > 0.01);
    assert_eq!(score(with.as_ref()), score(alone.as_ref()));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let identity = |model: &dyn Model| format!("{:?}", runtime.block_on(model.identity()).unwrap());
    assert_ne!(identity(plain.as_ref()), identity(with.as_ref()));
    let portable = |model: &dyn Model| format!("{:?}", model.portable_identity().unwrap());
    assert_ne!(portable(plain.as_ref()), portable(with.as_ref()));
    assert_eq!(portable(with.as_ref()), portable(alone.as_ref()));
    // Another scale is another model.
    let config = own.path().join("adapter_config.json");
    let changed = fs_err::read_to_string(&config).unwrap().replace(": 6", ": 7");
    fs_err::write(&config, changed).unwrap();
    let other = create(&base, &[("peft", text(own.path()))]).unwrap();
    assert_ne!(portable(with.as_ref()), portable(other.as_ref()));
    assert_ne!(score(with.as_ref()), score(other.as_ref()));
}

#[test]
fn what_only_torch_can_adapt_is_left_to_it() {
    let base = fixture();
    let base = base.to_str().unwrap();
    let check = |own: &TempDir, expected: &str| {
        let error = create(own.path(), &[]).unwrap_err();
        let text = format!("{error} {}", error.hints().join(" "));
        assert_eq!(error.kind(), ModelErrorKind::Unsupported, "{text}");
        assert!(text.contains(expected) && text.contains("with torch"), "{text}");
    };
    check(&usual(base, r#", "peft_type": "IA3""#), "adapters of the type `IA3`");
    check(&usual(base, r#", "init_lora_weights": "pissa""#), "`init_lora_weights` `pissa`");
    check(&usual(base, r#", "alora_invocation_tokens": [3]"#), "the field `alora_invocation_tokens`");
    let name = format!("{MODULE}.lora_C.weight");
    check(&adapter(base, "", &[(&name, [2, 2])]), "lora_C.weight");
    let elsewhere = factors("base_model.model.model.layers.9.self_attn.q_proj");
    let elsewhere = elsewhere.each_ref().map(|(name, shape)| (name.as_str(), *shape));
    check(
        &adapter(base, "", &elsewhere),
        "`model.layers.9.self_attn.q_proj.weight`, which the model does not have",
    );
    check(&adapter(base, "", &[("base_model.model.lm_head.weight", [310, 32])]), "has shape [310, 32]");
}

#[test]
fn refuses_damaged_adapters() {
    let base = fixture();
    let base = base.to_str().unwrap();
    let message = |own: &TempDir| create(own.path(), &[]).unwrap_err().to_string();
    let [first, second] = factors(MODULE);
    let found = message(&adapter(base, "", &[(&first.0, [3, 32]), (&second.0, [32, 3])]));
    assert!(found.contains("change of rank 2") && found.contains("q_proj.weight"), "{found}");
    let found = message(&adapter(base, "", &[(&first.0, first.1)]));
    assert!(found.contains("does not fit the model"), "{found}");
    let found = message(&usual(base, r#", "rank_pattern": {"q_(": 2}"#));
    assert!(found.contains("`rank_pattern`") && found.contains("regular expressions"), "{found}");
    let found = message(&usual("", ""));
    assert!(found.contains("has no `base_model_name_or_path`"), "{found}");
    let found = message(&usual("/no/folder", ""));
    assert!(found.contains("`/no/folder`"), "{found}");
    let empty = usual(base, "");
    fs_err::remove_file(empty.path().join("adapter_model.safetensors")).unwrap();
    assert!(message(&empty).contains("neither `adapter_model.safetensors` nor"));
    let error = create(&fixture(), &[("peft", Value::str("/no/folder"))]).unwrap_err();
    assert!(error.hints().join(" ").contains("`peft=<folder or name on the hub>`"), "{error}");
}
