//! Model arguments of `hf`.

use candle_core::DType;
use lmeval_core::{ModelError, ModelErrorKind, ModelSettings, nearest};
use lmeval_pycompat::{Dict, Value, repr};

use crate::device::{DeviceSpec, devices, ignores_gpu};
use crate::error::TORCH;

/// Arguments that are accepted and do not affect answers.
const IGNORED: [&str; 12] = [
    "attn_implementation",
    "low_cpu_mem_usage",
    "use_safetensors",
    "use_fast_tokenizer",
    "logits_cache",
    "truncation",
    "offload_folder",
    "max_memory_per_gpu",
    "max_cpu_memory",
    "softmax_dtype",
    "max_batch_size",
    "model",
];

/// Arguments of torch alone, which are refused if they have a truthy value.
const UNSUPPORTED: [&str; 34] = [
    "delta",
    "autogptq",
    "gptqmodel",
    "parallelize",
    "device_map",
    "load_in_8bit",
    "load_in_4bit",
    "bnb_4bit_quant_type",
    "bnb_4bit_compute_dtype",
    "bnb_4bit_use_double_quant",
    "bnb_4bit_quant_storage",
    "llm_int8_threshold",
    "llm_int8_skip_modules",
    "llm_int8_enable_fp32_cpu_offload",
    "llm_int8_has_fp16_weight",
    "quantization_config",
    "mixed_precision_dtype",
    "tp_plan",
    "subfolder",
    // Of `from_pretrained`.
    "cache_dir",
    "code_revision",
    "experts_implementation",
    "force_download",
    "key_mapping",
    "local_files_only",
    "max_memory",
    "offload_buffers",
    "offload_state_dict",
    "rope_parameters",
    "rope_scaling",
    "token",
    "torch_dtype",
    "use_cache",
    "variant",
];

/// Supported arguments.
const KNOWN: [&str; 19] = [
    "pretrained",
    "peft",
    "revision",
    "tokenizer",
    "dtype",
    "device",
    "batch_size",
    "max_length",
    "max_gen_toks",
    "add_bos_token",
    "prefix_token_id",
    "gguf_file",
    "trust_remote_code",
    "backend",
    "think_end_token",
    "enable_thinking",
    "chat_template_args",
    "data_parallel",
    "seed",
];

/// The requested data type of the computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    /// As the weights are stored.
    Auto,
    /// As given by `dtype`.
    Given(DType),
}

/// Validated model arguments.
#[derive(Clone, Debug)]
pub(crate) struct Arguments {
    /// Whether the model must have an encoder; `None` if the model decides.
    pub(crate) has_encoder: Option<bool>,
    pub(crate) pretrained: String,
    /// An adapter: a folder or a name on the hub.
    pub(crate) peft: Option<String>,
    pub(crate) revision: String,
    pub(crate) tokenizer: Option<String>,
    pub(crate) precision: Precision,
    /// The devices to compute on: one worker process each, or this process if there is only one.
    pub(crate) devices: Vec<DeviceSpec>,
    /// Whether the machine has a GPU that this build cannot use, and no device was chosen.
    pub(crate) ignores_gpu: bool,
    pub(crate) batch_size: Option<usize>,
    pub(crate) max_length: Option<usize>,
    pub(crate) max_gen_toks: Option<usize>,
    pub(crate) add_bos_token: Option<bool>,
    pub(crate) prefix_token_id: Option<u32>,
    pub(crate) gguf_file: Option<String>,
    /// The end of the thinking part of an answer.
    pub(crate) think_end: Option<ThinkEnd>,
    /// Additional variables for chat templates.
    pub(crate) template_variables: Dict,
    /// Whether code that comes with the checkpoint is to be run, which this engine never does.
    pub(crate) trust_remote_code: bool,
    pub(crate) seed: u64,
}

/// Marks the end of the thinking part of an answer: a string or a token id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ThinkEnd {
    Text(String),
    Token(u32),
}

impl Arguments {
    /// Whether the model runs on the CPU.
    pub(crate) fn is_cpu(&self) -> bool {
        self.devices.contains(&DeviceSpec::Cpu)
    }

