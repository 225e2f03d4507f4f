//! The model `hf` through its public interface.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lmeval_core::{
    Answer, Arguments, Context, Diagnose as _, DocId, Model, ModelError, ModelRequest, ModelSettings,
    RequestType, Response,
};
use lmeval_pycompat::{Dict, Value, json};
use lmeval_scoring::registry::Registry;

pub(crate) fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/llama")
}

/// Creates the model of a folder with additional arguments.
pub(crate) fn create(folder: &Path, more: &[(&str, Value)]) -> Result<Arc<dyn Model>, ModelError> {
    let mut args = Dict::new();
    args.insert("pretrained", folder.to_str().unwrap());
    // The tests can also run on a GPU.
    let device = std::env::var("LM_EVAL_TEST_DEVICE").unwrap_or_else(|_| "cpu".into());
    args.insert("device", device);
    args.insert("dtype", "float32");
    for (name, value) in more {
        args.insert(*name, value.clone());
    }
    Registry::default().with_models(lmeval_candle::models()).model("hf", &ModelSettings::from_args(args))
}

pub(crate) fn request(arguments: Arguments) -> ModelRequest {
    ModelRequest {
        task_name: "task".into(),
        doc_id: DocId(0),
        idx: 0,
        repeat: 0,
        arguments,
        additional_args: None,
        document: None,
        progress: None,
    }
}

pub(crate) fn pair(context: &str, continuation: &str) -> ModelRequest {
    let context = Context::from(context);
    request(Arguments::Loglikelihood { context, continuation: continuation.into() })
}

pub(crate) fn text(context: &str, kwargs: &str) -> ModelRequest {
    let Ok(Value::Dict(kwargs)) = json::loads(kwargs) else { panic!("{kwargs}") };
    request(Arguments::Generate { context: Context::from(context), kwargs })
}

pub(crate) fn answer(model: &dyn Model, requests: Vec<ModelRequest>) -> Vec<Result<Answer, ModelError>> {
    tokio::runtime::Builder::new_multi_thread().build().unwrap().block_on(model.answer(requests))
}

pub(crate) fn logprob(answer: &Result<Answer, ModelError>) -> f64 {
    match answer.as_ref().unwrap().response {
        Response::Loglikelihood { logprob, .. } | Response::Rolling { logprob } => logprob,
        Response::Text(_) | Response::Letters(_) => panic!("not a log-likelihood"),
    }
}

