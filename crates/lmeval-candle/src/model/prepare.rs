//! A model before its weights are loaded.

use std::path::Path;

use lmeval_core::{ModelError, ModelFacts, ModelIdentity, ModelSettings, ModelTemplate};
use lmeval_hub::{Kind, Settings, hash_small_files};
use lmeval_pycompat::Value;

use crate::arguments::{Arguments, unsupported};
use crate::config::Config;
use crate::encoder::PromptEncoder;
use crate::error::{Error, Result};
use crate::generation::Defaults;
use crate::load::Opened;

/// The maximum length if neither the arguments nor the files define one.
const DEFAULT_LENGTH: usize = 2048;

/// A model without its weights: everything that requests and result files need.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) arguments: Arguments,
    pub(super) opened: Opened,
    pub(super) encoder: PromptEncoder,
    pub(super) defaults: Defaults,
    pub(super) max_length: usize,
    pub(super) identity: ModelIdentity,
    pub(super) facts: ModelFacts,
    /// Remove thinking before applying stop strings.
    pub(super) thinks_first: bool,
}

impl Prepared {
    /// Reads everything but the weights.
    pub(super) fn new(settings: &ModelSettings) -> Result<Self, ModelError> {
        let arguments = Arguments::read(settings)?;
        let hub = Settings::from_environment(Kind::Model).reporting_to(settings.downloads.as_ref());
        let mut opened = Opened::new(&arguments, &hub)?;
        let has_encoder = opened.entry.has_encoder();
        if arguments.has_encoder.is_some_and(|wanted| wanted != has_encoder) {
            let (name, is) = if has_encoder { ("causal", "has an encoder") } else { ("seq2seq", "has none") };
            let message =
                format!("`backend={name}` does not fit the model `{}`, which {is}", arguments.pretrained);
            return Err(unsupported(message));
        }
        let folder = match &arguments.tokenizer {
            None => opened.folder.clone(),
            Some(name) => lmeval_tokenizers::locate(&hub, name, &arguments.revision)?,
        };
        let own = opened.tokenizer.take();
        let encoder = PromptEncoder::new(&folder, own, arguments.add_bos_token, arguments.prefix_token_id)?;
        let path = opened.folder.join("generation_config.json");
        // Next to a GGUF file, it may belong to another model.
        let is_own = opened.file.is_none() && path.is_file();
        let generation = if is_own { Some(Config::read(&path)?) } else { None };
        let defaults = Defaults::new(generation.as_ref(), &opened.config);
        let max_length = max_length(&arguments, &opened, &folder)?;
        let thinks_first = settings.dialect.thinking_ends_before_stops;
        let files =
            hash_small_files(&opened.folder, &folder).map_err(|error| Error::file(&opened.folder, error))?;
        let identity = identity(&arguments, &opened, max_length, files, thinks_first);
        let facts = facts(&arguments, &opened, &encoder, max_length);
        Ok(Self { arguments, opened, encoder, defaults, max_length, identity, facts, thinks_first })
    }

    /// The identity without paths and times, which differ between machines.
    pub(super) fn portable_identity(&self) -> ModelIdentity {
        let of_machine = |name: &str| matches!(name, "model" | "peft" | "tokenizer");
        let facts = self.identity.facts.iter().filter(|(name, _)| !of_machine(name));
        let facts = facts.map(|(name, fact)| match *name {
            "weights" => (*name, self.opened.portable_fingerprint.clone()),
            _ => (*name, fact.clone()),
        });
        ModelIdentity { backend: self.identity.backend.clone(), facts: facts.collect() }
    }

    /// The chat template, with the variables that the arguments set.
    pub(super) fn chat_template(&self, name: Option<&str>) -> Result<ModelTemplate, ModelError> {
        self.encoder.tokenizer().chat_template_with(name, &self.arguments.template_variables)
    }
}

