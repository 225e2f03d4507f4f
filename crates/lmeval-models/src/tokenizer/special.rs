//! The special tokens of a Hugging Face tokenizer, as its files name them.

use std::path::Path;

use lmeval_pycompat::{Dict, Value, json};
use tokenizers::AddedToken;

/// The special tokens with a name of their own.
const NAMES: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// What classes of tokenizers call their tokens where no file says it: begin, end, unknown, padding.
const DEFAULTS: &[(&[&str], [Option<&str>; 4])] = &[
    (
        &[
            "GPT2Tokenizer",
            "GPTNeoXTokenizer",
            "CodeGenTokenizer",
            "gpt2",
            "gpt_neo",
            "gptj",
            "gpt_neox",
            "codegen",
        ],
        [Some("<|endoftext|>"), Some("<|endoftext|>"), Some("<|endoftext|>"), None],
    ),
    (
        &["Qwen2Tokenizer", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe"],
        [None, Some("<|endoftext|>"), Some("<|endoftext|>"), Some("<|endoftext|>")],
    ),
    (
        &["LlamaTokenizer", "CodeLlamaTokenizer", "llama", "mistral", "mixtral"],
        [Some("<s>"), Some("</s>"), Some("<unk>"), None],
    ),
    (
        &["GemmaTokenizer", "gemma", "gemma2", "gemma3_text"],
        [Some("<bos>"), Some("<eos>"), Some("<unk>"), Some("<pad>")],
    ),
    (&["BloomTokenizer", "bloom"], [Some("<s>"), Some("</s>"), Some("<unk>"), Some("<pad>")]),
];

/// What the files beside `tokenizer.json` say.
#[derive(Clone, Debug, Default)]
pub(super) struct SpecialTokens {
    /// The texts by name: `bos_token` and its like.
    pub(super) named: Dict,
    /// The tokens that have to be known to the tokenizer, in order.
    pub(super) added: Vec<AddedToken>,
    /// Whether blanks before punctuation are removed from decoded text.
    pub(super) clean_up: bool,
}

impl SpecialTokens {
    /// Reads `tokenizer_config.json`, `special_tokens_map.json` and `config.json` of a folder, as far as they are there.
    pub(super) fn read(folder: &Path) -> Self {
        let file = |name: &str| match fs_err::read_to_string(folder.join(name)).map(|text| json::loads(&text))
        {
            Ok(Ok(Value::Dict(dict))) => dict.as_ref().clone(),
            _ => Dict::new(),
        };
        let config = file("tokenizer_config.json");
        let map = file("special_tokens_map.json");
        let decoder = config.get_str("added_tokens_decoder").and_then(Value::as_dict);
        let class = config
            .get_str("tokenizer_class")
            .and_then(Value::as_str)
            .map(|name| name.trim_end_matches("Fast"));
        let model_type = file("config.json").get_str("model_type").map(lmeval_pycompat::repr::str);
        let mut found = Self {
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
        let places = if decoder.is_some() { [&config, &map] } else { [&map, &config] };
        let value = |name: &str| places.into_iter().find_map(|place| place.get_str(name));
        for name in NAMES {
            let default = || Some(Value::str(default_token(name, class, model_type.as_deref())?));
            let Some(token) =
                value(name).cloned().or_else(default).as_ref().and_then(|token| added(token, true))
            else {
                continue;
            };
            found.named.insert(name, token.content.as_str());
            found.require(token);
        }
        let more = value("additional_special_tokens").and_then(Value::as_list).unwrap_or_default();
        for token in more.iter().filter_map(|token| added(token, true)) {
            found.require(token);
        }
        found
    }

    fn require(&mut self, token: AddedToken) {
        if !self.added.iter().any(|known| known.content == token.content) {
            self.added.push(token);
        }
    }

    /// The text of a special token.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.named.get_str(name).and_then(Value::as_str)
    }
}

fn default_token(name: &str, class: Option<&str>, model_type: Option<&str>) -> Option<&'static str> {
    // The model counts where no class is named, or one that says nothing.
    let class = class.filter(|class| *class != "PreTrainedTokenizer").or(model_type)?;
    let (_, [begin, end, unknown, padding]) =
        DEFAULTS.iter().find(|(classes, _)| classes.contains(&class))?;
    match name {
        "bos_token" => *begin,
        "eos_token" => *end,
        "unk_token" => *unknown,
        "pad_token" => *padding,
        _ => None,
    }
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
