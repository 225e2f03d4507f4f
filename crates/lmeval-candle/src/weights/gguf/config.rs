//! Converts GGUF metadata to the fields of `config.json`.

use lmeval_pycompat::{Dict, Value};

use super::{Entry, Gguf, ROTARY};
use crate::config::Config;
use crate::error::{Error, Result};

/// Integer fields and their metadata keys.
const SIZES: [(&str, &str); 8] = [
    ("num_hidden_layers", "block_count"),
    ("hidden_size", "embedding_length"),
    ("num_attention_heads", "attention.head_count"),
    ("num_key_value_heads", "attention.head_count_kv"),
    ("head_dim", "attention.key_length"),
    ("max_position_embeddings", "context_length"),
    ("num_experts", "expert_count"),
    ("num_experts_per_tok", "expert_used_count"),
];
/// Float fields and their metadata keys.
const NUMBERS: [(&str, &str); 7] = [
    ("rms_norm_eps", "attention.layer_norm_rms_epsilon"),
    ("layer_norm_eps", "attention.layer_norm_epsilon"),
    ("layer_norm_epsilon", "attention.layer_norm_epsilon"),
    ("rope_theta", "rope.freq_base"),
    ("rotary_emb_base", "rope.freq_base"),
    ("attn_logit_softcapping", "attn_logit_softcapping"),
    ("final_logit_softcapping", "final_logit_softcapping"),
];
/// Metadata keys of end tokens.
const ENDS: [&str; 3] = ["eos_token_id", "eot_token_id", "eom_token_id"];

impl Gguf {
    /// The configuration in the form of `config.json`.
    pub fn config(&self) -> Result<Config> {
        self.check_entries()?;
        let mut fields = Dict::new();
        fields.insert("architectures", Value::list([Value::str(self.layout.class)]));
        for (field, key) in SIZES {
            if let Some(number) = self.whole(key) {
                fields.insert(field, number);
            }
        }
        for (field, key) in NUMBERS {
            if let Some(number) = self.number(key) {
                fields.insert(field, number);
            }
        }
        let embedding = self.stored_shape("token_embd.weight");
        let embedding = embedding.ok_or_else(|| Error::MissingWeight("token_embd.weight".into()))?;
        fields.insert("vocab_size", size(embedding.first().copied()));
        fields.insert("tie_word_embeddings", !self.has("output.weight"));
        if let Some(inner) = self.inner() {
            for field in ["intermediate_size", "n_inner", "ffn_hidden_size"] {
                fields.insert(field, inner);
            }
        }
        if let Some(scaling) = self.scaling()? {
            if let Some(original) = scaling.get_str("original_max_position_embeddings") {
                // Some classes look for it at the top level.
                fields.insert("original_max_position_embeddings", original.clone());
            }
            fields.insert("rope_scaling", Value::Dict(scaling.into()));
        }
        let ends = self.ends(embedding.first().copied())?;
        if !ends.is_empty() {
            fields.insert("eos_token_id", Value::list(ends));
        }
        self.own_fields(&mut fields)?;
        self.rotated(&mut fields)?;
        Ok(Config::from_fields(fields))
    }

    /// The end tokens. Ids outside the vocabulary mean that there is none.
    fn ends(&self, vocabulary: Option<usize>) -> Result<Vec<Value>> {
        let mut ends = Vec::new();
        for name in ENDS {
            match self.header.entries.get(&format!("tokenizer.ggml.{name}")) {
                None => {}
                Some(Entry::Whole(token)) => {
                    let is_one = (0..size(vocabulary)).contains(token);
                    ends.extend(is_one.then_some(Value::Int(*token)));
                }
                Some(_) => {
                    let problem = format!("its metadata entry `tokenizer.ggml.{name}` must be an integer");
                    return Err(Error::file(&self.path, problem));
                }
            }
        }
        Ok(ends)
    }

    /// The width of feed-forward layers, from the tensors: some converters always write four times the hidden size.
    fn inner(&self) -> Option<i64> {
        let rows = self.stored_shape("blk.0.ffn_up.weight").and_then(|shape| shape.first().copied());
        match rows {
            // The gate and up projections are one matrix.
            Some(rows) if self.architecture == "phi3" => Some(size(Some(rows / 2))),
            Some(rows) => Some(size(Some(rows))),
            None => self.whole("feed_forward_length"),
        }
    }

