//! Supported and ignored generation settings.

use lmeval_core::{ModelError, nearest};
use lmeval_pycompat::{Value, repr};

use super::fields::{Fields, GivenSetting};
use crate::arguments::configuration;

/// The names of the token limit, in order of precedence.
pub(super) const LIMITS: [&str; 4] =
    ["max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"];

/// Supported settings.
const SUPPORTED: [&str; 30] = [
    "until",
    "do_sample",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "epsilon_cutoff",
    "eta_cutoff",
    "top_h",
    "repetition_penalty",
    "encoder_repetition_penalty",
    "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size",
    "bad_words_ids",
    "sequence_bias",
    "min_length",
    "min_new_tokens",
    "max_length",
    "eos_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "exponential_decay_length_penalty",
    "suppress_tokens",
    "begin_suppress_tokens",
    "seed",
    LIMITS[0],
    LIMITS[1],
    LIMITS[2],
    LIMITS[3],
];

/// Settings that do not affect the generated text: performance, additional outputs, and those of beam search and
/// encoders.
const IGNORED: [&str; 35] = [
    "use_cache",
    "cache_implementation",
    "cache_config",
    "max_cache_len",
    "compile_config",
    "disable_compile",
    "continuous_batching_config",
    "low_memory",
    "prefill_chunk_size",
    "pad_token_id",
    "bos_token_id",
    "decoder_start_token_id",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "output_logits",
    "return_dict_in_generate",
    "remove_invalid_values",
    "renormalize_logits",
    "early_stopping",
    "length_penalty",
    "diversity_penalty",
    "is_assistant",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "assistant_confidence_threshold",
    "assistant_early_exit",
    "assistant_lookbehind",
    "assistant_ensemble_weight",
    "target_lookbehind",
    "prompt_lookup_num_tokens",
    "max_matching_ngram_size",
    "speculation_type",
    "use_mtp",
    "transformers_version",
];

/// Unsupported settings that would affect the generated text, with the value besides `None` and `False` that is neutral.
const UNSUPPORTED: [(&str, f64); 12] = [
    ("num_beams", 1.0),
    ("num_beam_groups", 1.0),
    ("num_return_sequences", 1.0),
    ("guidance_scale", 1.0),
    ("penalty_alpha", 0.0),
    ("dola_layers", 0.0),
    ("constraints", 0.0),
    ("force_words_ids", 0.0),
    ("watermarking_config", 0.0),
    ("token_healing", 0.0),
    ("max_time", 0.0),
    ("stop_strings", 0.0),
];

/// Refuses unknown settings, and unsupported ones with a value that is not neutral.
pub(super) fn check(fields: Fields<'_>) -> Result<(), ModelError> {
    let known = || SUPPORTED.into_iter().chain(IGNORED).chain(UNSUPPORTED.map(|(name, _)| name));
    for name in fields.request.keys() {
        if name.as_str().is_some_and(|name| known().any(|known| known == name)) {
            continue;
        }
        let shown = repr::str(name);
        let error = configuration(format!("Unknown generation setting `{shown}`"));
        return Err(match nearest(&shown, known()).first() {
            Some(near) => error.hint(format!("Did you mean `{near}`?")),
            None => error,
        }
        .hint(PYTHON));
    }
    for (name, neutral) in UNSUPPORTED {
        let Some(found) = fields.get(name) else { continue };
        let is_neutral = !found.value.is_truthy()
            || (!matches!(found.value, Value::Str(_)) && found.value.to_f64() == Some(neutral));
        if !is_neutral {
            return Err(refused(found));
        }
    }
    Ok(())
}

/// An error that a setting is not supported.
pub(super) fn refused(found: GivenSetting<'_>) -> ModelError {
    let value = repr::repr(found.value);
    let error = configuration(format!("{} is `{value}`, which is not supported", found.describe()));
    if found.name == "stop_strings" {
        return error.hint("Use `until` for stop strings");
    }
    error.hint(format!("Switch it off with `--gen_kwargs {}=None`", found.name)).hint(PYTHON)
}

const PYTHON: &str =
    "`--model_args engine=torch,…` generates with torch, with all settings of `transformers`";
