//! Classes of tokenizers, as `transformers` chooses them by the files of a model.

use lmeval_pycompat::Dict;

/// A class that has special tokens and rules of its own, whatever `tokenizer.json` says.
#[derive(Debug)]
pub(crate) struct Class {
    name: &'static str,
    /// Types of models whose tokenizer is of the class where no file names another one.
    types: &'static [&'static str],
    tokens: &'static [(&'static str, &'static str)],
    /// Further special tokens.
    pub(crate) more: &'static [&'static str],
    /// How texts are cut.
    pub(crate) rules: Rules,
}

/// How a class cuts texts, before and after the vocabulary counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// Words of bytes, as in GPT-2.
    Bytes,
    /// The same of composed characters, as in GPT-NeoX.
    ComposedBytes,
    /// The same with each digit for itself, as in Cohere's models.
    DigitsAndBytes,
    /// Words and single digits of bytes, as in Qwen.
    WordsAndBytes,
    /// Pieces with a mark for blanks, as in LLaMA.
    Pieces,
    /// The same with a token for unknown pieces, as in Code Llama.
    CodePieces,
    /// The same without a blank before the text, as in Gemma.
    BarePieces,
}

impl Rules {
    /// Whether the rules work on bytes that are written as letters.
    pub(crate) fn is_byte_level(self) -> bool {
        !matches!(self, Self::Pieces | Self::CodePieces | Self::BarePieces)
    }
}

const END: &str = "<|endoftext|>";
const GPT2: [(&str, &str); 3] = [("bos_token", END), ("eos_token", END), ("unk_token", END)];
const LLAMA: [(&str, &str); 3] = [("bos_token", "<s>"), ("eos_token", "</s>"), ("unk_token", "<unk>")];

/// All classes; one that is not here has no tokens and no rules but those of its files.
const CLASSES: [Class; 8] = [
    Class {
        name: "GPT2Tokenizer",
        types: &["gpt2", "gpt_neo", "gptj", "codegen", "opt", "phi", "starcoder2"],
        tokens: &GPT2,
        more: &[],
        rules: Rules::Bytes,
    },
    Class { name: "CodeGenTokenizer", types: &[], tokens: &GPT2, more: &[], rules: Rules::Bytes },
    Class {
        name: "GPTNeoXTokenizer",
        types: &["gpt_neox", "mpt", "olmo", "olmoe"],
        tokens: &[("bos_token", END), ("eos_token", END), ("unk_token", END), ("pad_token", "<|padding|>")],
        more: &[],
        rules: Rules::ComposedBytes,
    },
    Class {
        name: "Qwen2Tokenizer",
        types: &["qwen2", "qwen2_moe", "qwen3", "qwen3_moe"],
        tokens: &[("eos_token", END), ("unk_token", END), ("pad_token", END)],
        more: &[],
        rules: Rules::WordsAndBytes,
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
        rules: Rules::DigitsAndBytes,
    },
    Class { name: "LlamaTokenizer", types: &[], tokens: &LLAMA, more: &[], rules: Rules::Pieces },
    Class {
        name: "CodeLlamaTokenizer",
        types: &["code_llama"],
        tokens: &LLAMA,
        more: &["▁<PRE>", "▁<MID>", "▁<SUF>", "▁<EOT>", "<FILL_ME>"],
        rules: Rules::CodePieces,
    },
    Class {
        name: "GemmaTokenizer",
        types: &["gemma", "gemma2", "gemma3", "gemma3_text"],
        tokens: &[
            ("bos_token", "<bos>"),
            ("eos_token", "<eos>"),
            ("unk_token", "<unk>"),
            ("pad_token", "<pad>"),
            ("mask_token", "<mask>"),
        ],
        more: &[],
        rules: Rules::BarePieces,
    },
];

/// Types of models whose tokenizer has no class, whatever the files name.
const WITHOUT_CLASS: [&str; 14] = [
    "mistral",
    "mixtral",
    "ministral",
    "phi3",
    "phimoe",
    "olmo2",
    "olmo3",
    "stablelm",
    "granite",
    "gpt_bigcode",
    "glm",
    "glm4",
    "nemotron",
    "ernie4_5",
];

impl Class {
    /// The class of a tokenizer, by `tokenizer_config.json`, `config.json`, and whether [`names_byte_level`] holds.
    pub(crate) fn choose(tokenizer: &Dict, model: &Dict, is_byte_level: bool) -> Option<&'static Self> {
        let text = |dict: &Dict, name: &str| Some(dict.get_str(name)?.as_str()?.to_owned());
        let model_type = text(model, "model_type").unwrap_or_default();
        let of_type = CLASSES.iter().find(|class| class.types.contains(&model_type.as_str()));
        let named = text(tokenizer, "tokenizer_class").or_else(|| text(model, "tokenizer_class"));
        let Some(named) = named else { return of_type };
        let named = named.strip_suffix("Fast").unwrap_or(&named);
        // Many models of other kinds call their tokenizer like that.
        if WITHOUT_CLASS.contains(&model_type.as_str()) || (named == "LlamaTokenizer" && is_byte_level) {
            return None;
        }
        // Reference: what files name for this type is known to be wrong.
        if model_type == "qwen2" {
            return of_type;
        }
        CLASSES.iter().find(|class| class.name == named)
    }

    /// What the class calls a token.
    pub(crate) fn token(&self, name: &str) -> Option<&'static str> {
        self.tokens.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }
}

/// Whether a `tokenizer.json` counts as one that works on bytes.
///
/// Reference: it is searched as a text, so that a token of that name counts too.
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
    fn llama_is_not_the_class_of_a_file_of_bytes() {
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
