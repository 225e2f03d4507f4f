//! Model architectures.
//!
//! # Adding an architecture
//!
//! A model with the structure of an existing one is an entry of [`ARCHITECTURES`]: the class that `config.json` names in
//! `architectures`, its `model_type`, and the function that builds it.
//!
//! A new structure is a file in this folder with a struct that implements [`Architecture`] and a function
//! `build(&Config, &Weights)`:
//!
//! 1. Read sizes and flags from [`Config`]: `config.size("hidden_size")?` fails with the name of a missing field.
//! 2. Load weights by their names in the checkpoint: `weights.at("model.layers").at(3).linear("mlp.up_proj", …)`. Shapes
//!    are checked against the configuration. [`Weights::head`] handles tied embeddings.
//! 3. Compose `crate::layers` in `forward`. A batch is a matrix with a row per token of any sequence. Rows are
//!    independent except in `crate::layers::attend`, which also stores keys and values. Learned position embeddings use
//!    [`Batch::positions`].
//! 4. Return the rows after the final norm. `head` computes float32 logits for the rows that are needed.
//!
//! Everything must work on any device: no step may read tensor values back, except an expert router. To test an
//! architecture, add a tiny checkpoint to `tests/fixtures` with the output of `transformers`.

mod baichuan;
mod bamba;
mod bloom;
mod cohere;
mod decoder;
mod deepseek;
mod ernie;
mod falcon;
mod falcon_h1;
mod gemma;
mod gemma3n;
mod glm;
mod gpt2;
mod gpt_neo;
mod gpt_neox;
mod gpt_oss;
mod gptj;
mod granite_hybrid;
mod hunyuan;
mod images;
mod internlm;
mod jamba;
mod lfm2;
mod llama;
mod llama4;
mod mamba;
mod mamba2;
mod minicpm;
mod mistral;
mod mixtral;
mod mpt;
mod nemotron_h;
mod olmo;
mod opt;
mod parts;
mod phi;
mod phi3;
mod phimoe;
mod qwen;
mod qwen_next;
mod stablelm;
mod starcoder2;
mod t5;

use std::fmt::Debug;

use candle_core::{DType, Tensor};

use crate::batch::Batch;
use crate::cache::{Cache, LayerShape};
use crate::config::Config;
use crate::error::{Error, Result, TORCH};
use crate::weights::Weights;

/// The sizes of a model that the engine needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// What each layer stores.
    pub layers: Vec<LayerShape>,
    /// The width of rows.
    pub hidden: usize,
    /// The vocabulary size.
    pub vocabulary: usize,
    /// The number of positions, if the model has a table of them.
    pub positions: Option<usize>,
}

/// A language model.
pub trait Architecture: Debug + Send + Sync {
    /// The sizes of the model.
    fn shape(&self) -> &Shape;

    /// Computes the rows after the final norm, `[rows, hidden]`, and stores keys and values in the cache.
    fn forward(&self, batch: &Batch, cache: &Cache) -> Result<Tensor>;

    /// Computes logits of some of these rows, `[rows, vocabulary]`: in float32 on the CPU, and in the type of the computation on a GPU unless
    /// they are changed afterwards.
    fn head(&self, rows: &Tensor) -> Result<Tensor>;

    /// The length above which rotations depend on the length of a sequence, so that no prefix is shared with shorter ones.
    fn length_boundary(&self) -> Option<usize> {
        None
    }

    /// The length beyond which a growing sequence is recomputed from the start.
    fn length_crossing(&self) -> Option<usize> {
        None
    }

    /// The first token of a decoder behind an encoder, whose input is the source of segments; `None` without an encoder.
    fn decoder_start(&self) -> Option<u32> {
        None
    }
}

/// Builds an architecture.
pub type Build = fn(&Config, &Weights) -> Result<Box<dyn Architecture>>;

