//! Tokenizers of GGUF files, made of what their metadata say.

mod merges;
mod rules;

use std::path::PathBuf;

use lmeval_core::{ModelError, ModelErrorKind, ModelTemplate};
use lmeval_pycompat::Dict;
use rustc_hash::FxHashMap;
use serde_json::json;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence as Decoders;
use tokenizers::decoders::strip::Strip;
use tokenizers::models::bpe::BPE;
use tokenizers::normalizers::{NormalizerWrapper, Prepend, Replace, Sequence as Normalizers};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, PostProcessorWrapper, Tokenizer};

use self::rules::Rules;
use crate::chat::TokenizerTemplate;
use crate::huggingface::HuggingFaceTokenizer;
use crate::special::SpecialTokens;

/// What stands for a blank in the tokens of SentencePiece.
const BLANK: char = '▁';
/// Tokens of Phi 3 that keep the blanks behind them; its other special ones swallow them.
const PHI3_PLAIN: [&str; 3] = ["<unk>", "<s>", "<|endoftext|>"];

/// What a token of a GGUF file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GgufTokenKind {
    /// A piece of text.
    Normal,
    /// The token for what is not known.
    Unknown,
    /// A special token.
    Control,
    /// A token that is found in texts before anything else.
    UserDefined,
    /// A place that no token has.
    Unused,
    /// A byte.
    Byte,
}

/// The vocabulary of a GGUF file, and its rules.
#[derive(Clone, Debug)]
pub struct GgufVocabulary {
    /// The file.
    pub file: PathBuf,
    /// The architecture of the model.
    pub architecture: String,
    /// The kind of tokenizer: `gpt2` or `llama`.
    pub model: String,
    /// How texts are cut before they are encoded, by name.
    pub rules: Option<String>,
    /// The tokens in the order of their numbers.
    pub tokens: Vec<String>,
    /// What the tokens are.
    pub kinds: Vec<GgufTokenKind>,
    /// How good the tokens are, for the kind `llama`.
    pub scores: Vec<f64>,
    /// Pairs of tokens in the order in which they are put together, for the kind `gpt2`.
    pub merges: Vec<String>,
    /// Special tokens by name, such as `bos_token`.
    pub special: Vec<(&'static str, u32)>,
    /// Whether texts begin with the token for that.
    pub begins: Option<bool>,
    /// Whether texts end with the token for that.
    pub ends: Option<bool>,
    /// Whether texts begin with a blank.
    pub space_first: Option<bool>,
    /// Chat templates by name.
    pub templates: Vec<(String, String)>,
}

impl HuggingFaceTokenizer {
    /// Makes the tokenizer of a GGUF file.
    pub fn from_gguf(mut vocabulary: GgufVocabulary) -> Result<Self, ModelError> {
        if vocabulary.model == "llama" {
            // Of these tokens alone, blanks are stored as they are.
            let found_first = vocabulary.tokens.iter_mut().zip(&vocabulary.kinds);
            for (token, _) in found_first.filter(|(_, kind)| **kind == GgufTokenKind::UserDefined) {
                *token = token.replace(' ', &BLANK.to_string());
            }
        }
        // The library panics on some malformed vocabularies.
        let made = lmeval_core::guarded(|| vocabulary.tokenizer()).unwrap_or_else(Err);
        let tokenizer = made.map_err(|problem| vocabulary.error(&problem))?;
        let mut named = Dict::new();
        for (name, token) in &vocabulary.special {
            if let Some(text) = vocabulary.tokens.get(*token as usize) {
                named.insert(*name, text.as_str());
            }
        }
        let special = SpecialTokens { named, ..SpecialTokens::default() };
        Ok(Self::from_parts(vocabulary.file, tokenizer, special, vocabulary.templates))
    }
}

impl GgufVocabulary {
    fn error(&self, problem: &str) -> ModelError {
        let message = format!("The tokenizer of `{}` cannot be used: {problem}", self.file.display());
        ModelError::new(ModelErrorKind::Configuration, message)
            .hint("Give the model's tokenizer as `tokenizer=<name on the hub or folder>`")
    }

