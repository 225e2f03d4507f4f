//! Models in GGUF files.

use std::path::{Path, PathBuf};

use candle_core::quantized::gguf_file::{self, Value as Entry};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Tensor, safetensors};
use lmeval_pycompat::Value;

use crate::model::{answer, create, damaged, fixture, logprob, pair, text};

/// The name of a weight in GGUF files.
fn stored_name(name: &str) -> String {
    [
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("lm_head", "output"),
        ("model.layers", "blk"),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("self_attn.o_proj", "attn_output"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
    ]
    .iter()
    .fold(name.to_owned(), |name, (own, stored)| name.replace(own, stored))
}

/// Rows of heads as GGUF files of this architecture have them: pairs that are rotated together are neighbours.
fn neighbours(weight: &Tensor, heads: usize) -> Tensor {
    let (rows, width) = weight.dims2().unwrap();
    let split = weight.reshape((heads, 2, rows / heads / 2, width)).unwrap();
    split.transpose(1, 2).unwrap().contiguous().unwrap().reshape((rows, width)).unwrap()
}

/// The checkpoint of the tests as a GGUF file, with its tokenizer beside it.
fn converted() -> (tempfile::TempDir, PathBuf) {
    let folder = damaged("model.safetensors", None);
    fs_err::remove_file(folder.path().join("config.json")).unwrap();
    let weights = safetensors::load(fixture().join("model.safetensors"), &Device::Cpu).unwrap();
    let tensors: Vec<(String, QTensor)> = weights
        .iter()
        .map(|(name, weight)| {
            let weight = weight.to_dtype(DType::F32).unwrap();
            let weight = match name {
                name if name.contains("q_proj") => neighbours(&weight, 4),
                name if name.contains("k_proj") => neighbours(&weight, 2),
                _ => weight,
            };
            (stored_name(name), QTensor::quantize(&weight, GgmlDType::F32).unwrap())
        })
        .collect();
    let entries = [
        ("general.architecture", Entry::String("llama".into())),
        ("llama.block_count", Entry::U32(2)),
        ("llama.embedding_length", Entry::U32(32)),
        ("llama.feed_forward_length", Entry::U32(48)),
        ("llama.attention.head_count", Entry::U32(4)),
        ("llama.attention.head_count_kv", Entry::U32(2)),
        ("llama.context_length", Entry::U32(128)),
        ("llama.attention.layer_norm_rms_epsilon", Entry::F32(0.03)),
        ("llama.rope.freq_base", Entry::F32(1000.0)),
    ];
    let path = folder.path().join("model.gguf");
    let mut file = fs_err::File::create(&path).unwrap();
    let entries: Vec<(&str, &Entry)> = entries.iter().map(|(name, entry)| (*name, entry)).collect();
    let tensors: Vec<(&str, &QTensor)> =
        tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    gguf_file::write(file.file_mut(), &entries, &tensors).unwrap();
    (folder, path)
}

#[test]
fn answers_are_those_of_the_same_weights() {
    let (folder, path) = converted();
    let own = create(&path, &[]).unwrap();
    let named = create(folder.path(), &[("gguf_file", Value::str("model.gguf"))]).unwrap();
    let expected = create(&fixture(), &[]).unwrap();
    for model in [&own, &named] {
        for name in ["model_num_parameters", "model_dtype"] {
            assert_eq!(model.facts().config.get_str(name), expected.facts().config.get_str(name));
        }
        let lengths = [model, &expected].map(|model| model.facts().tokenizer.get_str("max_length").cloned());
        assert_eq!(lengths[0], lengths[1]);
        for asked in [pair("abc", " d"), pair("", "a longer text than the other")] {
            let [found, expected] =
                [model, &expected].map(|model| logprob(&answer(model.as_ref(), vec![asked.clone()])[0]));
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
        let asked = text("abc", r#"{"until": [], "max_gen_toks": 30}"#);
        let [found, expected] = [model, &expected]
            .map(|model| answer(model.as_ref(), vec![asked.clone()]).remove(0).unwrap().response);
        assert_eq!(found, expected);
    }
}

#[test]
fn damaged_files_are_named() {
    let (folder, path) = converted();
    let message = |path: &Path| create(path, &[]).unwrap_err().to_string();
    let content = fs_err::read(&path).unwrap();
    for (content, expected) in [
        (&content[..content.len() - 1000], "is cut off"),
        (&content[..300], "no GGUF file"),
        (b"GGUF".as_slice(), "no GGUF file"),
        (b"a text that is no model at all", "no GGUF file"),
        (&[], "no GGUF file"),
    ] {
        fs_err::write(&path, content).unwrap();
        let found = message(&path);
        assert!(found.contains("model.gguf") && found.contains(expected), "{found}");
    }
    let error = create(folder.path(), &[("gguf_file", Value::str("other.gguf"))]).unwrap_err();
    assert!(error.to_string().contains("There is no file") && error.to_string().contains("other.gguf"));
    assert!(error.hints().join(" ").contains("`pretrained`"));
}