/// A registered architecture.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The models, for the documentation.
    pub models: &'static str,
    /// The classes in `architectures` of `config.json`.
    pub classes: &'static [&'static str],
    /// The `model_type` of `config.json`, used if it names no class.
    pub model_types: &'static [&'static str],
    /// The class's default maximum length, for configurations without one.
    pub positions: Option<usize>,
    /// Builds the model.
    pub build: Build,
}

/// All supported architectures.
pub const ARCHITECTURES: &[Entry] = &[
    Entry {
        models: "LLaMA 1 to 3.x, CodeLlama, Vicuna, SmolLM, Yi and others with its architecture",
        classes: &["LlamaForCausalLM", "LLaMAForCausalLM", "YiForCausalLM"],
        model_types: &["llama", "Yi"],
        positions: Some(2048),
        build: llama::build,
    },
    Entry {
        models: "Mistral",
        classes: &["MistralForCausalLM"],
        model_types: &["mistral"],
        positions: Some(131_072),
        build: mistral::build,
    },
    Entry {
        models: "Mixtral",
        classes: &["MixtralForCausalLM"],
        model_types: &["mixtral"],
        positions: Some(131_072),
        build: mixtral::build,
    },
    Entry {
        models: "Qwen 1.5, 2 and 2.5",
        classes: &["Qwen2ForCausalLM"],
        model_types: &["qwen2"],
        positions: Some(32_768),
        build: qwen::build_2,
    },
    Entry {
        models: "Qwen 1.5 and 2 with experts",
        classes: &["Qwen2MoeForCausalLM"],
        model_types: &["qwen2_moe"],
        positions: Some(32_768),
        build: qwen::build_2_experts,
    },
    Entry {
        models: "Qwen 3",
        classes: &["Qwen3ForCausalLM"],
        model_types: &["qwen3"],
        positions: Some(32_768),
        build: qwen::build_3,
    },
    Entry {
        models: "Qwen 3 with experts",
        classes: &["Qwen3MoeForCausalLM"],
        model_types: &["qwen3_moe"],
        positions: Some(32_768),
        build: qwen::build_3_experts,
    },
    Entry {
        models: "Gemma 1",
        classes: &["GemmaForCausalLM"],
        model_types: &["gemma"],
        positions: Some(8192),
        build: gemma::build_1,
    },
    Entry {
        models: "Gemma 2",
        classes: &["Gemma2ForCausalLM"],
        model_types: &["gemma2"],
        positions: Some(8192),
        build: gemma::build_2,
    },
    Entry {
        models: "Gemma 3, text only",
        classes: &["Gemma3ForCausalLM"],
        model_types: &["gemma3_text"],
        positions: Some(131_072),
        build: gemma::build_3,
    },
    Entry {
        models: "Gemma 3 with images; only text input is supported",
        classes: &["Gemma3ForConditionalGeneration"],
        model_types: &["gemma3"],
        positions: Some(131_072),
        build: gemma::build_3_of_images,
    },
    Entry {
        models: "GPT-2",
        classes: &["GPT2LMHeadModel"],
        model_types: &["gpt2"],
        positions: Some(1024),
        build: gpt2::build,
    },
    Entry {
        models: "GPT-NeoX, Pythia",
        classes: &["GPTNeoXForCausalLM"],
        model_types: &["gpt_neox"],
        positions: Some(2048),
        build: gpt_neox::build,
    },
    Entry {
        models: "GPT-J",
        classes: &["GPTJForCausalLM"],
        model_types: &["gptj"],
        positions: Some(2048),
        build: gptj::build,
    },
    Entry {
        models: "OPT",
        classes: &["OPTForCausalLM"],
        model_types: &["opt"],
        positions: Some(2048),
        build: opt::build,
    },
    Entry {
        models: "Phi 1, 1.5 and 2",
        classes: &["PhiForCausalLM"],
        model_types: &["phi"],
        positions: Some(2048),
        build: phi::build,
    },
    Entry {
        models: "Phi 3, 3.5 and 4",
        classes: &["Phi3ForCausalLM"],
        model_types: &["phi3"],
        positions: Some(4096),
        build: phi3::build,
    },
    Entry {
        models: "OLMo 2",
        classes: &["Olmo2ForCausalLM"],
        model_types: &["olmo2"],
        positions: Some(2048),
        build: olmo::build_2,
    },
    Entry {
        models: "StableLM",
        classes: &["StableLmForCausalLM"],
        model_types: &["stablelm"],
        positions: Some(4096),
        build: stablelm::build,
    },
    Entry {
        models: "Falcon",
        classes: &["FalconForCausalLM"],
        model_types: &["falcon"],
        positions: Some(2048),
        build: falcon::build,
    },
    Entry {
        models: "SmolLM 3",
        classes: &["SmolLM3ForCausalLM"],
        model_types: &["smollm3"],
        positions: Some(32_768),
        build: llama::build_smollm_3,
    },
    Entry {
        models: "Granite 3",
        classes: &["GraniteForCausalLM"],
        model_types: &["granite"],
        positions: Some(2048),
        build: llama::build_granite,
    },
    Entry {
        models: "Arcee",
        classes: &["ArceeForCausalLM"],
        model_types: &["arcee"],
        positions: Some(4096),
        build: llama::build_arcee,
    },
    Entry {
        models: "Seed-OSS",
        classes: &["SeedOssForCausalLM"],
        model_types: &["seed_oss"],
        positions: Some(524_288),
        build: llama::build_seed,
    },
    Entry {
        models: "Ministral",
        classes: &["MinistralForCausalLM"],
        model_types: &["ministral"],
        positions: Some(131_072),
        build: mistral::build_ministral,
    },
    Entry {
        models: "OLMo 1",
        classes: &["OlmoForCausalLM"],
        model_types: &["olmo"],
        positions: Some(2048),
        build: olmo::build_1,
    },
    Entry {
        models: "OLMo 3",
        classes: &["Olmo3ForCausalLM"],
        model_types: &["olmo3"],
        positions: Some(2048),
        build: olmo::build_3,
    },
    Entry {
        models: "OLMoE",
        classes: &["OlmoeForCausalLM"],
        model_types: &["olmoe"],
        positions: Some(4096),
        build: olmo::build_experts,
    },
    Entry {
        models: "EXAONE 4",
        classes: &["Exaone4ForCausalLM"],
        model_types: &["exaone4"],
        positions: Some(2048),
        build: olmo::build_exaone,
    },
    Entry {
        models: "StarCoder 2",
        classes: &["Starcoder2ForCausalLM"],
        model_types: &["starcoder2"],
        positions: Some(4096),
        build: starcoder2::build,
    },
    Entry {
        models: "Nemotron",
        classes: &["NemotronForCausalLM"],
        model_types: &["nemotron"],
        positions: Some(4096),
        build: starcoder2::build_nemotron,
    },
    Entry {
        models: "Command R",
        classes: &["CohereForCausalLM"],
        model_types: &["cohere"],
        positions: Some(8192),
        build: cohere::build_1,
    },
    Entry {
        models: "Command R7B and A",
        classes: &["Cohere2ForCausalLM"],
        model_types: &["cohere2"],
        positions: Some(8192),
        build: cohere::build_2,
    },
    Entry {
        models: "GPT-Neo",
        classes: &["GPTNeoForCausalLM"],
        model_types: &["gpt_neo"],
        positions: Some(2048),
        build: gpt_neo::build,
    },
    Entry {
        models: "GPT-BigCode, StarCoder 1",
        classes: &["GPTBigCodeForCausalLM"],
        model_types: &["gpt_bigcode"],
        positions: Some(1024),
        build: gpt2::build_bigcode,
    },
    Entry {
        models: "BLOOM",
        classes: &["BloomForCausalLM"],
        model_types: &["bloom"],
        positions: None,
        build: bloom::build,
    },
    Entry {
        models: "ERNIE 4.5",
        classes: &["Ernie4_5ForCausalLM"],
        model_types: &["ernie4_5"],
        positions: Some(131_072),
        build: llama::build_ernie,
    },
    Entry {
        models: "Helium",
        classes: &["HeliumForCausalLM"],
        model_types: &["helium"],
        positions: Some(4096),
        build: llama::build_helium,
    },
    Entry {
        models: "GLM 4",
        classes: &["GlmForCausalLM"],
        model_types: &["glm"],
        positions: Some(131_072),
        build: glm::build,
    },
    Entry {
        models: "GLM 4 (2025)",
        classes: &["Glm4ForCausalLM"],
        model_types: &["glm4"],
        positions: Some(131_072),
        build: glm::build_4,
    },
    Entry {
        models: "MPT",
        classes: &["MptForCausalLM", "MPTForCausalLM"],
        model_types: &["mpt"],
        positions: None,
        build: mpt::build,
    },
    Entry {
        models: "DeepSeek V2, DeepSeek Coder V2",
        classes: &["DeepseekV2ForCausalLM"],
        model_types: &["deepseek_v2"],
        positions: Some(2048),
        build: deepseek::build_2,
    },
    Entry {
        models: "DeepSeek V3 and R1, Kimi K2, Moonlight",
        classes: &["DeepseekV3ForCausalLM"],
        model_types: &["deepseek_v3", "kimi_k2"],
        positions: Some(4096),
        build: deepseek::build_3,
    },
    Entry {
        models: "gpt-oss",
        classes: &["GptOssForCausalLM"],
        model_types: &["gpt_oss"],
        positions: Some(131_072),
        build: gpt_oss::build,
    },
    Entry {
        models: "GLM 4.5 to 4.7",
        classes: &["Glm4MoeForCausalLM"],
        model_types: &["glm4_moe"],
        positions: Some(131_072),
        build: glm::build_experts,
    },
    Entry {
        models: "GLM 4.7 Flash",
        classes: &["Glm4MoeLiteForCausalLM"],
        model_types: &["glm4_moe_lite"],
        positions: Some(202_752),
        build: deepseek::build_glm_lite,
    },
    Entry {
        models: "Llama 4, text only",
        classes: &["Llama4ForCausalLM"],
        model_types: &["llama4_text"],
        positions: Some(131_072),
        build: llama4::build,
    },
    Entry {
        models: "Llama 4 with images; only text input is supported",
        classes: &["Llama4ForConditionalGeneration"],
        model_types: &["llama4"],
        positions: Some(131_072),
        build: images::build_llama4,
    },
    Entry {
        models: "Qwen 3 Next",
        classes: &["Qwen3NextForCausalLM"],
        model_types: &["qwen3_next"],
        positions: Some(32_768),
        build: qwen_next::build,
    },
    Entry {
        models: "Mamba",
        classes: &["MambaForCausalLM"],
        model_types: &["mamba"],
        positions: None,
        build: mamba::build,
    },
    Entry {
        models: "Falcon Mamba",
        classes: &["FalconMambaForCausalLM"],
        model_types: &["falcon_mamba"],
        positions: None,
        build: mamba::build_falcon,
    },
    Entry {
        models: "Mamba 2, Codestral Mamba",
        classes: &["Mamba2ForCausalLM"],
        model_types: &["mamba2"],
        positions: None,
        build: mamba2::build,
    },
    Entry {
        models: "Granite 4",
        classes: &["GraniteMoeHybridForCausalLM"],
        model_types: &["granitemoehybrid"],
        positions: Some(2048),
        build: granite_hybrid::build,
    },
    Entry {
        models: "Granite 3 with experts",
        classes: &["GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM"],
        model_types: &["granitemoe", "granitemoeshared"],
        positions: Some(2048),
        build: granite_hybrid::build_experts,
    },
    Entry {
        models: "Falcon H1",
        classes: &["FalconH1ForCausalLM"],
        model_types: &["falcon_h1"],
        positions: Some(8192),
        build: falcon_h1::build,
    },
    Entry {
        models: "Nemotron H, Nemotron Nano 2 and 3",
        classes: &["NemotronHForCausalLM"],
        model_types: &["nemotron_h"],
        positions: Some(4096),
        build: nemotron_h::build,
    },
    Entry {
        models: "Bamba",
        classes: &["BambaForCausalLM"],
        model_types: &["bamba"],
        positions: Some(262_144),
        build: bamba::build,
    },
    Entry {
        models: "Jamba",
        classes: &["JambaForCausalLM"],
        model_types: &["jamba"],
        positions: Some(262_144),
        build: jamba::build,
    },
    Entry {
        models: "LFM 2",
        classes: &["Lfm2ForCausalLM"],
        model_types: &["lfm2"],
        positions: Some(128_000),
        build: lfm2::build,
    },
    Entry {
        models: "LFM 2 with experts",
        classes: &["Lfm2MoeForCausalLM"],
        model_types: &["lfm2_moe"],
        positions: Some(128_000),
        build: lfm2::build_experts,
    },
    Entry {
        models: "Hunyuan",
        classes: &["HunYuanDenseV1ForCausalLM"],
        model_types: &["hunyuan_v1_dense"],
        positions: Some(2048),
        build: hunyuan::build,
    },
    Entry {
        models: "Hunyuan with experts",
        classes: &["HunYuanMoEV1ForCausalLM"],
        model_types: &["hunyuan_v1_moe"],
        positions: Some(2048),
        build: hunyuan::build_experts,
    },
    Entry {
        models: "ERNIE 4.5 with experts",
        classes: &["Ernie4_5_MoeForCausalLM"],
        model_types: &["ernie4_5_moe"],
        positions: Some(131_072),
        build: ernie::build_experts,
    },
    Entry {
        models: "MiniCPM 3",
        classes: &["MiniCPM3ForCausalLM"],
        model_types: &["minicpm3"],
        positions: Some(32_768),
        build: minicpm::build_3,
    },
    Entry {
        models: "Phi 3.5 MoE",
        classes: &["PhimoeForCausalLM", "PhiMoEForCausalLM"],
        model_types: &["phimoe"],
        positions: Some(131_072),
        build: phimoe::build,
    },
    Entry {
        models: "T5, T5 1.1, Flan-T5, T0; mT5",
        classes: &["T5ForConditionalGeneration", "MT5ForConditionalGeneration"],
        model_types: &["t5", "mt5"],
        positions: None,
        build: t5::build,
    },
    Entry {
        models: "Ministral 3",
        classes: &["Ministral3ForCausalLM"],
        model_types: &["ministral3"],
        positions: Some(262_144),
        build: mistral::build_ministral_3,
    },
    Entry {
        models: "Qwen 2 VL and 2.5 VL; only text input is supported",
        classes: &["Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"],
        model_types: &["qwen2_vl", "qwen2_5_vl"],
        positions: Some(32_768),
        build: images::build_qwen2,
    },
    Entry {
        models: "Qwen 3 VL; only text input is supported",
        classes: &["Qwen3VLForConditionalGeneration"],
        model_types: &["qwen3_vl"],
        positions: Some(128_000),
        build: images::build_qwen3,
    },
    Entry {
        models: "Qwen 3 VL with experts; only text input is supported",
        classes: &["Qwen3VLMoeForConditionalGeneration"],
        model_types: &["qwen3_vl_moe"],
        positions: Some(128_000),
        build: images::build_qwen3_experts,
    },
    Entry {
        models: "Llava 1.5, Next and OneVision over any known language model; only text input is supported",
        classes: &[
            "LlavaForConditionalGeneration",
            "LlavaNextForConditionalGeneration",
            "LlavaOnevisionForConditionalGeneration",
        ],
        model_types: &["llava", "llava_next", "llava_onevision"],
        positions: None,
        build: images::build_any,
    },
    Entry {
        models: "Mistral Small 3.1 and Ministral 3 with images; only text input is supported",
        classes: &["Mistral3ForConditionalGeneration"],
        model_types: &["mistral3"],
        positions: Some(131_072),
        build: images::build_any,
    },
    Entry {
        models: "Gemma 3n; only text input is supported",
        classes: &["Gemma3nForCausalLM", "Gemma3nForConditionalGeneration"],
        model_types: &["gemma3n_text", "gemma3n"],
        positions: Some(32_768),
        build: gemma3n::build,
    },
    Entry {
        models: "InternLM 2 and 2.5",
        classes: &["InternLM2ForCausalLM"],
        model_types: &["internlm2"],
        positions: Some(32_768),
        build: internlm::build_2,
    },
    Entry {
        models: "InternLM 3",
        classes: &["InternLM3ForCausalLM"],
        model_types: &["internlm3"],
        positions: Some(32_768),
        build: internlm::build_3,
    },
    Entry {
        models: "Baichuan 1 and 2",
        classes: &["BaichuanForCausalLM", "BaiChuanForCausalLM"],
        model_types: &["baichuan"],
        positions: Some(4096),
        build: baichuan::build,
    },
    Entry {
        models: "MiniCPM 1, 2 and 4",
        classes: &["MiniCPMForCausalLM"],
        model_types: &["minicpm"],
        positions: Some(2048),
        build: minicpm::build,
    },
];