    fn tokenizer(&self) -> Result<Tokenizer, String> {
        let count = self.tokens.len();
        if count == 0 {
            return Err("it has no tokens".into());
        }
        if self.kinds.len() != count {
            return Err(format!("it has {count} tokens and the types of {}", self.kinds.len()));
        }
        if let Some((name, token)) = self.special.iter().find(|(_, token)| *token as usize >= count) {
            return Err(format!("its `{name}` is the token {token}, and there are {count}"));
        }
        let mut tokenizer = match self.model.as_str() {
            "gpt2" => self.byte_level()?,
            "llama" => self.sentence_piece()?,
            other => {
                return Err(format!(
                    "tokenizers of the kind `{other}` are not known here, but `gpt2` and `llama`"
                ));
            }
        };
        for (token, kind) in self.tokens.iter().zip(&self.kinds) {
            let added = match kind {
                GgufTokenKind::Control | GgufTokenKind::Unknown => {
                    let added = AddedToken::from(token.as_str(), true);
                    tokenizer.add_special_tokens([added.rstrip(self.swallows(token))])
                }
                GgufTokenKind::UserDefined => {
                    let added = AddedToken::from(token.as_str(), false).normalized(false);
                    tokenizer.add_tokens([added.rstrip(self.swallows(token))])
                }
                _ => continue,
            };
            added.map_err(|error| error.to_string())?;
        }
        self.add_frame(&mut tokenizer)?;
        Ok(tokenizer)
    }

    /// Whether a special token swallows the blanks behind it, which files do not say.
    fn swallows(&self, token: &str) -> bool {
        self.architecture == "phi3" && self.model == "llama" && !PHI3_PLAIN.contains(&token)
    }

    /// The numbers of the tokens. Of two that are the same the first counts.
    fn numbers(&self) -> FxHashMap<&str, u32> {
        let mut numbers = FxHashMap::default();
        for (number, (token, kind)) in (0_u32..).zip(self.tokens.iter().zip(&self.kinds)) {
            if *kind != GgufTokenKind::Unused {
                numbers.entry(token.as_str()).or_insert(number);
            }
        }
        numbers
    }

    /// Bytes that are put together in the order of a list.
    fn byte_level(&self) -> Result<Tokenizer, String> {
        let rules = Rules::find(self.rules.as_deref(), &self.architecture)?;
        let numbers = self.numbers();
        let merges = merges::listed(&self.merges, &numbers)?;
        let vocabulary = numbers.into_iter().map(|(token, number)| (token.to_owned(), number)).collect();
        let model = BPE::builder().vocab_and_merges::<tokenizers::models::bpe::Vocab>(vocabulary, merges);
        let model = model.ignore_merges(rules.whole_words).build().map_err(|error| error.to_string())?;
        let mut tokenizer = Tokenizer::new(model);
        tokenizer.with_pre_tokenizer(Some(rules.pre_tokenizer()?));
        tokenizer.with_decoder(Some(ByteLevel::new(false, true, true)));
        tokenizer.with_normalizer(rules.normalizer()).map_err(|error| error.to_string())?;
        Ok(tokenizer)
    }

    /// Characters that are put together in the order of the tokens' scores; bytes stand for unknown ones.
    fn sentence_piece(&self) -> Result<Tokenizer, String> {
        if self.scores.len() != self.tokens.len() {
            let count = self.scores.len();
            return Err(format!("it has {} tokens and the scores of {count}", self.tokens.len()));
        }
        let numbers = self.numbers();
        let merges = merges::scored(&self.tokens, &self.kinds, &self.scores, &numbers)?;
        let has_bytes = self.kinds.contains(&GgufTokenKind::Byte);
        let vocabulary = numbers.into_iter().map(|(token, number)| (token.to_owned(), number)).collect();
        let mut model = BPE::builder()
            .vocab_and_merges::<tokenizers::models::bpe::Vocab>(vocabulary, merges)
            .byte_fallback(has_bytes)
            .fuse_unk(true);
        if let Some(unknown) = self.special_token("unk_token") {
            model = model.unk_token(unknown.to_owned());
        }
        let mut tokenizer = Tokenizer::new(model.build().map_err(|error| error.to_string())?);
        let failed = |error: tokenizers::Error| error.to_string();
        let blank = BLANK.to_string();
        let replace = Replace::new(" ", blank.as_str()).map_err(failed)?;
        let back = Replace::new(blank.as_str(), " ").map_err(failed)?;
        let mut decoders: Vec<DecoderWrapper> =
            vec![back.into(), ByteFallback::new().into(), Fuse::new().into()];
        let normalizer: NormalizerWrapper = if self.space_first.unwrap_or(true) {
            decoders.push(Strip::new(' ', 1, 0).into());
            Normalizers::new(vec![Prepend::new(blank).into(), replace.into()]).into()
        } else {
            replace.into()
        };
        tokenizer.with_normalizer(Some(normalizer)).map_err(failed)?;
        tokenizer.with_decoder(Some(Decoders::new(decoders)));
        Ok(tokenizer)
    }

