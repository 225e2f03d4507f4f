//! The special tokens of a Hugging Face tokenizer, as its files name them.

use std::path::Path;

use lmeval_core::{ModelError, ModelErrorKind};
use lmeval_pycompat::{Dict, Value, json};
use tokenizers::AddedToken;

use crate::class::Class;
use crate::rules::Settings;

/// The special tokens with a name of their own.
const NAMES: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// What the files beside `tokenizer.json` say.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpecialTokens {
    /// The texts by name: `bos_token` and its like.
    pub(crate) named: Dict,
    /// The tokens that have to be known to the tokenizer, in order.
    pub(crate) added: Vec<AddedToken>,
    /// Whether the configuration lists the added tokens, so that those of `tokenizer.json` do not count for a class.
    pub(crate) are_declared: bool,
    /// The class of the tokenizer, if it has one.
    pub(crate) class: Option<&'static Class>,
    /// What its rules heed.
    pub(crate) settings: Settings,
    /// Whether blanks before punctuation are removed from decoded text.
    pub(crate) clean_up: bool,
}

impl SpecialTokens {
    /// Reads `tokenizer_config.json`, `special_tokens_map.json` and `config.json` of a folder, as far as they are there.
    pub(crate) fn read(folder: &Path, is_byte_level: bool) -> Result<Self, ModelError> {
        let config = object(&folder.join("tokenizer_config.json"))?;
        let map = object(&folder.join("special_tokens_map.json"))?;
        let model = object(&folder.join("config.json"))?;
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
        found.added.extend(declared.into_iter().map(|(_, token)| token));
        // Reference: the map is a file of older tokenizers, and counts for them alone.
        let places = if decoder.is_some() { vec![&config] } else { vec![&map, &config] };
        let value = |name: &str| places.iter().find_map(|place| place.get_str(name));
        for name in NAMES {
            let default = || Some(Value::str(class?.token(name)?));
            let Some(token) =
                value(name).cloned().or_else(default).as_ref().and_then(|token| added(token, true))
            else {
                continue;
            };
            found.named.insert(name, token.content.as_str());
            found.require(token);
        }
        // Names of the model alone, such as that of a token for images.
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

    fn require(&mut self, token: AddedToken) {
        if !self.added.iter().any(|known| known.content == token.content) {
            self.added.push(token);
        }
    }

    /// The text of a special token.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.named.get_str(name).and_then(Value::as_str)
    }
}

/// The object of a JSON file; empty where there is no file. One that cannot be used is no absent one: without its
/// special tokens a tokenizer gives other tokens.
fn object(path: &Path) -> Result<Dict, ModelError> {
    let broken = |problem: String| {
        let message = format!("`{}` cannot be used: {problem}", path.display());
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

/// A token: its text, or an object with the rules of how it is found in a text.
fn added(token: &Value, special: bool) -> Option<AddedToken> {
    if let Some(text) = token.as_str() {
        return Some(AddedToken::from(text, special));
    }
    let rules = token.as_dict()?;
    let flag = |name: &str| rules.get_str(name).is_some_and(Value::is_truthy);
    let special = special || flag("special");
    let token = AddedToken::from(rules.get_str("content")?.as_str()?, special);
    let token = token.single_word(flag("single_word")).lstrip(flag("lstrip")).rstrip(flag("rstrip"));
    Some(if rules.contains_str("normalized") { token.normalized(flag("normalized")) } else { token })
}