/// The classes with an encoder and a decoder.
const WITH_ENCODER: [&str; 2] = ["T5ForConditionalGeneration", "MT5ForConditionalGeneration"];

impl Entry {
    /// Whether an encoder reads the context.
    pub fn has_encoder(&self) -> bool {
        self.classes.iter().any(|class| WITH_ENCODER.contains(class))
    }
}

/// Finds the architecture of a configuration.
pub fn find(config: &Config) -> Result<&'static Entry> {
    let classes = config.strings("architectures")?;
    let by_class =
        ARCHITECTURES.iter().find(|entry| classes.iter().any(|class| entry.classes.contains(class)));
    if let Some(entry) = by_class {
        return Ok(entry);
    }
    let model_type = config.string("model_type")?;
    if classes.is_empty()
        && let Some(model_type) = model_type
        && let Some(entry) = ARCHITECTURES.iter().find(|entry| entry.model_types.contains(&model_type))
    {
        return Ok(entry);
    }
    let message = match (classes.first(), model_type) {
        (Some(class), _) => format!("The native engine has no models of the class `{class}`"),
        (None, Some(model_type)) => format!("The native engine has no models of the type `{model_type}`"),
        (None, None) => return Err(Error::MissingField("architectures".into())),
    };
    Err(Error::Unsupported { message, hint: Some(TORCH.into()) })
}