    /// Puts the tokens that begin and end texts around them, where the file or its kind say so.
    fn add_frame(&self, tokenizer: &mut Tokenizer) -> Result<(), String> {
        let by_kind = match self.model.as_str() {
            "llama" => true,
            _ => Rules::find(self.rules.as_deref(), &self.architecture)?.begins,
        };
        let token = |name: &str| {
            let (_, number) = self.special.iter().find(|(known, _)| *known == name)?;
            Some((self.special_token(name)?, *number))
        };
        let begin = token("bos_token").filter(|_| self.begins.unwrap_or(by_kind));
        let end = token("eos_token").filter(|_| self.ends.unwrap_or(false));
        if begin.is_none() && end.is_none() {
            return Ok(());
        }
        let piece = |text: &str, kind: u32| json!({"SpecialToken": {"id": text, "type_id": kind}});
        let around = |sequence: &str, kind: u32| {
            let mut pieces = Vec::new();
            pieces.extend(begin.map(|(text, _)| piece(text, kind)));
            pieces.push(json!({"Sequence": {"id": sequence, "type_id": kind}}));
            pieces.extend(end.map(|(text, _)| piece(text, kind)));
            pieces
        };
        let special: serde_json::Map<String, serde_json::Value> = [begin, end]
            .into_iter()
            .flatten()
            .map(|(text, number)| (text.to_owned(), json!({"id": text, "ids": [number], "tokens": [text]})))
            .collect();
        let pair = [around("A", 0), around("B", 1)].concat();
        let frame = json!({
            "type": "TemplateProcessing",
            "single": around("A", 0),
            "pair": pair,
            "special_tokens": special,
        });
        let frame: PostProcessorWrapper = serde_json::from_value(frame).map_err(|error| error.to_string())?;
        tokenizer.with_post_processor(Some(frame));
        Ok(())
    }

    fn special_token(&self, name: &str) -> Option<&str> {
        let (_, token) = self.special.iter().find(|(known, _)| *known == name)?;
        self.tokens.get(*token as usize).map(String::as_str)
    }
}

/// The chat template of a GGUF file: the one with the name, else the default one.
pub(crate) fn template(
    file: &std::path::Path,
    templates: &[(String, String)],
    name: Option<&str>,
    tokens: Dict,
) -> Result<ModelTemplate, ModelError> {
    let error = |message: String| ModelError::new(ModelErrorKind::Configuration, message);
    let named = |wanted: &str| templates.iter().find(|(known, _)| known == wanted);
    let chosen = match name {
        // A tokenizer with a single template has no use for a name.
        Some(name) if templates.len() > 1 => named(name),
        _ => named("default").or_else(|| templates.first()),
    };
    let Some((_, source)) = chosen else {
        let names: Vec<&str> = templates.iter().map(|(name, _)| name.as_str()).collect();
        return Err(match name {
            Some(name) if !names.is_empty() => {
                error(format!("`{}` has no chat template `{name}`", file.display()))
                    .hint(format!("There are `{}`", names.join("`, `")))
            }
            _ => error(format!("`{}` has no chat template", file.display()))
                .hint("Models without one are asked without `--apply_chat_template`"),
        });
    };
    let place = format!("`{}`", file.display());
    Ok(TokenizerTemplate::from_source(source, &place, tokens)?.into_model_template())
}

#[cfg(test)]
mod tests {
    use lmeval_core::Diagnose as _;

    use super::*;

    /// A vocabulary of SentencePiece: special tokens, bytes, blanks, and some letters.
    fn vocabulary() -> GgufVocabulary {
        let mut tokens: Vec<(String, GgufTokenKind, f64)> = vec![
            ("<unk>".into(), GgufTokenKind::Unknown, 0.0),
            ("<s>".into(), GgufTokenKind::Control, 0.0),
            ("</s>".into(), GgufTokenKind::Control, 0.0),
            ("  ".into(), GgufTokenKind::UserDefined, -1000.0),
            ("<tag>".into(), GgufTokenKind::UserDefined, -1000.0),
        ];
        tokens.extend((0..=255_u8).map(|byte| (format!("<0x{byte:02X}>"), GgufTokenKind::Byte, 0.0)));
        let pieces = ["▁a", "ab", "▁ab", "a", "b", "▁", "[PAD270]"];
        tokens.extend((1_u8..).zip(pieces).map(|(rank, piece)| {
            let kind = if piece.starts_with('[') { GgufTokenKind::Unused } else { GgufTokenKind::Normal };
            (piece.to_owned(), kind, -f64::from(rank))
        }));
        GgufVocabulary {
            file: "model.gguf".into(),
            architecture: "llama".into(),
            model: "llama".into(),
            rules: Some("default".into()),
            tokens: tokens.iter().map(|(token, _, _)| token.clone()).collect(),
            kinds: tokens.iter().map(|(_, kind, _)| *kind).collect(),
            scores: tokens.iter().map(|(_, _, score)| *score).collect(),
            merges: Vec::new(),
            special: vec![("bos_token", 1), ("eos_token", 2), ("unk_token", 0)],
            begins: None,
            ends: None,
            space_first: None,
            templates: vec![("default".into(), "{{ bos_token }}{{ messages[0]['content'] }}".into())],
        }
    }

