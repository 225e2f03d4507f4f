//! Maps GGUF tensors to checkpoint weights: names, and the conversions to undo.
//!
//! To add an architecture, add a [`Layout`] with its names and its part of [`super::config`], and convert a tiny checkpoint with the
//! format's own converter into `tests/fixtures/gguf`.

/// A conversion to undo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Stored unchanged.
    None,
    /// Rows of queries that are rotated together are adjacent instead of in the two halves of a head.
    QueryHalves,
    /// The same for keys.
    KeyHalves,
    /// Transposed.
    Transposed,
    /// All queries, then all keys, then all values, instead of interleaved per group of heads.
    Grouped,
    /// The weights of a norm have 1 added.
    LessOne,
    /// A one-row matrix is stored as a vector.
    Row,
    /// The matrices of all experts are stacked in one tensor.
    Experts,
}

/// The GGUF and checkpoint names of a tensor. `N` is the layer, `E` the expert.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    pub(super) stored: &'static str,
    pub(super) own: &'static str,
    pub(super) change: Change,
    /// Whether there may be a bias.
    pub(super) bias: bool,
}

/// The tensors of an architecture.
#[derive(Debug)]
pub(super) struct Layout {
    /// The value of `general.architecture`.
    pub(super) architecture: &'static str,
    /// A tensor that distinguishes this layout from others of the same architecture.
    pub(super) mark: Option<&'static str>,
    /// The model class in `transformers`.
    pub(super) class: &'static str,
    pub(super) names: &'static [&'static [Name]],
}

const fn name(stored: &'static str, own: &'static str) -> Name {
    Name { stored, own, change: Change::None, bias: false }
}

impl Name {
    const fn biased(self) -> Self {
        Self { bias: true, ..self }
    }

    const fn but(self, change: Change) -> Self {
        Self { change, ..self }
    }
}

/// Embedding, final norm and head of most models.
const FRAME: &[Name] =
    &[name("token_embd", "model.embed_tokens"), name("output_norm", "model.norm"), name("output", "lm_head")];