/// The maximum length: from the arguments, the configuration, the class or the tokenizer, in this order.
fn max_length(arguments: &Arguments, opened: &Opened, tokenizer: &Path) -> Result<usize> {
    if let Some(length) = arguments.max_length {
        return Ok(length);
    }
    let nested = opened.config.object("text_config")?;
    let config = nested.as_ref().unwrap_or(&opened.config);
    for name in ["n_positions", "max_position_embeddings", "n_ctx"] {
        if let Some(length) = config.optional_size(name)? {
            return Ok(length);
        }
    }
    if let Some(length) = opened.positions {
        return Ok(length);
    }
    let path = tokenizer.join("tokenizer_config.json");
    let length =
        if path.is_file() { Config::read(&path)?.optional_number("model_max_length")? } else { None };
    // Tokenizers without a limit store a huge number.
    let length = length.filter(|length| (1.0..1e12).contains(length));
    Ok(length.map_or(DEFAULT_LENGTH, |length| length as usize))
}

fn identity(
    arguments: &Arguments,
    opened: &Opened,
    max_length: usize,
    files: String,
    thinks_first: bool,
) -> ModelIdentity {
    let mut facts = vec![
        ("model", arguments.pretrained.clone()),
        ("weights", opened.fingerprint.clone()),
        ("files", files),
        ("dtype", format!("{:?}, {:?}", arguments.precision, opened.dtype)),
        ("device", if arguments.is_cpu() { "cpu".into() } else { "cuda".into() }),
        ("max_length", max_length.to_string()),
        ("seed", arguments.seed.to_string()),
    ];
    let mut add = |name, fact: Option<String>| facts.extend(fact.map(|fact| (name, fact)));
    add("peft", arguments.peft.clone());
    add("tokenizer", arguments.tokenizer.clone());
    add("add_bos_token", arguments.add_bos_token.map(|flag| flag.to_string()));
    add("prefix_token_id", arguments.prefix_token_id.map(|token| token.to_string()));
    add("max_gen_toks", arguments.max_gen_toks.map(|limit| limit.to_string()));
    // The order matters only with an end-of-thinking marker.
    add("think_end_token", arguments.think_end.as_ref().map(|end| format!("{end:?}, first: {thinks_first}")));
    ModelIdentity { backend: "hf".into(), facts }
}

fn facts(arguments: &Arguments, opened: &Opened, encoder: &PromptEncoder, max_length: usize) -> ModelFacts {
    let mut facts = ModelFacts::default();
    let mut devices: Vec<String> = arguments.devices.iter().map(ToString::to_string).collect();
    devices.dedup();
    facts.device = Some(devices.join(","));
    facts.config.insert("model_num_parameters", opened.parameters as i64);
    let dtype = match opened.dtype {
        candle_core::DType::BF16 => "torch.bfloat16",
        candle_core::DType::F16 => "torch.float16",
        _ => "torch.float32",
    };
    facts.config.insert("model_dtype", dtype);
    facts.config.insert("model_revision", arguments.revision.as_str());
    facts.config.insert("model_sha", opened.commit.as_deref().unwrap_or_default());
    let tokenizer = encoder.tokenizer();
    let shown = |text: Option<&str>, id: Option<u32>| {
        let id = id.map_or_else(|| "None".to_owned(), |id| id.to_string());
        Value::list([text.map_or(Value::None, Value::str), Value::str(id)])
    };
    let own = |name: &str| {
        let token = tokenizer.special_token(name);
        shown(token.map(|token| token.text), token.and_then(|token| token.id))
    };
    let (text, id) = tokenizer.padding();
    facts.tokenizer.insert("tokenizer_pad_token", shown(Some(&text), Some(id)));
    facts.tokenizer.insert("tokenizer_eos_token", own("eos_token"));
    facts.tokenizer.insert("tokenizer_bos_token", own("bos_token"));
    let end = encoder.eos().map_or(Value::None, |(token, _)| Value::Int(token.into()));
    facts.tokenizer.insert("eot_token_id", end);
    facts.tokenizer.insert("max_length", max_length as i64);
    facts
}