#[test]
fn answers_are_in_the_order_of_requests() {
    let model = create(&fixture(), &[]).unwrap();
    let requests = vec![
        pair("abc", " d"),
        text("abc", r#"{"until": [], "max_gen_toks": 5}"#),
        pair("", "abc d"),
        request(Arguments::Rolling { text: "abc d".into() }),
        pair("abc", " e"),
        request(Arguments::Rolling { text: "".into() }),
        pair("abc", " d"),
        pair("abc", ""),
        text("", r#"{"until": ["x"], "max_gen_toks": 3}"#),
    ];
    let alone: Vec<Result<Answer, ModelError>> =
        requests.iter().flat_map(|request| answer(model.as_ref(), vec![request.clone()])).collect();
    let together = answer(model.as_ref(), requests.clone());
    assert_eq!(alone.len(), together.len());
    for ((alone, together), request) in alone.iter().zip(&together).zip(&requests) {
        match (alone, together) {
            (Ok(a), Ok(b)) => match (&a.response, &b.response) {
                (Response::Text(a), Response::Text(b)) => assert_eq!(a, b),
                _ => assert!((logprob(alone) - logprob(together)).abs() < 1e-5, "{}", request.describe()),
            },
            (Err(a), Err(b)) => assert_eq!(a.to_string(), b.to_string()),
            _ => panic!("{alone:?} {together:?}"),
        }
    }
    assert!(together[7].as_ref().unwrap_err().to_string().contains("Nothing to score"));
    assert_eq!(logprob(&together[5]), 0.0);
    // Without a context, `bos_token` is the context: the same as the rolling log-likelihood.
    assert!((logprob(&together[2]) - logprob(&together[3])).abs() < 1e-5);
    let stats = model.stats().unwrap();
    assert!(stats.saved().is_some_and(|saved| saved > 0.0 && saved < 1.0), "{stats:?}");
}

#[test]
fn truncates_long_prompts_on_the_left() {
    let model = create(&fixture(), &[("max_length", Value::Int(8))]).unwrap();
    let long = "abcdefghijklmnopqrstuvwxyz".repeat(3);
    let answers = answer(
        model.as_ref(),
        vec![
            pair(&long, "ab"),
            pair(&long[20..], "ab"),
            pair("a", &long),
            request(Arguments::Rolling { text: long.as_str().into() }),
        ],
    );
    assert!((logprob(&answers[0]) - logprob(&answers[1])).abs() < 1e-5);
    assert!(answers[2].as_ref().unwrap_err().to_string().contains("maximum length is 8"));
    assert!(logprob(&answers[3]) < -50.0);
    let error = answer(model.as_ref(), vec![text("a", "{}")]).remove(0).unwrap_err();
    assert!(error.to_string().contains("leaves no room"), "{error}");
}

#[test]
fn facts_and_identity() {
    let model = create(&fixture(), &[]).unwrap();
    let facts = model.facts();
    let parameters = facts.config.get_str("model_num_parameters").and_then(Value::as_i64).unwrap();
    assert!(parameters > 1000, "{parameters}");
    assert_eq!(facts.config.get_str("model_dtype").and_then(Value::as_str), Some("torch.float32"));
    assert!(model.traits().is_worth_saving);
    assert!(model.supports(RequestType::LoglikelihoodRolling).is_ok());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let identity = |model: &dyn Model| runtime.block_on(model.identity()).unwrap().to_string();
    let other = create(&fixture(), &[("max_length", Value::Int(9))]).unwrap();
    assert_ne!(identity(model.as_ref()), identity(other.as_ref()));
    let other = create(&fixture(), &[("max_gen_toks", Value::Int(9))]).unwrap();
    assert_ne!(identity(model.as_ref()), identity(other.as_ref()));
    // The identity depends on the contents of the files, not on the folder.
    let files = |folder: &Path| {
        let identity = runtime.block_on(create(folder, &[]).unwrap().identity()).unwrap();
        identity.facts.into_iter().find(|(name, _)| *name == "files").unwrap().1
    };
    let same = damaged("other.json", Some(b"{}"));
    assert_eq!(files(same.path()), files(&fixture()));
    let other = damaged("generation_config.json", Some(br#"{"top_k": 3}"#));
    assert_ne!(files(other.path()), files(&fixture()));
}

#[test]
fn limits_the_length_of_answers() {
    let tokens = |model: &dyn Model, kwargs: &str| {
        let answer = answer(model, vec![text("abc", kwargs)]).remove(0);
        answer.map(|answer| (answer.usage.prompt_tokens, answer.usage.completion_tokens))
    };
    // Without end tokens, only the limit stops generation.
    let folder = damaged("generation_config.json", Some(br#"{"eos_token_id": []}"#));
    let model = create(folder.path(), &[("max_gen_toks", Value::Int(7))]).unwrap();
    let until = r#""until": ["no such text"]"#;
    let (prompt, added) = tokens(model.as_ref(), &format!("{{{until}}}")).unwrap();
    assert_eq!(added, 7);
    let (_, added) = tokens(model.as_ref(), &format!(r#"{{{until}, "max_gen_toks": 3}}"#)).unwrap();
    assert_eq!(added, 3);
    let total = format!(r#"{{{until}, "max_length": {}}}"#, prompt + 5);
    assert_eq!(tokens(model.as_ref(), &total).unwrap(), (prompt, 5));
    for total in [prompt, 129] {
        let error = tokens(model.as_ref(), &format!(r#"{{{until}, "max_length": {total}}}"#)).unwrap_err();
        assert!(error.to_string().contains("`max_length`"), "{error}");
    }
    let drawn = |seed: usize| {
        let kwargs =
            format!(r#"{{{until}, "temperature": 2.0, "top_k": 0, "max_gen_toks": 20, "seed": {seed}}}"#);
        let answer = answer(model.as_ref(), vec![text("abc", &kwargs)]).remove(0).unwrap();
        match answer.response {
            Response::Text(text) => text,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1), drawn(2));
}

#[test]
fn refuses_tokens_outside_the_vocabulary() {
    let error = create(&fixture(), &[("prefix_token_id", Value::Int(300))]).unwrap_err();
    assert!(error.to_string().contains("`prefix_token_id=300`"), "{error}");
    // A tokenizer with more tokens than the model; other requests are still answered.
    let tokenizer = fs_err::read(fixture().join("tokenizer.json")).unwrap();
    let mut tokenizer: serde_json::Value = serde_json::from_slice(&tokenizer).unwrap();
    let added = tokenizer["added_tokens"].as_array_mut().unwrap();
    for id in 0..20 {
        let content = if id == 19 { "<|far|>".to_owned() } else { format!("<|more{id}|>") };
        added.push(serde_json::json!({
            "id": 295 + id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true,
        }));
    }
    let folder = damaged("tokenizer.json", Some(tokenizer.to_string().as_bytes()));
    let model = create(folder.path(), &[]).unwrap();
    let mut answers = answer(
        model.as_ref(),
        vec![
            pair("abc", " d"),
            pair("abc<|far|>", " d"),
            request(Arguments::Rolling { text: "<|far|>".into() }),
            text("<|far|>", r#"{"until": [], "max_gen_toks": 3}"#),
            text("abc", r#"{"until": [], "max_gen_toks": 3}"#),
        ],
    );
    assert!(answers.pop().unwrap().is_ok() && answers.remove(0).is_ok());
    for answer in answers {
        let error = answer.unwrap_err().to_string();
        assert!(error.contains("The tokenizer produced token 3"), "{error}");
    }
}

#[test]
fn maximum_length_defaults_to_that_of_the_class() {
    let config = fs_err::read(fixture().join("config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_slice(&config).unwrap();
    config.as_object_mut().unwrap().remove("max_position_embeddings");
    for (class, expected) in [("LlamaForCausalLM", 2048), ("MistralForCausalLM", 131_072)] {
        config["architectures"] = serde_json::json!([class]);
        let folder = damaged("config.json", Some(config.to_string().as_bytes()));
        let facts = create(folder.path(), &[]).unwrap().facts();
        assert_eq!(facts.tokenizer.get_str("max_length"), Some(&Value::Int(expected)), "{class}");
    }
}

#[test]
fn ignores_windows_of_other_classes() {
    // Reference: LLaMA's class does not read the field.
    let config = fs_err::read(fixture().join("config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_slice(&config).unwrap();
    let expected = answer(create(&fixture(), &[]).unwrap().as_ref(), vec![pair("abcdefgh", " d")]).remove(0);
    for window in [0, 2] {
        config["sliding_window"] = window.into();
        let folder = damaged("config.json", Some(config.to_string().as_bytes()));
        let model = create(folder.path(), &[]).unwrap();
        let found = answer(model.as_ref(), vec![pair("abcdefgh", " d")]).remove(0);
        assert_eq!(logprob(&found).to_bits(), logprob(&expected).to_bits());
    }
}

/// A copy of the model's folder with a file replaced, or removed if there is no content.
pub(crate) fn damaged(file: &str, content: Option<&[u8]>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs_err::read_dir(fixture()).unwrap() {
        let entry = entry.unwrap();
        fs_err::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    match content {
        Some(content) => fs_err::write(folder.path().join(file), content).unwrap(),
        None => fs_err::remove_file(folder.path().join(file)).unwrap(),
    }
    folder
}

fn message(folder: &Path) -> String {
    let error = create(folder, &[]).unwrap_err();
    format!("{error} | {}", error.hints().join(" | "))
}

#[test]
fn refuses_damaged_files() {
    let weights = fs_err::read(fixture().join("model.safetensors")).unwrap();
    for (content, expected) in [
        (&weights[..weights.len() - 100], "not a complete safetensors file"),
        (&weights[..4], "not a complete safetensors file"),
        (b"not a model, but a string that is long enough".as_slice(), "not a complete safetensors file"),
        (&[], "Cannot load"),
    ] {
        let folder = damaged("model.safetensors", Some(content));
        let text = message(folder.path());
        assert!(text.contains("model.safetensors") && text.contains(expected), "{text}");
    }
    let folder = damaged("model.safetensors", None);
    assert!(message(folder.path()).contains("neither `model.safetensors` nor"));
    let folder = damaged("tokenizer.json", None);
    assert!(message(folder.path()).contains("tokenizer.json"));
    let index = br#"{"weight_map": {"lm_head.weight": "model-00001-of-00002.safetensors"}}"#;
    let parts = |index: &[u8]| {
        let folder = damaged("model.safetensors.index.json", Some(index));
        // A single file would take precedence over the index.
        fs_err::remove_file(folder.path().join("model.safetensors")).unwrap();
        folder
    };
    let folder = parts(index);
    assert!(message(folder.path()).contains("model-00001-of-00002.safetensors"));
    let index = br#"{"weight_map": {"lm_head.weight": "../../etc/passwd"}}"#;
    let folder = parts(index);
    assert!(message(folder.path()).contains("not a file name"));
}

/// A copy of the model with changed weights.
fn with_weights(change: impl Fn(&mut Vec<u8>, usize)) -> tempfile::TempDir {
    let mut weights = fs_err::read(fixture().join("model.safetensors")).unwrap();
    let header = usize::try_from(u64::from_le_bytes(weights[..8].try_into().unwrap())).unwrap();
    change(&mut weights, 8 + header);
    damaged("model.safetensors", Some(&weights))
}

#[test]
fn nan_and_infinity_fail_the_run() {
    let folder = with_weights(|weights, start| weights[start..].fill(0xff));
    let model = create(folder.path(), &[]).unwrap();
    for request in [pair("abc", " d"), text("abc", r#"{"until": [], "max_gen_toks": 5}"#)] {
        let error = answer(model.as_ref(), vec![request]).remove(0).unwrap_err();
        assert!(error.is_fatal() && error.to_string().contains("NaN or infinite"), "{error}");
        assert!(error.hints()[0].contains("dtype=float32"), "{:?}", error.hints());
    }
}

#[test]
fn refuses_integer_weights() {
    let folder = with_weights(|weights, start| {
        let header = String::from_utf8(weights[8..start].to_vec()).unwrap();
        let header = header.replace("\"BF16\"", "\"I16\" ");
        weights[8..start].copy_from_slice(header.as_bytes());
    });
    let text = message(folder.path());
    assert!(text.contains("I16") && text.contains("does not read quantised weights"), "{text}");
}

#[test]
fn refuses_inconsistent_configurations() {
    let config = fs_err::read_to_string(fixture().join("config.json")).unwrap();
    let with = |change: &dyn Fn(&mut serde_json::Map<String, serde_json::Value>)| {
        let mut value: serde_json::Value = serde_json::from_str(&config).unwrap();
        change(value.as_object_mut().unwrap());
        damaged("config.json", Some(value.to_string().as_bytes()))
    };
    let folder = with(&|config| drop(config.remove("hidden_size")));
    assert!(message(folder.path()).contains("has no field `hidden_size`"));
    let folder = with(&|config| drop(config.insert("hidden_size".into(), "wide".into())));
    assert!(message(folder.path()).contains("`hidden_size`"));
    let folder = with(&|config| drop(config.insert("vocab_size".into(), 17.into())));
    assert!(message(folder.path()).contains("has shape"));
    let folder = with(&|config| drop(config.insert("num_hidden_layers".into(), 99.into())));
    assert!(message(folder.path()).contains("have no tensor `model.layers."));
    let folder = with(&|config| drop(config.insert("architectures".into(), serde_json::json!(["T5Model"]))));
    assert!(message(folder.path()).contains("with torch"));
    let method = serde_json::json!({"quant_method": "fp8"});
    let folder = with(&|config| drop(config.insert("quantization_config".into(), method.clone())));
    assert!(message(folder.path()).contains("quantised") && message(folder.path()).contains("`fp8`"));
    for field in
        ["num_attention_heads", "num_key_value_heads", "num_hidden_layers", "head_dim", "intermediate_size"]
    {
        let folder = with(&|config| drop(config.insert(field.into(), 0.into())));
        let text = message(folder.path());
        assert!(text.contains("shape") || text.contains(field) || text.contains("head"), "{field}: {text}");
    }
    // Numbers that no model has: a score could come out of them nevertheless.
    for (field, text, expected) in [
        ("rms_norm_eps", "-1", "epsilon"),
        ("rms_norm_eps", "1e308", "epsilon"),
        ("rms_norm_eps", "NaN", "a finite number"),
        ("rope_theta", "0", "a positive number"),
        ("rope_theta", "-1", "a positive number"),
        ("rope_theta", "Infinity", "a finite number"),
        ("rope_theta", "1e308", "a positive number"),
        ("num_hidden_layers", "true", "a non-negative integer"),
        ("factor", "0", "a positive number"),
    ] {
        let scaling = r#""rope_scaling": {"rope_type": "linear", "factor": 2.0}, "rope_theta": 1000.0"#;
        let whole = config.replacen('{', &format!("{{{scaling},"), 1);
        let damage = whole.split_once(&format!("\"{field}\": ")).unwrap();
        let rest = damage.1.split_at(damage.1.find([',', '}', '\n']).unwrap()).1;
        let text = format!("{}\"{field}\": {text}{rest}", damage.0);
        let folder = damaged("config.json", Some(text.as_bytes()));
        let found = message(folder.path());
        assert!(found.contains(expected), "{field} {text}: {found}");
    }
    let folder = damaged("config.json", Some(b"{"));
    assert!(message(folder.path()).contains("config.json"));
    let error = create(Path::new("/no/such/folder"), &[]).unwrap_err();
    assert!(error.to_string().contains("neither a folder with a model nor a name on the hub"), "{error}");
}