/// The norms before attention and feed-forward layers.
const NORMS: &[Name] = &[
    name("blk.N.attn_norm", "model.layers.N.input_layernorm"),
    name("blk.N.ffn_norm", "model.layers.N.post_attention_layernorm"),
];
const ATTENTION: &[Name] = &[
    name("blk.N.attn_q", "model.layers.N.self_attn.q_proj").biased(),
    name("blk.N.attn_k", "model.layers.N.self_attn.k_proj").biased(),
    name("blk.N.attn_v", "model.layers.N.self_attn.v_proj").biased(),
    name("blk.N.attn_output", "model.layers.N.self_attn.o_proj"),
];
const LLAMA_ATTENTION: &[Name] = &[
    name("blk.N.attn_q", "model.layers.N.self_attn.q_proj").biased().but(Change::QueryHalves),
    name("blk.N.attn_k", "model.layers.N.self_attn.k_proj").biased().but(Change::KeyHalves),
    name("blk.N.attn_v", "model.layers.N.self_attn.v_proj").biased(),
    name("blk.N.attn_output", "model.layers.N.self_attn.o_proj").biased(),
];
const HEAD_NORMS: &[Name] = &[
    name("blk.N.attn_q_norm", "model.layers.N.self_attn.q_norm"),
    name("blk.N.attn_k_norm", "model.layers.N.self_attn.k_norm"),
];
const GATED: &[Name] = &[
    name("blk.N.ffn_gate", "model.layers.N.mlp.gate_proj"),
    name("blk.N.ffn_up", "model.layers.N.mlp.up_proj"),
    name("blk.N.ffn_down", "model.layers.N.mlp.down_proj"),
];
const GATED_WITH_BIAS: &[Name] = &[
    name("blk.N.ffn_gate", "model.layers.N.mlp.gate_proj").biased(),
    name("blk.N.ffn_up", "model.layers.N.mlp.up_proj").biased(),
    name("blk.N.ffn_down", "model.layers.N.mlp.down_proj").biased(),
];
const QWEN_EXPERTS: &[Name] = &[
    name("blk.N.ffn_gate_inp", "model.layers.N.mlp.gate"),
    name("blk.N.ffn_gate_exps", "model.layers.N.mlp.experts.E.gate_proj").but(Change::Experts),
    name("blk.N.ffn_up_exps", "model.layers.N.mlp.experts.E.up_proj").but(Change::Experts),
    name("blk.N.ffn_down_exps", "model.layers.N.mlp.experts.E.down_proj").but(Change::Experts),
];
const SHARED_EXPERT: &[Name] = &[
    name("blk.N.ffn_gate_inp_shexp", "model.layers.N.mlp.shared_expert_gate").but(Change::Row),
    name("blk.N.ffn_gate_shexp", "model.layers.N.mlp.shared_expert.gate_proj"),
    name("blk.N.ffn_up_shexp", "model.layers.N.mlp.shared_expert.up_proj"),
    name("blk.N.ffn_down_shexp", "model.layers.N.mlp.shared_expert.down_proj"),
];
const MIXTRAL_EXPERTS: &[Name] = &[
    name("blk.N.ffn_gate_inp", "model.layers.N.block_sparse_moe.gate"),
    name("blk.N.ffn_gate_exps", "model.layers.N.block_sparse_moe.experts.E.w1").but(Change::Experts),
    name("blk.N.ffn_up_exps", "model.layers.N.block_sparse_moe.experts.E.w3").but(Change::Experts),
    name("blk.N.ffn_down_exps", "model.layers.N.block_sparse_moe.experts.E.w2").but(Change::Experts),
];
const GEMMA_FRAME: &[Name] = &[
    name("token_embd", "model.embed_tokens"),
    name("output_norm", "model.norm").but(Change::LessOne),
    name("output", "lm_head"),
];
const GEMMA_NORMS: &[Name] = &[
    name("blk.N.attn_norm", "model.layers.N.input_layernorm").but(Change::LessOne),
    name("blk.N.ffn_norm", "model.layers.N.post_attention_layernorm").but(Change::LessOne),
];
const GEMMA_FOUR_NORMS: &[Name] = &[
    name("blk.N.attn_norm", "model.layers.N.input_layernorm").but(Change::LessOne),
    name("blk.N.post_attention_norm", "model.layers.N.post_attention_layernorm").but(Change::LessOne),
    name("blk.N.ffn_norm", "model.layers.N.pre_feedforward_layernorm").but(Change::LessOne),
    name("blk.N.post_ffw_norm", "model.layers.N.post_feedforward_layernorm").but(Change::LessOne),
];
const GEMMA_HEAD_NORMS: &[Name] = &[
    name("blk.N.attn_q_norm", "model.layers.N.self_attn.q_norm").but(Change::LessOne),
    name("blk.N.attn_k_norm", "model.layers.N.self_attn.k_norm").but(Change::LessOne),
];
const GPT2: &[Name] = &[
    name("token_embd", "transformer.wte"),
    name("position_embd", "transformer.wpe"),
    name("output_norm", "transformer.ln_f").biased(),
    name("output", "lm_head"),
    name("blk.N.attn_norm", "transformer.h.N.ln_1").biased(),
    name("blk.N.attn_qkv", "transformer.h.N.attn.c_attn").biased().but(Change::Transposed),
    name("blk.N.attn_output", "transformer.h.N.attn.c_proj").biased().but(Change::Transposed),
    name("blk.N.ffn_norm", "transformer.h.N.ln_2").biased(),
    name("blk.N.ffn_up", "transformer.h.N.mlp.c_fc").biased().but(Change::Transposed),
    name("blk.N.ffn_down", "transformer.h.N.mlp.c_proj").biased().but(Change::Transposed),
];
const GPT_NEOX: &[Name] = &[
    name("token_embd", "gpt_neox.embed_in"),
    name("output_norm", "gpt_neox.final_layer_norm").biased(),
    name("output", "embed_out"),
    name("blk.N.attn_norm", "gpt_neox.layers.N.input_layernorm").biased(),
    name("blk.N.ffn_norm", "gpt_neox.layers.N.post_attention_layernorm").biased(),
    name("blk.N.attn_qkv", "gpt_neox.layers.N.attention.query_key_value").biased().but(Change::Grouped),
    name("blk.N.attn_output", "gpt_neox.layers.N.attention.dense").biased(),
    name("blk.N.ffn_up", "gpt_neox.layers.N.mlp.dense_h_to_4h").biased(),
    name("blk.N.ffn_down", "gpt_neox.layers.N.mlp.dense_4h_to_h").biased(),
];
const PHI2: &[Name] = &[
    name("token_embd", "model.embed_tokens"),
    name("output_norm", "model.final_layernorm").biased(),
    name("output", "lm_head").biased(),
    name("blk.N.attn_norm", "model.layers.N.input_layernorm").biased(),
    name("blk.N.attn_q", "model.layers.N.self_attn.q_proj").biased(),
    name("blk.N.attn_k", "model.layers.N.self_attn.k_proj").biased(),
    name("blk.N.attn_v", "model.layers.N.self_attn.v_proj").biased(),
    name("blk.N.attn_output", "model.layers.N.self_attn.dense").biased(),
    name("blk.N.ffn_up", "model.layers.N.mlp.fc1").biased(),
    name("blk.N.ffn_down", "model.layers.N.mlp.fc2").biased(),
];
const PHI3: &[Name] = &[
    name("blk.N.attn_qkv", "model.layers.N.self_attn.qkv_proj"),
    name("blk.N.attn_output", "model.layers.N.self_attn.o_proj"),
    name("blk.N.ffn_up", "model.layers.N.mlp.gate_up_proj"),
    name("blk.N.ffn_down", "model.layers.N.mlp.down_proj"),
];
const OLMO2_NORMS: &[Name] = &[
    name("blk.N.post_attention_norm", "model.layers.N.post_attention_layernorm"),
    name("blk.N.post_ffw_norm", "model.layers.N.post_feedforward_layernorm"),
];
const STABLELM: &[Name] = &[
    name("token_embd", "model.embed_tokens"),
    name("output_norm", "model.norm").biased(),
    name("output", "lm_head"),
    name("blk.N.attn_norm", "model.layers.N.input_layernorm").biased(),
    name("blk.N.ffn_norm", "model.layers.N.post_attention_layernorm").biased(),
];
const FALCON: &[Name] = &[
    name("token_embd", "transformer.word_embeddings"),
    name("output_norm", "transformer.ln_f").biased(),
    name("output", "lm_head"),
    name("blk.N.attn_qkv", "transformer.h.N.self_attention.query_key_value").but(Change::Grouped),
    name("blk.N.attn_output", "transformer.h.N.self_attention.dense"),
    name("blk.N.ffn_up", "transformer.h.N.mlp.dense_h_to_4h"),
    name("blk.N.ffn_down", "transformer.h.N.mlp.dense_4h_to_h"),
];
const FALCON_NORM: &[Name] = &[name("blk.N.attn_norm", "transformer.h.N.input_layernorm").biased()];
const FALCON_NORMS: &[Name] = &[
    name("blk.N.attn_norm_2", "transformer.h.N.ln_attn").biased(),
    name("blk.N.attn_norm", "transformer.h.N.ln_mlp").biased(),
];