/// Converts logits to float32.
pub(crate) fn logits(head: &crate::layers::Linear, rows: &Tensor) -> Result<Tensor> {
    Ok(head.forward(rows)?.to_dtype(DType::F32)?)
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::{Dict, Value};

    use super::*;

    fn config(class: Option<&str>, model_type: Option<&str>) -> Config {
        let mut fields = Dict::new();
        if let Some(class) = class {
            fields.insert("architectures", Value::list([Value::str(class)]));
        }
        if let Some(model_type) = model_type {
            fields.insert("model_type", model_type);
        }
        Config::from_fields(fields)
    }

    #[test]
    fn classes_are_known_once() {
        for names in [|entry: &Entry| entry.classes, |entry: &Entry| entry.model_types] {
            let mut names: Vec<&str> =
                ARCHITECTURES.iter().flat_map(|entry| names(entry).iter().copied()).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count);
        }
    }

    #[test]
    fn unknown_classes_say_what_is_known() {
        assert!(find(&config(Some("LlamaForCausalLM"), None)).is_ok());
        assert!(find(&config(None, Some("mistral"))).is_ok());
        let error = find(&config(Some("BartForConditionalGeneration"), Some("llama"))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "The native engine has no models of the class `BartForConditionalGeneration`"
        );
        let Error::Unsupported { hint: Some(hint), .. } = error else { panic!("{error}") };
        assert_eq!(hint, TORCH);
        assert!(matches!(find(&config(None, None)), Err(Error::MissingField(_))));
    }
}
