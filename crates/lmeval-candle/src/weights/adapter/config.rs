//! The configuration of an adapter: `adapter_config.json`.

use lmeval_pycompat::re::{Flags, Regex};
use lmeval_pycompat::{Value, repr};

use crate::config::Config;
use crate::error::{Error, Result, TORCH};

/// Fields that do not change what an adapter computes, or whose effect its tensors show.
const HARMLESS: [&str; 28] = [
    "auto_mapping",
    "base_model_name_or_path",
    "bias",
    "corda_config",
    "ensure_weight_tying",
    "eva_config",
    "exclude_modules",
    "fan_in_fan_out",
    "inference_mode",
    "layers_pattern",
    "layers_to_transform",
    "lora_bias",
    "lora_dropout",
    "lora_ga_config",
    "loftq_config",
    "megatron_core",
    "modules_to_save",
    "peft_version",
    "qalora_group_size",
    "revision",
    "target_modules",
    "task_type",
    "trainable_token_indices",
    "use_dora",
    // Read below.
    "peft_type",
    "init_lora_weights",
    "r",
    "lora_alpha",
];

/// Initialisations that leave the weights of the model as they are.
const INITIALISATIONS: [&str; 4] = ["gaussian", "eva", "orthogonal", "default"];

/// The scales of an adapter's changes, and the tokens it trains.
#[derive(Debug)]
pub(super) struct AdapterConfig {
    rank: usize,
    alpha: f64,
    ranks: Vec<(Regex, f64)>,
    alphas: Vec<(Regex, f64)>,
    /// Divide by the square root of the rank.
    by_root: bool,
    /// Tokens by the end of a module's name; of the embedding, if the name is empty.
    pub(super) tokens: Vec<(String, Vec<u32>)>,
}

impl AdapterConfig {
    /// Reads the configuration and refuses what it asks for beyond changes of low rank.
    pub(super) fn read(config: &Config) -> Result<Self> {
        let kind = config.string("peft_type")?.unwrap_or("unknown");
        if kind != "LORA" {
            return Err(unsupported(&format!("adapters of the type `{kind}`")));
        }
        match config.get("init_lora_weights") {
            None | Some(Value::Bool(_)) => {}
            Some(Value::Str(name)) if INITIALISATIONS.contains(&&**name) => {}
            Some(other) => {
                let other = repr::str(other);
                return Err(unsupported(&format!(
                    "an adapter with `init_lora_weights` `{other}`, which changes the weights of the model when it is loaded"
                )));
            }
        }
        let known = |name: &&str| {
            HARMLESS.contains(name) || matches!(*name, "use_rslora" | "rank_pattern" | "alpha_pattern")
        };
        if let Some(other) =
            config.names().find(|name| !known(name) && config.get(name).is_some_and(Value::is_truthy))
            && other != "megatron_config"
        {
            return Err(unsupported(&format!("the field `{other}` of an adapter")));
        }
        Ok(Self {
            rank: config.size("r")?,
            alpha: config.number_or("lora_alpha", 8.0)?,
            ranks: patterns(config, "rank_pattern")?,
            alphas: patterns(config, "alpha_pattern")?,
            by_root: config.flag_or("use_rslora", false)?,
            tokens: tokens(config)?,
        })
    }

    /// The rank and the scale of a module's change.
    pub(super) fn scale(&self, module: &str) -> Result<(usize, f32)> {
        let rank = find(&self.ranks, module)?.map_or(self.rank, |rank| rank as usize);
        let alpha = find(&self.alphas, module)?.unwrap_or(self.alpha);
        let divisor = if self.by_root { (rank as f64).sqrt() } else { rank as f64 };
        Ok((rank, (alpha / divisor) as f32))
    }
}

/// The numbers of patterns that match the end of a module's name.
fn patterns(config: &Config, field: &str) -> Result<Vec<(Regex, f64)>> {
    let Some(object) = config.object(field)? else { return Ok(Vec::new()) };
    let entries = object.names().map(|name| {
        let pattern = Regex::new(&format!(r"(?:.*\.)?(?:{name})\Z"), Flags::default());
        let pattern = pattern.map_err(|error| {
            config.wrong(field, &format!("an object of regular expressions ({error})"), &Value::str(name))
        });
        Ok((pattern?, object.number(name)?))
    });
    entries.collect()
}

/// The number of the first pattern that matches.
fn find(patterns: &[(Regex, f64)], module: &str) -> Result<Option<f64>> {
    for (pattern, number) in patterns {
        let found = pattern.match_start(module).map_err(|error| Error::unsupported(error.to_string()))?;
        if found.is_some() {
            return Ok(Some(*number));
        }
    }
    Ok(None)
}

/// The tokens of `trainable_token_indices`: a list, or lists by module.
fn tokens(config: &Config) -> Result<Vec<(String, Vec<u32>)>> {
    const FIELD: &str = "trainable_token_indices";
    let wrong = |value: &Value| config.wrong(FIELD, "a list of tokens, or lists by module", value);
    let list = |value: &Value| -> Result<Vec<u32>> {
        let tokens = value.as_list().map(|tokens| {
            tokens.iter().map(|token| token.as_i64().and_then(|token| u32::try_from(token).ok())).collect()
        });
        tokens.flatten().ok_or_else(|| wrong(value))
    };
    match config.get(FIELD) {
        None => Ok(Vec::new()),
        Some(Value::Dict(lists)) => lists
            .iter()
            .map(|(name, tokens)| Ok((name.as_str().ok_or_else(|| wrong(name))?.to_owned(), list(tokens)?)))
            .collect(),
        Some(tokens) => Ok(vec![(String::new(), list(tokens)?)]),
    }
}

/// The error for an adapter that torch may run.
pub(super) fn unsupported(what: &str) -> Error {
    Error::Unsupported {
        message: format!("The native engine does not have {what}"),
        hint: Some(TORCH.into()),
    }
}
