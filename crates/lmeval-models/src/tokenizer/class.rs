//! Classes of tokenizers, as `transformers` chooses them by the files of a model.

use std::path::Path;

use lmeval_pycompat::{Dict, Value};

/// A class that has special tokens of its own, where no file names them.
#[derive(Debug)]
pub(super) struct Class {
    name: &'static str,
    /// Types of models whose tokenizer is of the class where no file names another one.
    types: &'static [&'static str],
    tokens: &'static [(&'static str, &'static str)],
    /// Further special tokens.
    pub(super) more: &'static [&'static str],
}

const END: &str = "<|endoftext|>";
const GPT2: [(&str, &str); 3] = [("bos_token", END), ("eos_token", END), ("unk_token", END)];
const LLAMA: [(&str, &str); 3] = [("bos_token", "<s>"), ("eos_token", "</s>"), ("unk_token", "<unk>")];

/// All classes; one that is not here has no tokens but those of its files.
const CLASSES: [Class; 7] = [
    Class {
        name: "GPT2Tokenizer",
        types: &["gpt2", "gpt_neo", "gptj", "codegen", "opt", "phi", "starcoder2"],
        tokens: &GPT2,
        more: &[],
    },
    Class { name: "CodeGenTokenizer", types: &[], tokens: &GPT2, more: &[] },
    Class {
        name: "GPTNeoXTokenizer",
        types: &["gpt_neox", "mpt", "olmo"],
        tokens: &[("bos_token", END), ("eos_token", END), ("unk_token", END), ("pad_token", "<|padding|>")],
        more: &[],
    },
    Class {
        name: "Qwen2Tokenizer",
        types: &["qwen2", "qwen2_moe", "qwen3", "qwen3_moe"],
        tokens: &[("eos_token", END), ("unk_token", END), ("pad_token", END)],
        more: &[],
    },
    Class { name: "LlamaTokenizer", types: &[], tokens: &LLAMA, more: &[] },
    Class {
        name: "CodeLlamaTokenizer",
        types: &["code_llama"],
        tokens: &LLAMA,
        more: &["▁<PRE>", "▁<MID>", "▁<SUF>", "▁<EOT>", "<FILL_ME>"],
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
    },
];

/// Types of models whose tokenizer has no class, whatever the files name.
const WITHOUT_CLASS: [&str; 8] =
    ["mistral", "mixtral", "phi3", "phimoe", "olmo2", "stablelm", "granite", "gpt_bigcode"];

impl Class {
    /// The class of a folder's tokenizer, by `tokenizer_config.json` and `config.json`.
    pub(super) fn choose(folder: &Path, tokenizer: &Dict, model: &Dict) -> Option<&'static Self> {
        let text = |dict: &Dict, name: &str| Some(dict.get_str(name)?.as_str()?.to_owned());
        let model_type = text(model, "model_type").unwrap_or_default();
        let of_type = CLASSES.iter().find(|class| class.types.contains(&model_type.as_str()));
        let named = text(tokenizer, "tokenizer_class").or_else(|| text(model, "tokenizer_class"));
        let Some(named) = named else { return of_type };
        let named = named.strip_suffix("Fast").unwrap_or(&named);
        // Many models of other kinds call their tokenizer like that.
        if WITHOUT_CLASS.contains(&model_type.as_str())
            || (named == "LlamaTokenizer" && is_byte_level(folder))
        {
            return None;
        }
        // Reference: what files name for this type is known to be wrong.
        if model_type == "qwen2" {
            return of_type;
        }
        CLASSES.iter().find(|class| class.name == named)
    }

    /// Where a blank is put before texts, where the class itself decides it: `always` before each part between special
    /// tokens, `first` before the first part, or `never`.
    ///
    /// Reference: this class takes the vocabulary of a file alone, and cuts texts by a rule of its own.
    pub(super) fn blank(&self, tokenizer: &Dict) -> Option<&'static str> {
        if self.name != "LlamaTokenizer" {
            return None;
        }
        let flag =
            |name: &str| tokenizer.get_str(name).filter(|value| !value.is_none()).map(Value::is_truthy);
        Some(match (flag("add_prefix_space"), flag("legacy")) {
            (Some(false), _) => "never",
            (_, Some(true)) => "always",
            _ => "first",
        })
    }

    /// What the class calls a token.
    pub(super) fn token(&self, name: &str) -> Option<&'static str> {
        self.tokens.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }
}

/// The file of a tokenizer that puts a blank before texts; one of another kind stays as it is.
pub(super) fn with_blank(file: Vec<u8>, scheme: &str) -> Vec<u8> {
    let Ok(mut fields) = serde_json::from_slice::<serde_json::Value>(&file) else { return file };
    if fields["model"]["type"] != "BPE" {
        return file;
    }
    fields["normalizer"] = serde_json::Value::Null;
    fields["pre_tokenizer"] = serde_json::json!({
        "type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": false,
    });
    let mut decoders = vec![
        serde_json::json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
        serde_json::json!({"type": "ByteFallback"}),
        serde_json::json!({"type": "Fuse"}),
    ];
    if scheme != "never" {
        decoders.push(serde_json::json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    fields["decoder"] = serde_json::json!({"type": "Sequence", "decoders": decoders});
    fields.to_string().into_bytes()
}

/// Whether a tokenizer works on bytes that are written as letters.
fn is_byte_level(folder: &Path) -> bool {
    let text = fs_err::read_to_string(folder.join("tokenizer.json"));
    text.is_ok_and(|text| text.contains("\"ByteLevel\""))
}