    /// Reads and checks the arguments.
    pub(crate) fn read(settings: &ModelSettings) -> Result<Self, ModelError> {
        check_names(settings)?;
        Ok(Self {
            has_encoder: match settings.text("backend").as_deref() {
                None | Some("default") => None,
                Some("causal") => Some(false),
                Some("seq2seq") => Some(true),
                Some(other) => {
                    return Err(configuration(format!(
                        "The model argument `backend` must be `default`, `causal` or `seq2seq`, not `{other}`"
                    )));
                }
            },
            pretrained: settings.required("pretrained", "<folder or name on the hub>")?,
            peft: settings.text("peft"),
            revision: settings.text("revision").unwrap_or_else(|| "main".into()),
            tokenizer: settings.text("tokenizer"),
            precision: precision(settings.text("dtype").as_deref())?,
            devices: devices(settings)?,
            ignores_gpu: ignores_gpu(settings),
            batch_size: batch_size(settings)?,
            // Reference: 0 means unset.
            max_length: non_negative(settings, "max_length")?.filter(|length| *length > 0),
            max_gen_toks: non_negative(settings, "max_gen_toks")?,
            add_bos_token: match settings.get("add_bos_token") {
                None => None,
                Some(_) => Some(settings.flag("add_bos_token", false)?),
            },
            prefix_token_id: non_negative(settings, "prefix_token_id")?.map(|token| token as u32),
            gguf_file: settings.text("gguf_file"),
            think_end: settings.text("think_end_token").map(|text| match text.parse() {
                Ok(token) => ThinkEnd::Token(token),
                Err(_) => ThinkEnd::Text(text),
            }),
            template_variables: template_variables(settings)?,
            trust_remote_code: settings.flag("trust_remote_code", settings.trust_remote_code)?,
            seed: settings.integer("seed")?.or(settings.random_seed).unwrap_or(0) as u64,
        })
    }
}

/// A configuration error.
pub(crate) fn configuration(message: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorKind::Configuration, message)
}

/// The error of what this engine cannot run, but torch may.
pub(crate) fn unsupported(message: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorKind::Unsupported, message).hint(TORCH)
}

/// Refuses arguments that only torch has, in whichever order they are given, and then names that nothing has.
fn check_names(settings: &ModelSettings) -> Result<(), ModelError> {
    let names = || settings.args.keys().filter_map(Value::as_str);
    let is_set = |name: &&str| settings.get(name).is_some_and(Value::is_truthy);
    if let Some(name) = names().filter(|name| UNSUPPORTED.contains(name)).find(is_set) {
        return Err(unsupported(format!("The native engine does not have the argument `{name}`")));
    }
    let is_known = |name: &&str| [&KNOWN[..], &IGNORED, &UNSUPPORTED].iter().any(|list| list.contains(name));
    let Some(name) = names().find(|name| !is_known(name)) else { return Ok(()) };
    let error = configuration(format!("The model `hf` has no argument `{name}`"));
    let near = nearest(name, KNOWN.into_iter().chain(UNSUPPORTED));
    Err(if near.is_empty() {
        error
            .hint(format!("Known arguments: `{}`", KNOWN.join("`, `")))
            .hint("For an argument of `from_pretrained` that `transformers` alone knows, add `engine=torch`")
    } else {
        error.hint(format!("Did you mean `{}`?", near.join("` or `")))
    })
}

/// Reads a non-negative integer.
pub(crate) fn non_negative(settings: &ModelSettings, name: &str) -> Result<Option<usize>, ModelError> {
    let Some(number) = settings.integer(name)? else { return Ok(None) };
    match u32::try_from(number) {
        Ok(number) => Ok(Some(number as usize)),
        Err(_) => Err(configuration(format!(
            "The model argument `{name}` must be a non-negative integer, not `{number}`"
        ))),
    }
}

/// The maximum number of sequences per batch, if set.
fn batch_size(settings: &ModelSettings) -> Result<Option<usize>, ModelError> {
    let given = settings.get("batch_size").cloned().or_else(|| settings.batch_size.clone());
    let Some(value) = given.filter(|value| !value.is_none()) else { return Ok(None) };
    let shown = repr::str(&value);
    if shown == "auto" || shown.starts_with("auto:") {
        return Ok(None);
    }
    match shown.parse::<usize>() {
        // 1 is the reference's default, and never faster here.
        Ok(0 | 1) => Ok(None),
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(configuration(format!("The batch size must be an integer or `auto`, not `{shown}`"))),
    }
}

/// `chat_template_args`, and `enable_thinking` if given.
fn template_variables(settings: &ModelSettings) -> Result<Dict, ModelError> {
    let mut variables = match settings.get("chat_template_args") {
        None => Dict::new(),
        Some(Value::Dict(variables)) => Dict::clone(variables),
        Some(other) => {
            return Err(configuration(format!(
                "The model argument `chat_template_args` must be a dictionary, not `{}`",
                repr::repr(other)
            ))
            .hint(
                "For example: `--model_args '{\"pretrained\": …, \"chat_template_args\": {\"name\": 1}}'`",
            ));
        }
    };
    for name in ["messages", "add_generation_prompt", "continue_final_message"] {
        if variables.get_str(name).is_some() {
            return Err(configuration(format!(
                "`chat_template_args` cannot contain `{name}`, which the run sets itself"
            )));
        }
    }
    if let Some(value) = settings.get("enable_thinking") {
        variables.insert("enable_thinking", value.clone());
    }
    Ok(variables)
}

