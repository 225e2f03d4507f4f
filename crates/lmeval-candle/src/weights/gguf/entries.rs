//! What the metadata of a GGUF file may say about its model.
//!
//! Programs that run such files change what they compute by some entries, so that one that is not known here could change
//! answers: it is an error, as is one whose value stands for something that the model here does not do.

use super::{Entry, Gguf};
use crate::error::{Error, Result};

/// The largest number that a size may be; products of two are numbers of this machine.
const LARGEST: i64 = i32::MAX as i64;

/// What an entry must be.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// A whole number, not below zero.
    Size,
    /// A number with limits.
    Number,
    Flag,
    Text,
    /// A whole number, or whether each layer is something.
    Pattern,
}

use Kind::{Flag, Number, Pattern, Size, Text};

/// The entries there are, without the name of the architecture.
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

/// Entries that only some architectures have.
const OWN: [(&str, &[&str]); 6] = [
    ("attention.sliding_window", &["gemma2", "gemma3", "phi3"]),
    ("attention.sliding_window_pattern", &["gemma3"]),
    ("attn_logit_softcapping", &["gemma2"]),
    ("final_logit_softcapping", &["gemma2", "gemma3"]),
    ("rope.freq_base_swa", &["gemma3"]),
    ("use_parallel_residual", &["gptneox", "stablelm"]),
];

impl Gguf {
    /// Refuses entries that are not known, that are of another type, or that ask for what is not known.
    pub(super) fn check_entries(&self) -> Result<()> {
        let prefix = format!("{}.", self.architecture);
        let mut entries: Vec<(&str, &Entry)> = self
            .header
            .entries
            .iter()
            .filter_map(|(key, entry)| Some((key.strip_prefix(&prefix)?, entry)))
            .collect();
        // The same one is named each time.
        entries.sort_unstable_by_key(|(key, _)| *key);
        for (key, entry) in entries {
            let kind = KNOWN.iter().find(|(known, _)| *known == key).map(|(_, kind)| *kind);
            let kind = kind.ok_or_else(|| {
                let problem = format!("its entry `{prefix}{key}` is not known here, and may change answers");
                Error::file(&self.path, problem)
            })?;
            if !kind.fits(entry) {
                let problem = format!("its entry `{prefix}{key}` must be {}", kind.expected());
                return Err(Error::file(&self.path, problem));
            }
            if !self.is_usual(key, entry) {
                return Err(self.unknown(key));
            }
        }
        self.check_experts()
    }

    /// Whether an entry has a value that means what the model does.
    fn is_usual(&self, key: &str, entry: &Entry) -> bool {
        let number = match entry {
            Entry::Whole(number) => *number as f64,
            Entry::Number(number) => *number,
            _ => 0.0,
        };
        let is_normalised = self.architecture != "qwen2moe";
        let is_yarn = self.entry("rope.scaling.type") == Some(&Entry::Text("yarn".into()));
        let is_usual = match key {
            "attention.causal" => *entry == Entry::Flag(true),
            "attention.layer_norm_epsilon" | "attention.layer_norm_rms_epsilon" => number >= 0.0,
            "attn_logit_softcapping"
            | "final_logit_softcapping"
            | "rope.freq_base"
            | "rope.freq_base_swa" => number > 0.0,
            // Softmax, also where it is not said.
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
        // There is no window where it has no width.
        is_usual && (is_own || (key == "attention.sliding_window" && number == 0.0))
    }

    /// Refuses numbers of experts that cannot be.
    fn check_experts(&self) -> Result<()> {
        let count = self.whole("expert_count").unwrap_or_default();
        let used = self.whole("expert_used_count").unwrap_or_default();
        let has_experts = self.has("blk.0.ffn_gate_exps.weight");
        if has_experts != (count > 0) {
            return Err(self.unknown("expert_count"));
        }
        if used > count || (has_experts && used == 0) {
            return Err(self.unknown("expert_used_count"));
        }
        Ok(())
    }

    /// The error of an entry whose value is not known.
    pub(super) fn unknown(&self, key: &str) -> Error {
        let key = format!("{}.{key}", self.architecture);
        Error::file(&self.path, format!("its entry `{key}` has a value that is not known here"))
    }
}

impl Kind {
    fn fits(self, entry: &Entry) -> bool {
        match (self, entry) {
            (Size | Pattern, Entry::Whole(number)) => (0..=LARGEST).contains(number),
            (Number, Entry::Number(number)) => number.is_finite(),
            (Number, Entry::Whole(_))
            | (Flag, Entry::Flag(_))
            | (Text, Entry::Text(_))
            | (Pattern, Entry::Flags(_)) => true,
            _ => false,
        }
    }

    fn expected(self) -> String {
        match self {
            Size => format!("a whole number from 0 to {LARGEST}"),
            Number => "a number with limits".into(),
            Flag => "true or false".into(),
            Text => "a text".into(),
            Pattern => "a whole number, or a list of true and false".into(),
        }
    }
}
