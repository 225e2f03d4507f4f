//! Models in GGUF files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::quantized::gguf_file::{self, Value as Entry};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Tensor, safetensors};
use lmeval_candle::arch::{self, Architecture};
use lmeval_candle::{Error, Gguf, Source, Weights};
use lmeval_core::Diagnose as _;
use lmeval_pycompat::Value;
use lmeval_tokenizers::HuggingFaceTokenizer;
use serde_json::Value as Json;

use crate::architectures::{
    TOLERANCE, alone, device, difference, fixtures, largest, most_likely, numbers, tokens,
};
use crate::model::{answer, create, damaged, fixture, logprob, pair, text};

/// The GGUF name of a weight.
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

/// Reorders rows of heads like GGUF converters for this architecture: pairs that are rotated together are adjacent.
fn neighbours(weight: &Tensor, heads: usize) -> Tensor {
    let (rows, width) = weight.dims2().unwrap();
    let split = weight.reshape((heads, 2, rows / heads / 2, width)).unwrap();
    split.transpose(1, 2).unwrap().contiguous().unwrap().reshape((rows, width)).unwrap()
}

/// The fixture checkpoint as a GGUF file, with its tokenizer in the same folder.
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
fn answers_match_the_same_weights_as_safetensors() {
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
fn refuses_damaged_files() {
    let (folder, path) = converted();
    let message = |path: &Path| create(path, &[]).unwrap_err().to_string();
    let content = fs_err::read(&path).unwrap();
    for (content, expected) in [
        (&content[..content.len() - 1000], "is truncated"),
        (&content[..300], "not a GGUF file"),
        (b"GGUF".as_slice(), "not a GGUF file"),
        (b"some text that is not a model at all", "not a GGUF file"),
        (&[], "not a GGUF file"),
    ] {
        fs_err::write(&path, content).unwrap();
        let found = message(&path);
        assert!(found.contains("model.gguf") && found.contains(expected), "{found}");
    }
    let error = create(folder.path(), &[("gguf_file", Value::str("other.gguf"))]).unwrap_err();
    assert!(error.to_string().contains("does not exist") && error.to_string().contains("other.gguf"));
    assert!(error.hints().join(" ").contains("`pretrained`"));
}

/// Files made by the format's own converter, by name.
fn converted_by_others() -> Vec<(String, PathBuf)> {
    let folder = fixtures().join("gguf");
    let entries = fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.extension().is_some_and(|extension| extension == "gguf"));
    let mut files: Vec<(String, PathBuf)> =
        files.map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), path)).collect();
    files.sort_unstable();
    files
}

fn architecture(path: &Path) -> Result<Box<dyn Architecture>, Error> {
    let file = Gguf::open(path)?;
    let config = file.config()?;
    let source: Arc<dyn Source> = Arc::new(file);
    let weights = Weights::new(Arc::clone(&source), DType::F32, device());
    let model = (arch::find(&config)?.build)(&config, &weights)?;
    source.check_loaded()?;
    Ok(model)
}