/// All layouts. For each architecture, those with a mark come first.
pub(super) const LAYOUTS: &[Layout] = &[
    Layout {
        architecture: "llama",
        mark: Some("blk.0.ffn_gate_exps.weight"),
        class: "MixtralForCausalLM",
        names: &[FRAME, NORMS, LLAMA_ATTENTION, MIXTRAL_EXPERTS],
    },
    Layout {
        architecture: "llama",
        mark: None,
        class: "LlamaForCausalLM",
        names: &[FRAME, NORMS, LLAMA_ATTENTION, GATED_WITH_BIAS],
    },
    Layout {
        architecture: "qwen2",
        mark: None,
        class: "Qwen2ForCausalLM",
        names: &[FRAME, NORMS, ATTENTION, GATED],
    },
    Layout {
        architecture: "qwen2moe",
        mark: None,
        class: "Qwen2MoeForCausalLM",
        names: &[FRAME, NORMS, ATTENTION, QWEN_EXPERTS, SHARED_EXPERT],
    },
    Layout {
        architecture: "qwen3",
        mark: None,
        class: "Qwen3ForCausalLM",
        names: &[FRAME, NORMS, ATTENTION, HEAD_NORMS, GATED],
    },
    Layout {
        architecture: "qwen3moe",
        mark: None,
        class: "Qwen3MoeForCausalLM",
        names: &[FRAME, NORMS, ATTENTION, HEAD_NORMS, QWEN_EXPERTS],
    },
    Layout {
        architecture: "gemma",
        mark: None,
        class: "GemmaForCausalLM",
        names: &[GEMMA_FRAME, GEMMA_NORMS, ATTENTION, GATED],
    },
    Layout {
        architecture: "gemma2",
        mark: None,
        class: "Gemma2ForCausalLM",
        names: &[GEMMA_FRAME, GEMMA_FOUR_NORMS, ATTENTION, GATED],
    },
    Layout {
        architecture: "gemma3",
        mark: None,
        class: "Gemma3ForCausalLM",
        names: &[GEMMA_FRAME, GEMMA_FOUR_NORMS, ATTENTION, GEMMA_HEAD_NORMS, GATED],
    },
    Layout { architecture: "gpt2", mark: None, class: "GPT2LMHeadModel", names: &[GPT2] },
    Layout { architecture: "gptneox", mark: None, class: "GPTNeoXForCausalLM", names: &[GPT_NEOX] },
    Layout { architecture: "phi2", mark: None, class: "PhiForCausalLM", names: &[PHI2] },
    Layout { architecture: "phi3", mark: None, class: "Phi3ForCausalLM", names: &[FRAME, NORMS, PHI3] },
    Layout {
        architecture: "olmo2",
        mark: None,
        class: "Olmo2ForCausalLM",
        names: &[FRAME, OLMO2_NORMS, ATTENTION, HEAD_NORMS, GATED],
    },
    Layout {
        architecture: "stablelm",
        mark: None,
        class: "StableLmForCausalLM",
        names: &[STABLELM, ATTENTION, GATED],
    },
    Layout {
        architecture: "falcon",
        mark: Some("blk.0.attn_norm_2.weight"),
        class: "FalconForCausalLM",
        names: &[FALCON, FALCON_NORMS],
    },
    Layout { architecture: "falcon", mark: None, class: "FalconForCausalLM", names: &[FALCON, FALCON_NORM] },
];