    /// Fields specific to the architecture.
    fn own_fields(&self, fields: &mut Dict) -> Result<()> {
        let experts = self.stored_shape("blk.0.ffn_up_exps.weight").and_then(|shape| shape.get(1).copied());
        let layers = self.whole("block_count");
        match self.architecture.as_str() {
            "llama" => {
                fields.insert("attention_bias", self.has("blk.0.attn_q.bias"));
                fields.insert("mlp_bias", self.has("blk.0.ffn_up.bias"));
                if experts.is_some() {
                    fields.insert("intermediate_size", size(experts));
                    fields.insert("num_local_experts", self.whole("expert_count").unwrap_or_default());
                    // GGUF files do not store a window, and other runtimes use none.
                    fields.insert("sliding_window", Value::None);
                }
            }
            "qwen2" => drop(fields.insert("qkv_bias", self.has("blk.0.attn_q.bias"))),
            "qwen3" => drop(fields.insert("attention_bias", self.has("blk.0.attn_q.bias"))),
            "qwen2moe" | "qwen3moe" => {
                let shared =
                    self.stored_shape("blk.0.ffn_up_shexp.weight").and_then(|shape| shape.first().copied());
                fields.insert("moe_intermediate_size", size(experts));
                fields.insert("shared_expert_intermediate_size", size(shared));
                fields.insert("norm_topk_prob", self.architecture == "qwen3moe");
                let bias = if self.architecture == "qwen2moe" { "qkv_bias" } else { "attention_bias" };
                fields.insert(bias, self.has("blk.0.attn_q.bias"));
            }
            "gemma2" => {
                self.window(fields);
                self.query_scale(fields, layers == Some(46))?;
            }
            "gemma3" => {
                self.window(fields);
                self.query_scale(fields, layers == Some(62))?;
                fields.insert("rope_local_base_freq", self.number("rope.freq_base_swa").unwrap_or(10_000.0));
                match self.entry("attention.sliding_window_pattern") {
                    None => {}
                    Some(Entry::Whole(pattern)) => {
                        fields.insert("sliding_window_pattern", *pattern);
                    }
                    Some(Entry::Flags(slides)) => {
                        let kinds = slides
                            .iter()
                            .map(|slides| if *slides { "sliding_attention" } else { "full_attention" });
                        fields.insert("layer_types", Value::list(kinds.map(Value::str)));
                    }
                    Some(_) => return Err(self.unsupported("attention.sliding_window_pattern")),
                }
            }
            "gpt2" => {
                let positions =
                    self.stored_shape("position_embd.weight").and_then(|shape| shape.first().copied());
                let positions =
                    positions.ok_or_else(|| Error::MissingWeight("position_embd.weight".into()))?;
                fields.insert("n_positions", size(Some(positions)));
            }
            "gptneox" => {
                fields.insert("attention_bias", self.has("blk.0.attn_qkv.bias"));
                fields.insert("use_parallel_residual", self.parallel(true)?);
            }
            "phi3" => self.window(fields),
            "stablelm" => {
                fields.insert("use_qkv_bias", self.has("blk.0.attn_q.bias"));
                fields.insert("use_parallel_residual", self.parallel(true)?);
            }
            "falcon" => {
                let (_, kv) = self.all_heads()?;
                let has_two = self.has("blk.0.attn_norm_2.weight");
                fields.insert("new_decoder_architecture", kv > 1 || has_two);
                fields.insert("multi_query", true);
                fields.insert("num_kv_heads", size(Some(kv)));
                fields.insert("num_ln_in_parallel_attn", if has_two { 2_i64 } else { 1 });
            }
            _ => {}
        }
        Ok(())
    }

    /// The number of rotated dimensions of a head.
    fn rotated(&self, fields: &mut Dict) -> Result<()> {
        let Some(rotated) = self.whole("rope.dimension_count").filter(|_| self.architecture != "gpt2") else {
            return Ok(());
        };
        let (count, _) = self.all_heads()?;
        let hidden = self.whole("embedding_length").unwrap_or_default();
        let width = self.whole("attention.key_length").unwrap_or(hidden / count as i64);
        match self.architecture.as_str() {
            "phi2" | "phi3" | "stablelm" | "gptneox" if (1..=width).contains(&rotated) => {
                // Halfway between two integers, so that truncation cannot land on a wrong one.
                let factor = if rotated == width { 1.0 } else { (rotated as f64 + 0.5) / width as f64 };
                fields.insert("partial_rotary_factor", factor);
                fields.insert("rotary_pct", factor);
                Ok(())
            }
            _ if rotated == width => Ok(()),
            _ => Err(Error::unsupported(format!(
                "Rotating {rotated} of {width} dimensions of a head is not supported for the architecture `{}`",
                self.architecture
            ))),
        }
    }

    fn window(&self, fields: &mut Dict) {
        if let Some(window) = self.whole("attention.sliding_window").filter(|window| *window > 0) {
            fields.insert("sliding_window", window);
        }
    }

