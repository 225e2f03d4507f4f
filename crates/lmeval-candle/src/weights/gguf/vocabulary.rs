//! The tokenizer vocabulary in a GGUF file.

use lmeval_tokenizers::{GgufTokenKind, GgufVocabulary};

use super::{Entry, Gguf};
use crate::error::{Error, Result};

/// Special tokens and their metadata keys.
const SPECIAL: [(&str, &[&str]); 7] = [
    ("bos_token", &["bos_token_id"]),
    ("eos_token", &["eos_token_id"]),
    ("unk_token", &["unknown_token_id"]),
    ("sep_token", &["seperator_token_id", "separator_token_id"]),
    ("pad_token", &["padding_token_id"]),
    ("cls_token", &["cls_token_id"]),
    ("mask_token", &["mask_token_id"]),
];

/// Keys of tokenizers without `tokenizer.`: those read here, and those that change nothing for the supported types. The ids of
/// special tokens (`…_token_id`) are allowed under any name: converters add some every year, and no other key is read from them.
const KEYS: [&str; 17] = [
    "chat_template",
    "ggml.add_bos_token",
    "ggml.add_eos_token",
    "ggml.add_sep_token",
    "ggml.add_space_prefix",
    "ggml.added_tokens",
    "ggml.merges",
    "ggml.model",
    "ggml.pre",
    "ggml.precompiled_charsmap",
    "ggml.remove_extra_whitespaces",
    "ggml.scores",
    "ggml.token_type",
    "ggml.token_type_count",
    "ggml.tokens",
    "huggingface.json",
    "rwkv.world",
];

/// The prefix of all keys about the tokenizer.
const PREFIX: &str = "tokenizer.";

impl Gguf {
    /// Refuses keys of the tokenizer that are unknown or misspelled: without them, the same string could have other tokens.
    fn check_keys(&self) -> Result<()> {
        let is_wrong = |key: &&String| match key.strip_prefix(PREFIX) {
            Some(rest) => {
                let is_special = rest.ends_with("_token_id") || rest.ends_with("_token_ids");
                !is_special && !KEYS.contains(&rest) && !rest.starts_with("chat_template")
            }
            None => KEYS.iter().any(|known| known.starts_with("ggml.") && key.ends_with(known)),
        };
        self.header.entries.keys().filter(is_wrong).min().map_or(Ok(()), |key| {
            Err(self.wrong(&format!("its metadata entry `{key}` is not supported and may change tokens")))
        })
    }

    /// Reads the vocabulary and settings of the tokenizer.
    pub fn vocabulary(&self) -> Result<GgufVocabulary> {
        self.check_keys()?;
        let Some(model) = self.text("model")?.filter(|model| *model != "none") else {
            return Err(self.wrong("it has no tokenizer (`tokenizer.ggml.model`)"));
        };
        let tokens = match self.tokenizer("tokens") {
            Some(Entry::Strings(tokens)) => tokens.clone(),
            _ => return Err(self.wrong("it has no list `tokenizer.ggml.tokens`")),
        };
        let rows =
            self.header.tensors.get("token_embd.weight").and_then(|tensor| tensor.shape.first().copied());
        if let Some(rows) = rows
            && tokens.len() != rows
        {
            return Err(self.wrong(&format!(
                "its tokenizer has {} tokens, but the model's vocabulary has {rows}",
                tokens.len()
            )));
        }
        let kinds = match self.tokenizer("token_type") {
            None => vec![GgufTokenKind::Normal; tokens.len()],
            Some(Entry::Wholes(kinds)) => kinds.iter().map(|kind| kind_of(*kind)).collect(),
            Some(_) => return Err(self.wrong("`tokenizer.ggml.token_type` must be a list of numbers")),
        };
        let scores = match self.tokenizer("scores") {
            None => Vec::new(),
            Some(Entry::Numbers(scores)) => scores.clone(),
            Some(_) => return Err(self.wrong("`tokenizer.ggml.scores` must be a list of numbers")),
        };
        let merges = match self.tokenizer("merges") {
            None if model == "gpt2" => return Err(self.wrong("it has no list `tokenizer.ggml.merges`")),
            None => Vec::new(),
            Some(Entry::Strings(merges)) => merges.clone(),
            Some(_) => return Err(self.wrong("`tokenizer.ggml.merges` must be a list of strings")),
        };
        let mut special = Vec::new();
        for (name, keys) in SPECIAL {
            for key in keys {
                let token = self.token(key)?;
                // Some converters write an id outside the vocabulary if there is none.
                let token = token.filter(|token| name != "eos_token" || (*token as usize) < tokens.len());
                special.extend(token.map(|token| (name, token)));
            }
        }
        Ok(GgufVocabulary {
            file: self.path.clone(),
            architecture: self.architecture.clone(),
            model: model.to_owned(),
            pre_tokenizer: self.text("pre")?.map(str::to_owned),
            tokens,
            kinds,
            scores,
            merges,
            special,
            add_bos: self.flag("add_bos_token")?,
            add_eos: self.flag("add_eos_token")?,
            add_space_prefix: self.flag("add_space_prefix")?,
            templates: self.templates(),
        })
    }

