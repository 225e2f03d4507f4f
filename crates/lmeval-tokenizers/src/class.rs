//! Tokenizer classes, chosen from a model's files like in `transformers`.

use lmeval_pycompat::Dict;

/// A tokenizer class with its own special tokens and pipeline, which override `tokenizer.json`.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) name: &'static str,
    /// The `model_type`s that use this class if no file names one.
    types: &'static [&'static str],
    tokens: &'static [(&'static str, &'static str)],
    /// Additional special tokens.
    pub(crate) more: &'static [&'static str],
    /// Normalisation, splitting and decoding.
    pub(crate) scheme: Scheme,
}

/// How a class splits text into pieces and decodes tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// Byte-level words, as in GPT-2.
    Bytes,
    /// Byte-level words after NFC normalisation, as in GPT-NeoX.
    ComposedBytes,
    /// The same with single digits, as in Cohere's models.
    DigitsAndBytes,
    /// Byte-level words of GPT-4's pattern with single digits, as in Qwen.
    WordsAndBytes,
    /// SentencePiece pieces, with `▁` for spaces, as in LLaMA.
    Pieces,
    /// The same with an unknown token, as in Code Llama.
    CodePieces,
    /// The same without a leading space, as in Gemma.
    BarePieces,
    /// The likeliest pieces of words, as in T5.
    Words,
}

impl Scheme {
    /// Whether tokens are bytes written as letters.
    pub(crate) fn is_byte_level(self) -> bool {
        !matches!(self, Self::Pieces | Self::CodePieces | Self::BarePieces | Self::Words)
    }
}

const END: &str = "<|endoftext|>";
const GPT2: [(&str, &str); 3] = [("bos_token", END), ("eos_token", END), ("unk_token", END)];
const LLAMA: [(&str, &str); 3] = [("bos_token", "<s>"), ("eos_token", "</s>"), ("unk_token", "<unk>")];

/// Classes with defaults of their own. All others use only their files.
const CLASSES: [Class; 9] = [
    Class {
        name: "GPT2Tokenizer",
        types: &["gpt2", "gpt_neo", "gptj", "codegen", "opt", "phi", "starcoder2"],
        tokens: &GPT2,
        more: &[],
        scheme: Scheme::Bytes,
    },
    Class { name: "CodeGenTokenizer", types: &[], tokens: &GPT2, more: &[], scheme: Scheme::Bytes },
    Class {
        name: "GPTNeoXTokenizer",
        types: &["gpt_neox", "mpt", "olmo", "olmoe", "mamba", "mamba2", "falcon_mamba"],
        tokens: &[("bos_token", END), ("eos_token", END), ("unk_token", END), ("pad_token", "<|padding|>")],
        more: &[],
        scheme: Scheme::ComposedBytes,
    },
    Class {
        name: "Qwen2Tokenizer",
        types: &[
            "qwen2",
            "qwen2_moe",
            "qwen2_vl",
            "qwen2_5_vl",
            "qwen3",
            "qwen3_moe",
            "qwen3_next",
            "qwen3_vl",
            "qwen3_vl_moe",
        ],
        tokens: &[("eos_token", END), ("unk_token", END), ("pad_token", END)],
        more: &[],
        scheme: Scheme::WordsAndBytes,
    },
    Class {
        name: "CohereTokenizer",
        types: &["cohere", "cohere2"],
        tokens: &[
            ("bos_token", "<BOS_TOKEN>"),
            ("eos_token", "<|END_OF_TURN_TOKEN|>"),
            ("unk_token", "<UNK>"),
            ("sep_token", "<SEP>"),
            ("pad_token", "<PAD>"),
            ("cls_token", "<CLS>"),
            ("mask_token", "<MASK_TOKEN>"),
        ],
        more: &[],
        scheme: Scheme::DigitsAndBytes,
    },
    Class { name: "LlamaTokenizer", types: &[], tokens: &LLAMA, more: &[], scheme: Scheme::Pieces },
    Class {
        name: "CodeLlamaTokenizer",
        types: &[],
        tokens: &LLAMA,
        more: &["▁<PRE>", "▁<MID>", "▁<SUF>", "▁<EOT>", "<FILL_ME>"],
        scheme: Scheme::CodePieces,
    },
    Class {
        name: "GemmaTokenizer",
        types: &["gemma", "gemma2", "gemma3", "gemma3_text", "gemma3n", "gemma3n_text"],
        tokens: &[
            ("bos_token", "<bos>"),
            ("eos_token", "<eos>"),
            ("unk_token", "<unk>"),
            ("pad_token", "<pad>"),
            ("mask_token", "<mask>"),
        ],
        more: &[],
        scheme: Scheme::BarePieces,
    },
    Class {
        name: "T5Tokenizer",
        types: &["t5", "mt5"],
        tokens: &[("eos_token", "</s>"), ("unk_token", "<unk>"), ("pad_token", "<pad>")],
        more: &[],
        scheme: Scheme::Words,
    },
];