    fn encode(vocabulary: GgufVocabulary, text: &str) -> Vec<String> {
        let tokens = vocabulary.tokens.clone();
        let tokenizer = HuggingFaceTokenizer::from_gguf(vocabulary).unwrap();
        let numbers = tokenizer.encode(text, true).unwrap();
        numbers.into_iter().map(|number| tokens[number as usize].clone()).collect()
    }

    #[test]
    fn pieces_are_put_together_by_score() {
        assert_eq!(encode(vocabulary(), "ab"), ["<s>", "▁ab"]);
        assert_eq!(encode(vocabulary(), "b é"), ["<s>", "▁", "b", "▁", "<0xC3>", "<0xA9>"]);
        assert_eq!(encode(vocabulary(), "a<tag>a"), ["<s>", "▁a", "<tag>", "▁a"]);
        let bare = || GgufVocabulary { space_first: Some(false), begins: Some(false), ..vocabulary() };
        assert_eq!(encode(bare(), "ab  ab</s>"), ["ab", "  ", "ab", "</s>"]);
        assert_eq!(encode(GgufVocabulary { ends: Some(true), ..bare() }, "a"), ["a", "</s>"]);
        let phi = GgufVocabulary { architecture: "phi3".into(), ..bare() };
        let tokenizer = HuggingFaceTokenizer::from_gguf(vocabulary()).unwrap();
        let numbers = tokenizer.encode("b  é</s>", true).unwrap();
        assert_eq!(tokenizer.decode_plain(&numbers).unwrap(), "b  é");
        let tokenizer = HuggingFaceTokenizer::from_gguf(phi).unwrap();
        assert_eq!(tokenizer.encode("</s> \n a", true).unwrap().len(), 2);
    }

    #[test]
    fn places_without_a_token_are_left_out() {
        let tokenizer = HuggingFaceTokenizer::from_gguf(vocabulary()).unwrap();
        assert_eq!(tokenizer.vocabulary_size(), vocabulary().tokens.len() - 1);
        assert_eq!(tokenizer.special_token("eos_token").and_then(|token| token.id), Some(2));
        assert!(tokenizer.special_token("pad_token").is_none());
    }

    #[test]
    fn templates_are_chosen_by_name() {
        let with = |names: &[&str]| {
            let templates =
                names.iter().map(|name| ((*name).to_owned(), format!("{name} template"))).collect();
            HuggingFaceTokenizer::from_gguf(GgufVocabulary { templates, ..vocabulary() }).unwrap()
        };
        let source =
            |names: &[&str], name| with(names).chat_template(name).map(|template| template.source.unwrap());
        assert_eq!(source(&["default", "tools"], None).unwrap(), "default template");
        assert_eq!(source(&["default", "tools"], Some("tools")).unwrap(), "tools template");
        assert_eq!(source(&["default"], Some("tools")).unwrap(), "default template");
        let error = source(&["default", "tools"], Some("other")).unwrap_err();
        assert!(error.to_string().contains("`other`") && error.hints().join(" ").contains("`tools`"));
        assert!(source(&[], None).unwrap_err().to_string().contains("has no chat template"));
    }

    #[test]
    fn vocabularies_that_do_not_fit_are_refused() {
        let error = |vocabulary| HuggingFaceTokenizer::from_gguf(vocabulary).unwrap_err();
        let found = error(GgufVocabulary { scores: vec![0.0], ..vocabulary() });
        assert!(found.to_string().contains("the scores of 1"), "{found}");
        assert!(found.hints().join(" ").contains("`tokenizer="));
        let found = error(GgufVocabulary { tokens: Vec::new(), ..vocabulary() });
        assert!(found.to_string().contains("it has no tokens"), "{found}");
        let found = error(GgufVocabulary { model: "gpt2".into(), ..vocabulary() });
        assert!(found.to_string().contains("`tokenizer.ggml.pre`"), "{found}");
    }
}