#[test]
fn converted_files_match_their_checkpoints() {
    let files = converted_by_others();
    assert!(files.len() > 20, "{files:?}");
    let mut failed = Vec::new();
    for (name, path) in files {
        let model = match architecture(&path) {
            Ok(model) => model,
            Err(error) => {
                failed.push(format!("{name}: {error}"));
                continue;
            }
        };
        let expected: Json =
            serde_json::from_slice(&fs_err::read(path.with_extension("json")).unwrap()).unwrap();
        for sequence in expected["sequences"].as_array().unwrap() {
            let text = tokens(&sequence["tokens"]);
            let found = alone(model.as_ref(), &text);
            let next: Vec<f32> =
                found.iter().zip(&text[1..]).map(|(row, token)| row[*token as usize]).collect();
            let apart = largest([
                difference(&next, &numbers(&sequence["next_log_probabilities"])),
                difference(found.last().unwrap(), &numbers(&sequence["last_distribution"])),
            ]);
            let likely: Vec<u32> = found.iter().map(|row| most_likely(row)).collect();
            let is_close = apart < TOLERANCE;
            if !is_close || likely != tokens(&sequence["most_likely"]) {
                failed.push(format!("{name}, {} tokens: {apart:e} apart", text.len()));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn tokenizer_of_a_file_matches_its_checkpoint() {
    let own = Gguf::open(&fixtures().join("gguf/llama.gguf")).unwrap().vocabulary().unwrap();
    let own = HuggingFaceTokenizer::from_gguf(own).unwrap();
    let expected = HuggingFaceTokenizer::from_folder(&fixture()).unwrap();
    for text in ["the answer is", " What  is\n\nthat?</s><s> 42x", "", "naïve 日本 🙂", "<|endoftext|>the"]
    {
        for special in [false, true] {
            let tokens = own.encode(text, special).unwrap();
            assert_eq!(tokens, expected.encode(text, special).unwrap(), "{text:?}");
            assert_eq!(own.decode(&tokens).unwrap(), expected.decode(&tokens).unwrap());
            assert_eq!(own.decode_plain(&tokens).unwrap(), expected.decode_plain(&tokens).unwrap());
        }
    }
    for name in ["bos_token", "eos_token"] {
        assert_eq!(own.special_token(name), expected.special_token(name));
    }
}

#[test]
fn single_file_is_a_complete_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    fs_err::copy(fixtures().join("gguf/llama.gguf"), &path).unwrap();
    // Not read, because it may belong to another model.
    fs_err::write(folder.path().join("generation_config.json"), "no JSON").unwrap();
    let alone = create(&path, &[]).unwrap();
    let with_folder = create(&path, &[("tokenizer", Value::str(fixture().to_str().unwrap()))]).unwrap();
    for fact in ["tokenizer_bos_token", "tokenizer_eos_token", "eot_token_id", "max_length"] {
        let [found, expected] =
            [&alone, &with_folder].map(|model| model.facts().tokenizer.get_str(fact).cloned());
        assert_eq!(found, expected);
    }
    for asked in [pair("the answer", " is that"), pair("", "one with the most sense")] {
        let [found, expected] =
            [&alone, &with_folder].map(|model| logprob(&answer(model.as_ref(), vec![asked.clone()])[0]));
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    }
    let error = alone.chat_template(None).unwrap_err();
    assert!(error.to_string().contains("model.gguf` has no chat template"), "{error}");
    let bare = folder.path().join("bare.gguf");
    fs_err::copy(fixtures().join("gguf/llama3.gguf"), &bare).unwrap();
    let error = create(&bare, &[]).unwrap_err();
    assert!(error.to_string().contains("it has no tokenizer"), "{error}");
    assert!(error.hints().join(" ").contains("`tokenizer=<name on the hub or folder>`"));
}

#[test]
fn changed_bytes_do_not_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let whole = fs_err::read(fixtures().join("gguf/llama.gguf")).unwrap();
    // Only metadata and tensor descriptions: any tensor data is valid.
    let header = 7_040;
    for index in (0..header).step_by(29) {
        for byte in [0, 0x7f, 0xff] {
            let mut changed = whole.clone();
            changed[index] = byte;
            fs_err::write(&path, &changed).unwrap();
            // Must not panic.
            let _ = architecture(&path);
            let _ = Gguf::open(&path).map(|file| file.vocabulary().map(HuggingFaceTokenizer::from_gguf));
        }
    }
}

/// The error for a file with changed metadata or tensors.
fn changed(change: impl Fn(&mut Vec<(&'static str, Entry)>, &mut Vec<(String, QTensor)>)) -> String {
    let matrix = |rows: usize, columns: usize| {
        let zeros = Tensor::zeros((rows, columns), DType::F32, &Device::Cpu).unwrap();
        QTensor::quantize(&zeros, GgmlDType::F32).unwrap()
    };
    let texts =
        |texts: &[&str]| Entry::Array(texts.iter().map(|text| Entry::String((*text).into())).collect());
    let mut entries = vec![
        ("general.architecture", Entry::String("gpt2".into())),
        ("gpt2.block_count", Entry::U32(1)),
        ("gpt2.attention.head_count", Entry::U32(1)),
        ("tokenizer.ggml.model", Entry::String("gpt2".into())),
        ("tokenizer.ggml.pre", Entry::String("gpt-2".into())),
        ("tokenizer.ggml.tokens", texts(&["a", "b", "ab"])),
        ("tokenizer.ggml.merges", texts(&["a b"])),
        ("tokenizer.ggml.bos_token_id", Entry::U32(0)),
    ];
    let mut tensors = vec![("token_embd.weight".to_owned(), matrix(3, 4))];
    change(&mut entries, &mut tensors);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let mut file = fs_err::File::create(&path).unwrap();
    let entries: Vec<(&str, &Entry)> = entries.iter().map(|(name, entry)| (*name, entry)).collect();
    let tensors: Vec<(&str, &QTensor)> =
        tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    gguf_file::write(file.file_mut(), &entries, &tensors).unwrap();
    match create(&path, &[]) {
        Ok(_) => panic!("not refused"),
        Err(error) => format!("{error} {}", error.hints().join(" ")),
    }
}

#[test]
fn refuses_inconsistent_files() {
    let with = |name: &'static str, entry: Entry| {
        changed(move |entries, _| {
            entries.retain(|(known, _)| *known != name);
            entries.push((name, entry.clone()));
        })
    };
    let without = |name: &'static str| changed(move |entries, _| entries.retain(|(known, _)| *known != name));
    let texts =
        |texts: &[&str]| Entry::Array(texts.iter().map(|text| Entry::String((*text).into())).collect());
    let text = |text: &str| Entry::String(text.into());
    let cases = [
        (without("general.architecture"), "it has no `general.architecture`"),
        (
            with("general.architecture", text("mamba")),
            "`mamba` are not supported Supported architectures: `llama`",
        ),
        (without("tokenizer.ggml.model"), "it has no tokenizer"),
        (with("tokenizer.ggml.model", text("t5")), "tokenizer type `t5` is not supported"),
        (with("tokenizer.ggml.pre", text("whales")), "its pre-tokenizer `whales`"),
        (without("tokenizer.ggml.tokens"), "no list `tokenizer.ggml.tokens`"),
        (without("tokenizer.ggml.merges"), "no list `tokenizer.ggml.merges`"),
        (with("tokenizer.ggml.merged", texts(&[])), "`tokenizer.ggml.merged` is not supported"),
        (with("tokenizer.gggl.merges", texts(&[])), "`tokenizer.gggl.merges` is not supported"),
        (with("tokenized.ggml.merges", texts(&[])), "`tokenized.ggml.merges` is not supported"),
        (
            with("gpt2.rope.freq_base", Entry::I32(1_148_846_080)),
            "`gpt2.rope.freq_base` must be a finite float",
        ),
        (with("llamb.rope.freq_base", Entry::F32(9.0)), "`llamb.rope.freq_base` does not start with"),
        (with("llama/rope.freq_base", Entry::F32(9.0)), "`llama/rope.freq_base` does not start with"),
        (
            with("tokenizer.ggml.tokens", texts(&["a", "b", "ab", "c"])),
            "4 tokens, but the model's vocabulary has 3",
        ),
        (with("tokenizer.ggml.tokens", texts(&["a", "b"])), "2 tokens, but the model's vocabulary has 3"),
        (
            with("tokenizer.ggml.tokens", texts(&["a", "b", "c"])),
            "needs the token `ab`, which is not in the vocabulary",
        ),
        (
            with("tokenizer.ggml.bos_token_id", Entry::U32(3)),
            "`bos_token` is token 3, but the vocabulary has 3 tokens",
        ),
        (with("tokenizer.ggml.bos_token_id", Entry::I32(-2)), "which is not a token id"),
        (with("tokenizer.ggml.merges", texts(&["ab"])), "`ab` is not a pair"),
        (with("tokenizer.ggml.token_type", Entry::Array(vec![Entry::I32(1)])), "3 tokens but 1 token types"),
        (with("tokenizer.ggml.add_bos_token", Entry::U32(1)), "must be true or false"),
        (with("split.count", Entry::U16(2)), "it is one of 2 files"),
        (with("gpt2.logit_scale", Entry::F32(2.0)), "`gpt2.logit_scale` is not supported"),
        (
            with("gpt2.attention.causal", Entry::Bool(false)),
            "`gpt2.attention.causal` has an unsupported value",
        ),
        (
            with("gpt2.attention.sliding_window", Entry::U32(8)),
            "`gpt2.attention.sliding_window` has an unsupported value",
        ),
        (with("general.alignment", Entry::U32(0)), "`general.alignment` must be a power of two"),
        (
            changed(|_, tensors| tensors[0].0 = "blk.0.attn_sinks.weight".into()),
            "its tensor `blk.0.attn_sinks.weight` is not supported",
        ),
    ];
    for (found, expected) in cases {
        assert!(found.contains(expected), "{found}\n{expected}");
    }
}

type Entries = HashMap<String, Entry>;
type Tensors = Vec<(String, QTensor)>;

/// Writes a changed copy of a converted file into a folder.
fn rewritten(folder: &Path, name: &str, change: impl FnOnce(&mut Entries, &mut Tensors)) -> PathBuf {
    let mut file = fs_err::File::open(fixtures().join("gguf").join(format!("{name}.gguf"))).unwrap();
    let mut content = gguf_file::Content::read(file.file_mut()).unwrap();
    let names: Vec<String> = content.tensor_infos.keys().cloned().collect();
    let mut tensors: Tensors = names
        .into_iter()
        .map(|name| {
            let tensor = content.tensor(file.file_mut(), &name, &Device::Cpu).unwrap();
            (name, tensor)
        })
        .collect();
    change(&mut content.metadata, &mut tensors);
    let entries: Vec<(&str, &Entry)> =
        content.metadata.iter().map(|(name, entry)| (name.as_str(), entry)).collect();
    let tensors: Vec<(&str, &QTensor)> =
        tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let path = folder.join("model.gguf");
    let mut file = fs_err::File::create(&path).unwrap();
    gguf_file::write(file.file_mut(), &entries, &tensors).unwrap();
    path
}

fn zeros(shape: &[usize]) -> QTensor {
    QTensor::quantize(&Tensor::zeros(shape, DType::F32, &Device::Cpu).unwrap(), GgmlDType::F32).unwrap()
}

/// The error for a changed copy of a converted file.
fn refused(name: &str, change: impl FnOnce(&mut Entries, &mut Tensors)) -> String {
    let folder = tempfile::tempdir().unwrap();
    match architecture(&rewritten(folder.path(), name, change)) {
        Ok(_) => panic!("not refused"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn refuses_unused_tensors() {
    let folder = tempfile::tempdir().unwrap();
    architecture(&rewritten(folder.path(), "llama", |_, _| {})).unwrap();
    let unused = "does not use the tensor";
    let fewer =
        refused("llama", |entries, _| drop(entries.insert("llama.block_count".into(), Entry::U32(1))));
    assert!(fewer.contains(unused) && fewer.contains("`blk.1.attn_k.weight`"), "{fewer}");
    for (name, tensor) in [
        ("llama", "blk.7.attn_norm.weight"),
        ("gemma", "blk.0.attn_q.bias"),
        ("llama", "blk.00.attn_norm.weight"),
    ] {
        let found = refused(name, |_, tensors| tensors.push((tensor.into(), zeros(&[32]))));
        assert!(found.contains(unused) && found.contains(tensor), "{found}");
    }
    let more =
        refused("mixtral", |entries, _| drop(entries.insert("llama.expert_count".into(), Entry::U32(4))));
    assert!(more.contains("but `llama.expert_count` is 4"), "{more}");
}

#[test]
fn refuses_metadata_that_changes_answers() {
    let number = Entry::F32;
    let window = Entry::Array(vec![Entry::U32(4), Entry::U32(4)]);
    let cases = [
        ("llama", "attention.sliding_window", window, "must be an integer"),
        ("llama", "attention.sliding_window", Entry::U32(4), "has an unsupported value"),
        ("llama", "rope.freq_base", Entry::String("500000".into()), "must be a finite float"),
        ("llama", "rope.freq_base", number(0.0), "has an unsupported value"),
        ("llama", "rope.freq_base", number(f32::NAN), "must be a finite float"),
        ("llama", "attention.layer_norm_rms_epsilon", number(f32::INFINITY), "finite"),
        ("llama", "attention.whales", Entry::Bool(true), "is not supported and may change answers"),
        ("llama", "attention.value_length", Entry::U32(3), "has an unsupported value"),
        ("llama", "expert_count", Entry::U32(2), "has an unsupported value"),
        ("gptneox", "attention.head_count_kv", Entry::I64(i64::MAX), "from 0 to 2147483647"),
        ("gptneox", "attention.head_count_kv", Entry::I32(-1), "from 0 to 2147483647"),
        ("gemma2", "attn_logit_softcapping", number(0.0), "has an unsupported value"),
        ("llama", "final_logit_softcapping", number(30.0), "has an unsupported value"),
        ("qwen2moe", "expert_gating_func", Entry::U32(2), "has an unsupported value"),
        ("qwen2moe", "expert_used_count", Entry::U32(9), "has an unsupported value"),
        ("qwen2moe", "expert_used_count", Entry::U32(0), "has an unsupported value"),
        ("qwen2moe", "expert_weights_norm", Entry::Bool(true), "has an unsupported value"),
        ("qwen3moe", "expert_weights_norm", Entry::Bool(false), "has an unsupported value"),
        ("qwen3moe", "expert_weights_scale", number(2.5), "has an unsupported value"),
        ("llama_yarn", "rope.scaling.yarn_ext_factor", number(0.0), "has an unsupported value"),
        ("llama_yarn", "rope.scaling.yarn_log_multiplier", number(0.1), "has an unsupported value"),
        ("llama_yarn", "rope.scaling.attn_factor", number(2.0), "has an unsupported value"),
        ("llama_yarn", "rope.scaling.factor", number(-3.0), "has an unsupported value"),
        ("llama_yarn", "rope.scaling.original_context_length", Entry::U32(0), "has an unsupported value"),
        ("phi3_long", "rope.scaling.original_context_length", Entry::U32(0), "has an unsupported value"),
    ];
    for (name, key, entry, expected) in cases {
        let mut full = String::new();
        let found = refused(name, |entries, _| {
            let Some(Entry::String(architecture)) = entries.get("general.architecture") else { panic!() };
            full = format!("{architecture}.{key}");
            entries.insert(full.clone(), entry);
        });
        assert!(found.contains(&format!("`{full}`")) && found.contains(expected), "{found}");
    }
    let found = refused("llama3", |entries, _| {
        entries.insert("llama.rope.scaling.factor".into(), Entry::F32(8.0));
    });
    assert!(found.contains("factors of rotary embeddings"), "{found}");
}

#[test]
fn supports_older_names_of_rope_scaling() {
    let folder = tempfile::tempdir().unwrap();
    let text: Vec<u32> = (1..40).collect();
    let answers = |entries: &[(&str, Entry)]| {
        let path = rewritten(folder.path(), "llama", |known, _| {
            known.extend(entries.iter().map(|(key, entry)| (format!("llama.rope.{key}"), entry.clone())));
        });
        alone(architecture(&path).unwrap().as_ref(), &text).pop().unwrap()
    };
    let (plain, factor) = (answers(&[]), Entry::F32(8.0));
    let linear =
        answers(&[("scaling.factor", factor.clone()), ("scaling.type", Entry::String("linear".into()))]);
    assert_ne!(plain, linear);
    assert_eq!(answers(&[("scale_linear", factor.clone())]), linear);
    assert_eq!(answers(&[("scaling.factor", factor.clone())]), linear);
    assert_eq!(answers(&[("scaling.factor", factor), ("scaling.type", Entry::String("none".into()))]), plain);
}

#[test]
fn ignores_end_tokens_outside_the_vocabulary() {
    let folder = tempfile::tempdir().unwrap();
    let ends = |end: Entry, turn: Entry| {
        let path = rewritten(folder.path(), "llama", |entries, _| {
            entries.insert("tokenizer.ggml.eos_token_id".into(), end);
            entries.insert("tokenizer.ggml.eot_token_id".into(), turn);
        });
        let file = Gguf::open(&path).unwrap();
        let special = file.vocabulary().unwrap().special;
        let own = special.into_iter().find_map(|(name, token)| (name == "eos_token").then_some(token));
        (file.config().unwrap().get("eos_token_id").cloned(), own)
    };
    let list = |tokens: &[i64]| Some(Value::list(tokens.iter().map(|token| Value::Int(*token))));
    assert_eq!(ends(Entry::U32(2), Entry::U32(3)), (list(&[2, 3]), Some(2)));
    assert_eq!(ends(Entry::I32(-1), Entry::U32(u32::MAX)), (None, None));
    assert_eq!(ends(Entry::U32(u32::MAX), Entry::U32(3)), (list(&[3]), None));
    assert_eq!(ends(Entry::U32(100_000), Entry::U32(3)), (list(&[3]), None));
}