    fn tokenizer(&self, key: &str) -> Option<&Entry> {
        self.header.entries.get(&format!("tokenizer.ggml.{key}"))
    }

    fn text(&self, key: &str) -> Result<Option<&str>> {
        match self.tokenizer(key) {
            None => Ok(None),
            Some(Entry::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(&format!("`tokenizer.ggml.{key}` must be a string"))),
        }
    }

    fn flag(&self, key: &str) -> Result<Option<bool>> {
        match self.tokenizer(key) {
            None => Ok(None),
            Some(Entry::Flag(flag)) => Ok(Some(*flag)),
            Some(_) => Err(self.wrong(&format!("`tokenizer.ggml.{key}` must be true or false"))),
        }
    }

    fn token(&self, key: &str) -> Result<Option<u32>> {
        match self.tokenizer(key) {
            None => Ok(None),
            // -1 means none; some converters write it unsigned.
            Some(Entry::Whole(-1 | 0xffff_ffff)) => Ok(None),
            Some(Entry::Whole(token)) => match u32::try_from(*token) {
                Ok(token) => Ok(Some(token)),
                Err(_) => {
                    Err(self.wrong(&format!("`tokenizer.ggml.{key}` is {token}, which is not a token id")))
                }
            },
            Some(_) => Err(self.wrong(&format!("`tokenizer.ggml.{key}` must be a number"))),
        }
    }

    /// Chat templates by name.
    fn templates(&self) -> Vec<(String, String)> {
        let named = self.header.entries.iter().filter_map(|(key, entry)| {
            let (name, Entry::String(template)) = (key.strip_prefix("tokenizer.chat_template")?, entry)
            else {
                return None;
            };
            let name = if name.is_empty() { "default" } else { name.strip_prefix('.')? };
            Some((name.to_owned(), template.clone()))
        });
        let mut templates: Vec<(String, String)> = named.collect();
        templates.sort_unstable();
        templates
    }

    fn wrong(&self, problem: &str) -> Error {
        Error::Unsupported {
            message: format!("Cannot use the tokenizer of `{}`: {problem}", self.path.display()),
            hint: Some("Set the model's tokenizer with `tokenizer=<name on the hub or folder>`".into()),
        }
    }
}

fn kind_of(kind: i64) -> GgufTokenKind {
    match kind {
        2 => GgufTokenKind::Unknown,
        3 => GgufTokenKind::Control,
        4 => GgufTokenKind::UserDefined,
        5 => GgufTokenKind::Unused,
        6 => GgufTokenKind::Byte,
        _ => GgufTokenKind::Normal,
    }
}