/// The `model_type`s whose tokenizer has no class, whatever the files name.
const WITHOUT_CLASS: [&str; 27] = [
    "mistral",
    "mistral3",
    "mixtral",
    "ministral",
    "ministral3",
    "phi3",
    "phimoe",
    "olmo2",
    "olmo3",
    "stablelm",
    "granite",
    "granitemoe",
    "granitemoehybrid",
    "granitemoeshared",
    "gpt_bigcode",
    "glm",
    "glm4",
    "glm4_moe",
    "glm4_moe_lite",
    "nemotron",
    "ernie4_5",
    "ernie4_5_moe",
    "internlm2",
    "jamba",
    "llava",
    "llava_next",
    "minicpm3",
];

impl Class {
    /// Chooses the class from `tokenizer_config.json`, `config.json` and [`names_byte_level`].
    pub(crate) fn choose(tokenizer: &Dict, model: &Dict, is_byte_level: bool) -> Option<&'static Self> {
        let field = |dict: &Dict, name: &str| Some(dict.get_str(name)?.as_str()?.to_owned());
        let model_type = field(model, "model_type").unwrap_or_default();
        let of_type = CLASSES.iter().find(|class| class.types.contains(&model_type.as_str()));
        let named = field(tokenizer, "tokenizer_class").or_else(|| field(model, "tokenizer_class"));
        let Some(named) = named else { return of_type };
        let named = named.strip_suffix("Fast").unwrap_or(&named);
        // Many unrelated models name this class.
        if WITHOUT_CLASS.contains(&model_type.as_str()) || (named == "LlamaTokenizer" && is_byte_level) {
            return None;
        }
        // Reference: the class named by files of this type is ignored as wrong.
        if model_type == "qwen2" {
            return of_type;
        }
        CLASSES.iter().find(|class| class.name == named)
    }

    /// The default of a special token.
    pub(crate) fn token(&self, name: &str) -> Option<&'static str> {
        self.tokens.iter().find(|(known, _)| *known == name).map(|(_, token)| *token)
    }
}

/// Whether a `tokenizer.json` is treated as byte-level.
///
/// Reference: this is a substring search, so a token of that name matches too.
pub(crate) fn names_byte_level(file: &[u8]) -> bool {
    std::str::from_utf8(file).is_ok_and(|text| text.contains("\"ByteLevel\""))
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::{Value, json};

    use super::*;

    fn dict(text: &str) -> Dict {
        match json::loads(text) {
            Ok(Value::Dict(dict)) => dict.as_ref().clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn byte_level_files_are_not_llama_tokenizers() {
        let named = dict(r#"{"tokenizer_class": "LlamaTokenizerFast"}"#);
        let chosen = |kind: &str, file: &[u8]| {
            let model = dict(&format!(r#"{{"model_type": "{kind}"}}"#));
            Class::choose(&named, &model, names_byte_level(file)).map(|class| class.name)
        };
        assert_eq!(chosen("llama", br#"{"model": {}}"#), Some("LlamaTokenizer"));
        assert_eq!(chosen("llama", br#"{"decoder": {"type": "ByteLevel"}}"#), None);
        assert_eq!(chosen("llama", br#"{"vocab": {"ByteLevel": 7}}"#), None);
        assert_eq!(chosen("ministral", br#"{"model": {}}"#), None);
        assert_eq!(chosen("qwen2", br#"{"model": {}}"#), Some("Qwen2Tokenizer"));
    }
}