    /// The scale of queries, which GGUF files do not store: the width of a head, but in the largest models the hidden size per
    /// head.
    fn query_scale(&self, fields: &mut Dict, is_largest: bool) -> Result<()> {
        let (count, _) = self.all_heads()?;
        let hidden = self.whole("embedding_length").unwrap_or_default();
        let width = self.whole("attention.key_length").unwrap_or(256);
        fields.insert("query_pre_attn_scalar", if is_largest { hidden / count as i64 } else { width });
        Ok(())
    }

    fn parallel(&self, default: bool) -> Result<bool> {
        match self.entry("use_parallel_residual") {
            None => Ok(default),
            Some(Entry::Flag(flag)) => Ok(*flag),
            Some(_) => Err(self.unsupported("use_parallel_residual")),
        }
    }

    /// The scaling of rotary embeddings.
    fn scaling(&self) -> Result<Option<Dict>> {
        let kind = match self.entry("rope.scaling.type") {
            Some(Entry::String(name)) => Some(name.as_str()),
            _ => None,
        };
        // Zero means none. The first key wins; without a type, all frequencies are scaled alike.
        let factor = self.number("rope.scaling.factor").or_else(|| self.number("rope.scale_linear"));
        let factor = factor.filter(|factor| *factor != 0.0).unwrap_or(1.0);
        if factor < 0.0 {
            return Err(self.unsupported("rope.scaling.factor"));
        }
        if self.has_factors() {
            return self.scaling_by_factors(kind, factor).map(Some);
        }
        let mut scaling = Dict::new();
        match kind {
            Some("none") => return Ok(None),
            None | Some("linear") if factor == 1.0 => return Ok(None),
            None | Some("linear") => drop(scaling.insert("rope_type", "linear")),
            Some("yarn") => drop(scaling.insert("rope_type", "yarn")),
            Some(other) => {
                return Err(Error::unsupported(format!(
                    "The scaling type `{other}` of rotary embeddings is not supported"
                )));
            }
        }
        scaling.insert("factor", factor);
        add_original(&mut scaling, self.whole("rope.scaling.original_context_length"));
        for (field, key) in [
            ("beta_fast", "rope.scaling.yarn_beta_fast"),
            ("beta_slow", "rope.scaling.yarn_beta_slow"),
            ("attention_factor", "rope.scaling.yarn_attn_factor"),
        ] {
            if let Some(number) = self.number(key) {
                scaling.insert(field, number);
            }
        }
        Ok(Some(scaling))
    }

    fn has_factors(&self) -> bool {
        ROTARY.iter().any(|name| self.has(name))
    }

    /// Scaling with a factor per frequency.
    fn scaling_by_factors(&self, kind: Option<&str>, factor: f64) -> Result<Dict> {
        let mut scaling = Dict::new();
        let factors = |name: &str| -> Result<Value> {
            let factors = self.numbers(name)?;
            Ok(Value::list(factors.into_iter().map(|factor| Value::Float(factor.into()))))
        };
        let [same, long, short] = ROTARY;
        let is_plain = factor == 1.0 || kind == Some("none");
        let is_known = match self.architecture.as_str() {
            "gpt2" => false,
            "phi3" => !self.has(same) && matches!(kind, None | Some("none" | "longrope")),
            _ => !self.has(long) && !self.has(short) && matches!(kind, None | Some("none" | "linear")),
        };
        if !is_known || !is_plain {
            return Err(Error::unsupported(format!(
                "The factors of rotary embeddings in `{}` are not supported for the architecture `{}` and the scaling type `{}`",
                self.path.display(),
                self.architecture,
                kind.unwrap_or("none")
            )));
        }
        scaling.insert("rope_type", "longrope");
        if self.has(same) {
            let factors = factors(same)?;
            scaling.insert("short_factor", factors.clone());
            scaling.insert("long_factor", factors);
            scaling.insert("attention_factor", 1.0);
            return Ok(scaling);
        }
        scaling.insert("short_factor", factors(short)?);
        scaling.insert("long_factor", factors(long)?);
        add_original(&mut scaling, self.whole("rope.scaling.original_context_length"));
        if let Some(factor) = self.number("rope.scaling.attn_factor") {
            scaling.insert("attention_factor", factor);
        }
        Ok(scaling)
    }

    fn stored_shape(&self, stored: &str) -> Option<&[usize]> {
        self.header.tensors.get(stored).map(|tensor| tensor.shape.as_slice())
    }
}

fn size(size: Option<usize>) -> i64 {
    size.and_then(|size| i64::try_from(size).ok()).unwrap_or_default()
}

fn add_original(scaling: &mut Dict, original: Option<i64>) {
    if let Some(original) = original {
        scaling.insert("original_max_position_embeddings", original);
    }
}
