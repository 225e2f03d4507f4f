//! Validation of a GGUF file's model metadata.
//!
//! Metadata changes how other runtimes compute, so an unknown entry could change answers. It is refused, as is a value
//! that the implementation here does not support.

use super::{Entry, Gguf};
use crate::error::{Error, Result};

/// The upper bound of sizes, so that products of two cannot overflow.
const LARGEST: i64 = i32::MAX as i64;

/// The type of an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// A non-negative integer.
    Size,
    /// A finite float.
    Number,
    Flag,
    Text,
    /// An integer, or a boolean per layer.
    Pattern,
}

use Kind::{Flag, Number, Pattern, Size, Text};

/// Known entries, without the architecture prefix.
const KNOWN: [(&str, Kind); 41] = [
    ("attention.causal", Flag),
    ("attention.head_count", Size),
    ("attention.head_count_kv", Size),
    ("attention.key_length", Size),
    ("attention.layer_norm_epsilon", Number),
    ("attention.layer_norm_rms_epsilon", Number),
    ("attention.sliding_window", Size),
    ("attention.sliding_window_pattern", Pattern),
    ("attention.value_length", Size),
    ("attn_logit_softcapping", Number),
    ("block_count", Size),
    ("context_length", Size),
    ("embedding_length", Size),
    ("expert_count", Size),
    ("expert_feed_forward_length", Size),
    ("expert_gating_func", Size),
    ("expert_shared_count", Size),
    ("expert_shared_feed_forward_length", Size),
    ("expert_used_count", Size),
    ("expert_weights_norm", Flag),
    ("expert_weights_scale", Number),
    ("feed_forward_length", Size),
    ("final_logit_softcapping", Number),
    ("leading_dense_block_count", Size),
    ("rope.dimension_count", Size),
    ("rope.freq_base", Number),
    ("rope.freq_base_swa", Number),
    ("rope.scale_linear", Number),
    ("rope.scaling.attn_factor", Number),
    ("rope.scaling.factor", Number),
    ("rope.scaling.finetuned", Flag),
    ("rope.scaling.original_context_length", Size),
    ("rope.scaling.type", Text),
    ("rope.scaling.yarn_attn_factor", Number),
    ("rope.scaling.yarn_beta_fast", Number),
    ("rope.scaling.yarn_beta_slow", Number),
    ("rope.scaling.yarn_ext_factor", Number),
    ("rope.scaling.yarn_log_multiplier", Number),
    ("tensor_data_layout", Text),
    ("use_parallel_residual", Flag),
    ("vocab_size", Size),
];

/// Entries of certain architectures only.
const OWN: [(&str, &[&str]); 6] = [
    ("attention.sliding_window", &["gemma2", "gemma3", "phi3"]),
    ("attention.sliding_window_pattern", &["gemma3"]),
    ("attn_logit_softcapping", &["gemma2"]),
    ("final_logit_softcapping", &["gemma2", "gemma3"]),
    ("rope.freq_base_swa", &["gemma3"]),
    ("use_parallel_residual", &["gptneox", "stablelm"]),
];

/// Whether a key consists of something and a known name. The separator may be damaged, too.
fn is_last_part(key: &str, known: &str) -> bool {
    key.strip_suffix(known).is_some_and(|rest| rest.chars().count() > 1)
}

impl Gguf {
    /// Refuses entries that are unknown, of the wrong type, or of an unsupported value.
    pub(super) fn check_entries(&self) -> Result<()> {
        let prefix = format!("{}.", self.architecture);
        let mut entries: Vec<(&str, &Entry)> = self
            .header
            .entries
            .iter()
            .filter_map(|(key, entry)| Some((key.strip_prefix(&prefix)?, entry)))
            .collect();
        // Entries of other names say nothing about the model, unless the name of the architecture in them is damaged.
        let foreign = self.header.entries.keys().filter(|key| !key.starts_with(&prefix));
        let misnamed = foreign.filter(|key| KNOWN.iter().any(|(known, _)| is_last_part(key, known)));
        if let Some(key) = misnamed.min() {
            let problem =
                format!("its metadata entry `{key}` does not start with the architecture `{prefix}`");
            return Err(Error::file(&self.path, problem));
        }
        // Sorted, so that the same entry is reported every time.
        entries.sort_unstable_by_key(|(key, _)| *key);
        for (key, entry) in entries {
            let kind = KNOWN.iter().find(|(known, _)| *known == key).map(|(_, kind)| *kind);
            let kind = kind.ok_or_else(|| {
                let problem =
                    format!("its metadata entry `{prefix}{key}` is not supported and may change answers");
                Error::file(&self.path, problem)
            })?;
            if !kind.fits(entry) {
                let problem = format!("its metadata entry `{prefix}{key}` must be {}", kind.expected());
                return Err(Error::file(&self.path, problem));
            }
            if !self.is_supported(key, entry) {
                return Err(self.unsupported(key));
            }
        }
        self.check_experts()
    }