impl Layout {
    /// Finds the layout of a file by its architecture and tensors.
    pub(super) fn find(architecture: &str, has: impl Fn(&str) -> bool) -> Option<&'static Self> {
        LAYOUTS.iter().find(|layout| layout.architecture == architecture && layout.mark.is_none_or(&has))
    }

    /// The checkpoint name of a stored tensor, and the conversion to undo.
    pub(super) fn own(&self, stored: &str) -> Option<(String, Change)> {
        let (module, kind) = stored.rsplit_once('.')?;
        let (layer, pattern) = match module.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) {
            Some((layer, rest)) if layer.bytes().all(|byte| byte.is_ascii_digit()) => {
                (layer, format!("blk.N.{rest}"))
            }
            _ => ("", module.to_owned()),
        };
        let known = self.names.iter().copied().flatten().find(|name| name.stored == pattern)?;
        match kind {
            "weight" => {}
            "bias" if known.bias => {}
            _ => return None,
        }
        // A bias is never transposed.
        let change =
            if kind == "bias" && known.change == Change::Transposed { Change::None } else { known.change };
        Some((format!("{}.{kind}", known.own.replacen('N', layer, 1)), change))
    }
}

/// The supported architectures.
pub(super) fn architectures() -> Vec<&'static str> {
    let mut names: Vec<&str> = LAYOUTS.iter().map(|layout| layout.architecture).collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn translates_names() {
        let layout = Layout::find("llama", |_| false).unwrap();
        let own = |stored: &str| layout.own(stored);
        assert_eq!(own("blk.12.ffn_up.weight").unwrap().0, "model.layers.12.mlp.up_proj.weight");
        let (name, change) = own("blk.0.attn_q.bias").unwrap();
        assert_eq!((name.as_str(), change), ("model.layers.0.self_attn.q_proj.bias", Change::QueryHalves));
        assert_eq!(own("output.weight").unwrap().0, "lm_head.weight");
        for unknown in
            ["output.bias", "rope_freqs.weight", "blk.0.ffn_up.scale", "blk.x.ffn_up.weight", "blk"]
        {
            assert_eq!(own(unknown), None, "{unknown}");
        }
        let experts = Layout::find("llama", |_| true).unwrap();
        assert_eq!(experts.class, "MixtralForCausalLM");
        let (name, _) = experts.own("blk.3.ffn_down_exps.weight").unwrap();
        assert_eq!(name, "model.layers.3.block_sparse_moe.experts.E.w2.weight");
        assert!(Layout::find("mamba", |_| true).is_none());
    }

    #[test]
    fn placeholders_are_consistent() {
        for name in LAYOUTS.iter().flat_map(|layout| layout.names).copied().flatten() {
            assert_eq!(name.stored.starts_with("blk.N."), name.own.contains(".N."), "{name:?}");
            assert_eq!(name.change == Change::Experts, name.own.contains(".E."), "{name:?}");
            assert_eq!(
                name.own.matches(['N', 'E']).count(),
                name.own.matches(".N.").count() + name.own.matches(".E.").count()
            );
        }
    }
}
