//! Special tokens of a Hugging Face tokenizer, from its configuration files.

use std::path::Path;

use lmeval_core::{ModelError, ModelErrorKind};
use lmeval_pycompat::{Dict, Value, json};
use tokenizers::AddedToken;

use crate::class::Class;
use crate::pipeline::Settings;

/// The named special tokens.
const NAMES: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// Special tokens and settings from the files next to `tokenizer.json`.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpecialTokens {
    /// Token contents by name, such as `bos_token`.
    pub(crate) named: Dict,
    /// Tokens to add to the tokenizer, in order.
    pub(crate) added: Vec<AddedToken>,
    /// Whether the configuration lists the added tokens. A class then ignores those of `tokenizer.json`.
    pub(crate) are_declared: bool,
    /// The ids and contents of these tokens.
    pub(crate) declared: Vec<(i64, String)>,
    /// The named special tokens that the configuration sets, some of them to nothing.
    pub(crate) set: Vec<&'static str>,
    /// The tokenizer class, if it has defaults of its own.
    pub(crate) class: Option<&'static Class>,
    /// Settings of the class's pipeline.
    pub(crate) settings: Settings,
    /// Remove spaces before punctuation when decoding.
    pub(crate) clean_up: bool,
}

impl SpecialTokens {
    /// Reads `tokenizer_config.json`, `special_tokens_map.json` and `config.json` of a folder, all of them optional.
    pub(crate) fn read(folder: &Path, is_byte_level: bool) -> Result<Self, ModelError> {
        let config = read_object(&folder.join("tokenizer_config.json"))?;
        let map = read_object(&folder.join("special_tokens_map.json"))?;
        let model = read_object(&folder.join("config.json"))?;
        let decoder = config.get_str("added_tokens_decoder").and_then(Value::as_dict);
        let class = Class::choose(&config, &model, is_byte_level);
        let flag = |name: &str| config.get_str(name).filter(|value| !value.is_none()).map(Value::is_truthy);
        let mut found = Self {
            are_declared: decoder.is_some(),
            class,
            settings: Settings {
                add_prefix_space: flag("add_prefix_space"),
                legacy: flag("legacy"),
                add_bos_token: flag("add_bos_token"),
                add_eos_token: flag("add_eos_token"),
                extra_ids: config
                    .get_str("extra_ids")
                    .and_then(Value::as_i64)
                    .and_then(|count| usize::try_from(count).ok()),
            },
            clean_up: config.get_str("clean_up_tokenization_spaces").is_some_and(Value::is_truthy),
            ..Self::default()
        };
        let mut declared: Vec<(i64, AddedToken)> = Vec::new();
        for (id, token) in decoder.into_iter().flat_map(Dict::iter) {
            let id = id.as_str().and_then(|id| id.parse().ok()).unwrap_or(i64::MAX);
            declared.extend(added(token, false).map(|token| (id, token)));
        }
        declared.sort_by_key(|(id, _)| *id);
        found.declared = declared.iter().map(|(id, token)| (*id, token.content.clone())).collect();
        found.added.extend(declared.into_iter().map(|(_, token)| token));
        // Reference: the map is read only for older tokenizers.
        let sources = if decoder.is_some() { vec![&config] } else { vec![&map, &config] };
        let value = |name: &str| sources.iter().find_map(|source| source.get_str(name));
        for name in NAMES {
            found.set.extend(value(name).map(|_| name));
            let default = || Some(Value::str(class?.token(name)?));
            let Some(token) =
                value(name).cloned().or_else(default).as_ref().and_then(|token| added(token, true))
            else {
                continue;
            };
            found.named.insert(name, token.content.as_str());
            found.require(token);
        }
        // Model-specific names, such as `image_token`.
        let extra = config.get_str("extra_special_tokens");
        let own = config.iter().filter(|(name, _)| name.as_str().is_some_and(is_own_name));
        let own = own.chain(extra.and_then(Value::as_dict).into_iter().flat_map(Dict::iter));
        for text in own.filter_map(|(_, token)| token.as_str()) {
            found.require(AddedToken::from(text, true));
        }
        let lists = [extra, config.get_str("additional_special_tokens")].into_iter().flatten();
        let lists = lists.chain(value("additional_special_tokens")).filter_map(Value::as_list);
        let more = lists.into_iter().find(|list| !list.is_empty()).unwrap_or_default();
        for token in more.iter().filter_map(|token| added(token, true)) {
            found.require(token);
        }
        for text in class.map_or(&[][..], |class| class.more) {
            found.require(AddedToken::from(*text, true));
        }
        Ok(found)
    }

    /// Names a special token that the configuration does not mention.
    pub(crate) fn set_default(&mut self, name: &str, text: &str) {
        if !self.set.contains(&name) {
            self.named.insert(name, text);
            self.require(AddedToken::from(text, true));
        }
    }

    fn require(&mut self, token: AddedToken) {
        if !self.added.iter().any(|known| known.content == token.content) {
            self.added.push(token);
        }
    }

    /// The content of a named special token.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.named.get_str(name).and_then(Value::as_str)
    }
}

/// Reads a JSON object; empty if the file does not exist. A malformed file is an error: without its special tokens, the
/// tokenizer would produce other tokens.
pub(crate) fn read_object(path: &Path) -> Result<Dict, ModelError> {
    let broken = |problem: String| {
        let message = format!("Cannot load `{}`: {problem}", path.display());
        ModelError::new(ModelErrorKind::Configuration, message)
            .hint("Download the file again if it is damaged")
    };
    match fs_err::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Dict::new()),
        Err(error) => Err(broken(error.to_string())),
        Ok(text) => match json::loads(&text).map_err(|error| broken(error.to_string()))? {
            Value::Dict(dict) => Ok(dict.as_ref().clone()),
            _ => Err(broken("it is not a JSON object".to_owned())),
        },
    }
}

fn is_own_name(name: &str) -> bool {
    name.ends_with("_token") && !NAMES.contains(&name)
}

/// Parses a token: a string, or an object that also says how to match it.
fn added(token: &Value, special: bool) -> Option<AddedToken> {
    if let Some(text) = token.as_str() {
        return Some(AddedToken::from(text, special));
    }
    let fields = token.as_dict()?;
    let flag = |name: &str| fields.get_str(name).is_some_and(Value::is_truthy);
    let special = special || flag("special");
    let token = AddedToken::from(fields.get_str("content")?.as_str()?, special);
    let token = token.single_word(flag("single_word")).lstrip(flag("lstrip")).rstrip(flag("rstrip"));
    Some(if fields.contains_str("normalized") { token.normalized(flag("normalized")) } else { token })
}