    /// Whether an entry has a supported value.
    fn is_supported(&self, key: &str, entry: &Entry) -> bool {
        let number = match entry {
            Entry::Whole(number) => *number as f64,
            Entry::Number(number) => *number,
            _ => 0.0,
        };
        let is_normalised = self.architecture != "qwen2moe";
        let is_yarn = self.entry("rope.scaling.type") == Some(&Entry::String("yarn".into()));
        let is_supported = match key {
            "attention.causal" => *entry == Entry::Flag(true),
            "attention.layer_norm_epsilon" | "attention.layer_norm_rms_epsilon" => number >= 0.0,
            "attn_logit_softcapping"
            | "final_logit_softcapping"
            | "rope.freq_base"
            | "rope.freq_base_swa" => number > 0.0,
            // Softmax is also the default.
            "expert_gating_func" => number == 0.0 || number == 1.0,
            "expert_weights_norm" => *entry == Entry::Flag(is_normalised),
            "expert_weights_scale" => number == 1.0,
            "leading_dense_block_count" => number == 0.0,
            "attention.value_length" => {
                let key_length = self.whole("attention.key_length").or_else(|| {
                    self.whole("embedding_length")?.checked_div(self.whole("attention.head_count")?)
                });
                key_length.is_none_or(|length| length as f64 == number)
            }
            "rope.scaling.attn_factor" => number == 1.0 || self.has("rope_factors_long.weight"),
            "rope.scaling.original_context_length" => {
                number > 0.0 || !(is_yarn || self.has("rope_factors_long.weight"))
            }
            "rope.scaling.yarn_ext_factor" => number == 1.0 || !is_yarn,
            "rope.scaling.yarn_log_multiplier" => number == 0.0 || !is_yarn,
            _ => true,
        };
        let is_own = OWN
            .iter()
            .filter(|(own, _)| *own == key)
            .all(|(_, architectures)| architectures.contains(&self.architecture.as_str()));
        // A window of width 0 means none.
        is_supported && (is_own || (key == "attention.sliding_window" && number == 0.0))
    }

    /// Refuses inconsistent expert counts.
    fn check_experts(&self) -> Result<()> {
        let count = self.whole("expert_count").unwrap_or_default();
        let used = self.whole("expert_used_count").unwrap_or_default();
        let has_experts = self.has("blk.0.ffn_gate_exps.weight");
        if has_experts != (count > 0) {
            return Err(self.unsupported("expert_count"));
        }
        if used > count || (has_experts && used == 0) {
            return Err(self.unsupported("expert_used_count"));
        }
        Ok(())
    }

    /// An error that an entry has an unsupported value.
    pub(super) fn unsupported(&self, key: &str) -> Error {
        let key = format!("{}.{key}", self.architecture);
        Error::file(&self.path, format!("its metadata entry `{key}` has an unsupported value"))
    }
}

impl Kind {
    fn fits(self, entry: &Entry) -> bool {
        match (self, entry) {
            (Size | Pattern, Entry::Whole(number)) => (0..=LARGEST).contains(number),
            (Number, Entry::Number(number)) => number.is_finite(),
            (Flag, Entry::Flag(_)) | (Text, Entry::String(_)) | (Pattern, Entry::Flags(_)) => true,
            // An integer is the bits of a float under a damaged type: no converter writes one here, no other runtime reads it.
            _ => false,
        }
    }

    fn expected(self) -> String {
        match self {
            Size => format!("an integer from 0 to {LARGEST}"),
            Number => "a finite float".into(),
            Flag => "true or false".into(),
            Text => "a string".into(),
            Pattern => "an integer or a list of booleans".into(),
        }
    }
}