fn precision(name: Option<&str>) -> Result<Precision, ModelError> {
    Ok(match name {
        None | Some("auto") => Precision::Auto,
        Some("float32" | "float" | "fp32" | "torch.float32") => Precision::Given(DType::F32),
        Some("bfloat16" | "bf16" | "torch.bfloat16") => Precision::Given(DType::BF16),
        Some("float16" | "half" | "fp16" | "torch.float16") => Precision::Given(DType::F16),
        Some(other) => {
            return Err(unsupported(format!("The data type `{other}` is not supported"))
                .hint("`dtype` is `auto`, `float32`, `bfloat16` or `float16`"));
        }
    })
}

#[cfg(test)]
mod tests {
    use lmeval_core::Diagnose as _;

    use super::*;

    fn read(pairs: &[(&str, Value)]) -> Result<Arguments, ModelError> {
        let mut args = Dict::new();
        args.insert("pretrained", "folder");
        for (name, value) in pairs {
            args.insert(*name, value.clone());
        }
        Arguments::read(&ModelSettings::from_args(args))
    }

    #[test]
    fn reads_arguments() {
        let arguments = read(&[
            ("dtype", Value::str("bfloat16")),
            ("device", Value::str("cpu")),
            ("batch_size", Value::str("auto:4")),
            ("max_length", Value::Int(512)),
            ("add_bos_token", Value::Bool(true)),
            ("think_end_token", Value::str("128")),
            ("attn_implementation", Value::str("sdpa")),
            ("parallelize", Value::Bool(false)),
            ("enable_thinking", Value::None),
            ("max_gen_toks", Value::Int(7)),
        ])
        .unwrap();
        assert_eq!(arguments.precision, Precision::Given(DType::BF16));
        assert_eq!((arguments.batch_size, arguments.max_length), (None, Some(512)));
        assert_eq!(arguments.max_gen_toks, Some(7));
        assert_eq!(arguments.add_bos_token, Some(true));
        assert_eq!(arguments.think_end, Some(ThinkEnd::Token(128)));
        assert_eq!(read(&[("batch_size", Value::Int(8))]).unwrap().batch_size, Some(8));
    }

    #[test]
    fn arguments_of_torch_are_found_in_any_order() {
        for name in ["delta", "variant", "torch_dtype", "max_memory", "llm_int8_threshold"] {
            let torch = (name, Value::str("x"));
            let other = ("a_setting_of_its_own", Value::Int(1));
            for pairs in [[torch.clone(), other.clone()], [other, torch]] {
                assert_eq!(read(&pairs).unwrap_err().kind(), ModelErrorKind::Unsupported, "{pairs:?}");
            }
        }
        assert!(read(&[("use_cache", Value::Bool(false)), ("variant", Value::None)]).is_ok());
    }

    #[test]
    fn refuses_invalid_arguments_with_a_hint() {
        let error = |name: &str, value: Value| {
            let error = read(&[(name, value)]).unwrap_err();
            format!("{error} | {}", error.hints().join(" | "))
        };
        assert!(error("delta", Value::str("x")).contains("with torch"));
        assert!(error("parallelize", Value::Bool(true)).contains("with torch"));
        assert!(error("chat_template_args", Value::str("a")).contains("must be a dictionary"));
        let own = Value::dict([("messages", Value::None)]);
        assert!(error("chat_template_args", own).contains("`messages`"));
        assert!(error("max_lenght", Value::Int(3)).contains("Did you mean `max_length`"));
        assert!(error("load_in_4bits", Value::Bool(true)).contains("Did you mean `load_in_4bit`"));
        assert!(error("a_setting_of_its_own", Value::Int(3)).contains("engine=torch"));
        assert!(error("dtype", Value::str("int4")).contains("`dtype` is `auto`"));
        assert!(error("device", Value::str("mps")).contains("`cpu`, `cuda`"));
        assert!(error("max_length", Value::Int(-1)).contains("non-negative"));
        assert!(error("batch_size", Value::str("many")).contains("`auto`"));
        assert!(error("backend", Value::str("seq")).contains("`causal` or `seq2seq`"));
        if cfg!(not(feature = "cuda")) {
            assert!(error("device", Value::str("cuda:1")).contains("scripts/build-cuda"));
        }
    }
}
