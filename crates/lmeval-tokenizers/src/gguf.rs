//! Tokenizers from the metadata of GGUF files.

mod merges;
mod pre_tokenizer;

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

use self::pre_tokenizer::PreTokenizerSpec;
use crate::chat::TokenizerTemplate;
use crate::huggingface::HuggingFaceTokenizer;
use crate::special::SpecialTokens;

/// Represents a space in SentencePiece tokens.
const SPACE: char = '▁';
/// Phi 3 tokens that keep following whitespace. Its other special tokens swallow it.
const PHI3_PLAIN: [&str; 3] = ["<unk>", "<s>", "<|endoftext|>"];

/// The type of a GGUF token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GgufTokenKind {
    /// An ordinary piece of text.
    Normal,
    /// The unknown token.
    Unknown,
    /// A special token, such as the end of a sequence.
    Control,
    /// Matched in text before everything else.
    UserDefined,
    /// An unused id.
    Unused,
    /// A single byte, for byte fallback.
    Byte,
}

/// A GGUF file's vocabulary and tokenizer settings.
#[derive(Clone, Debug)]
pub struct GgufVocabulary {
    /// The GGUF file, for messages.
    pub file: PathBuf,
    /// The model architecture (`general.architecture`).
    pub architecture: String,
    /// The tokenizer type (`tokenizer.ggml.model`): `gpt2` or `llama`.
    pub model: String,
    /// The name of the pre-tokenizer (`tokenizer.ggml.pre`).
    pub pre_tokenizer: Option<String>,
    /// The tokens by id.
    pub tokens: Vec<String>,
    /// The token types by id.
    pub kinds: Vec<GgufTokenKind>,
    /// The token scores by id, for `llama`.
    pub scores: Vec<f64>,
    /// The merges in order, for `gpt2`.
    pub merges: Vec<String>,
    /// The ids of named special tokens, such as `bos_token`.
    pub special: Vec<(&'static str, u32)>,
    /// Whether sequences begin with `bos_token`.
    pub add_bos: Option<bool>,
    /// Whether sequences end with `eos_token`.
    pub add_eos: Option<bool>,
    /// Whether a space is prepended to the text.
    pub add_space_prefix: Option<bool>,
    /// Chat templates by name.
    pub templates: Vec<(String, String)>,
}

impl HuggingFaceTokenizer {
    /// Builds a tokenizer from a GGUF file's vocabulary.
    pub fn from_gguf(mut vocabulary: GgufVocabulary) -> Result<Self, ModelError> {
        if vocabulary.model == "llama" {
            // User-defined tokens are the only ones stored with plain spaces.
            let tokens = vocabulary.tokens.iter_mut().zip(&vocabulary.kinds);
            for (token, _) in tokens.filter(|(_, kind)| **kind == GgufTokenKind::UserDefined) {
                *token = token.replace(' ', &SPACE.to_string());
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
        let message = format!("Cannot use the tokenizer of `{}`: {problem}", self.file.display());
        ModelError::new(ModelErrorKind::Configuration, message)
            .hint("Set the model's tokenizer with `tokenizer=<name on the hub or folder>`")
    }

    fn tokenizer(&self) -> Result<Tokenizer, String> {
        let count = self.tokens.len();
        if count == 0 {
            return Err("it has no tokens".into());
        }
        if self.kinds.len() != count {
            return Err(format!("it has {count} tokens but {} token types", self.kinds.len()));
        }
        if let Some((name, token)) = self.special.iter().find(|(_, token)| *token as usize >= count) {
            return Err(format!("its `{name}` is token {token}, but the vocabulary has {count} tokens"));
        }
        let mut tokenizer = match self.model.as_str() {
            "gpt2" => self.byte_level()?,
            "llama" => self.sentence_piece()?,
            other => {
                return Err(format!(
                    "tokenizer type `{other}` is not supported; supported types are `gpt2` and `llama`"
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
        self.add_post_processor(&mut tokenizer)?;
        Ok(tokenizer)
    }

    /// Whether a special token swallows following whitespace. GGUF files do not store this.
    fn swallows(&self, token: &str) -> bool {
        self.architecture == "phi3" && self.model == "llama" && !PHI3_PLAIN.contains(&token)
    }

    /// Token ids by content. The first of duplicate tokens wins.
    fn ids(&self) -> FxHashMap<&str, u32> {
        let mut ids = FxHashMap::default();
        for (id, (token, kind)) in (0_u32..).zip(self.tokens.iter().zip(&self.kinds)) {
            if *kind != GgufTokenKind::Unused {
                ids.entry(token.as_str()).or_insert(id);
            }
        }
        ids
    }

    /// Byte-level BPE with listed merges.
    fn byte_level(&self) -> Result<Tokenizer, String> {
        let spec = PreTokenizerSpec::find(self.pre_tokenizer.as_deref(), &self.architecture)?;
        let ids = self.ids();
        let merges = merges::listed(&self.merges, &ids)?;
        let vocabulary = ids.into_iter().map(|(token, id)| (token.to_owned(), id)).collect();
        let model = BPE::builder().vocab_and_merges::<tokenizers::models::bpe::Vocab>(vocabulary, merges);
        let model = model.ignore_merges(spec.ignore_merges).build().map_err(|error| error.to_string())?;
        let mut tokenizer = Tokenizer::new(model);
        tokenizer.with_pre_tokenizer(Some(spec.pre_tokenizer()?));
        tokenizer.with_decoder(Some(ByteLevel::new(false, true, true)));
        tokenizer.with_normalizer(spec.normalizer()).map_err(|error| error.to_string())?;
        Ok(tokenizer)
    }

    /// SentencePiece BPE: merges ordered by score, with byte fallback.
    fn sentence_piece(&self) -> Result<Tokenizer, String> {
        if self.scores.len() != self.tokens.len() {
            let count = self.scores.len();
            return Err(format!("it has {} tokens but {count} scores", self.tokens.len()));
        }
        let ids = self.ids();
        let merges = merges::scored(&self.tokens, &self.kinds, &self.scores, &ids)?;
        let has_bytes = self.kinds.contains(&GgufTokenKind::Byte);
        let vocabulary = ids.into_iter().map(|(token, id)| (token.to_owned(), id)).collect();
        let mut model = BPE::builder()
            .vocab_and_merges::<tokenizers::models::bpe::Vocab>(vocabulary, merges)
            .byte_fallback(has_bytes)
            .fuse_unk(true);
        if let Some(unknown) = self.special_token("unk_token") {
            model = model.unk_token(unknown.to_owned());
        }
        let mut tokenizer = Tokenizer::new(model.build().map_err(|error| error.to_string())?);
        let failed = |error: tokenizers::Error| error.to_string();
        let mark = SPACE.to_string();
        let replace = Replace::new(" ", mark.as_str()).map_err(failed)?;
        let back = Replace::new(mark.as_str(), " ").map_err(failed)?;
        let mut decoders: Vec<DecoderWrapper> =
            vec![back.into(), ByteFallback::new().into(), Fuse::new().into()];
        let normalizer: NormalizerWrapper = if self.add_space_prefix.unwrap_or(true) {
            decoders.push(Strip::new(' ', 1, 0).into());
            Normalizers::new(vec![Prepend::new(mark).into(), replace.into()]).into()
        } else {
            replace.into()
        };
        tokenizer.with_normalizer(Some(normalizer)).map_err(failed)?;
        tokenizer.with_decoder(Some(Decoders::new(decoders)));
        Ok(tokenizer)
    }

    /// Adds `bos_token` and `eos_token` to sequences, if the file or its tokenizer type says so.
    fn add_post_processor(&self, tokenizer: &mut Tokenizer) -> Result<(), String> {
        let default_bos = match self.model.as_str() {
            "llama" => true,
            _ => PreTokenizerSpec::find(self.pre_tokenizer.as_deref(), &self.architecture)?.add_bos,
        };
        let token = |name: &str| {
            let (_, id) = self.special.iter().find(|(known, _)| *known == name)?;
            Some((self.special_token(name)?, *id))
        };
        let begin = token("bos_token").filter(|_| self.add_bos.unwrap_or(default_bos));
        let end = token("eos_token").filter(|_| self.add_eos.unwrap_or(false));
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
            .map(|(text, id)| (text.to_owned(), json!({"id": text, "ids": [id], "tokens": [text]})))
            .collect();
        let pair = [around("A", 0), around("B", 1)].concat();
        let processor = json!({
            "type": "TemplateProcessing",
            "single": around("A", 0),
            "pair": pair,
            "special_tokens": special,
        });
        let processor: PostProcessorWrapper =
            serde_json::from_value(processor).map_err(|error| error.to_string())?;
        tokenizer.with_post_processor(Some(processor));
        Ok(())
    }

    fn special_token(&self, name: &str) -> Option<&str> {
        let (_, token) = self.special.iter().find(|(known, _)| *known == name)?;
        self.tokens.get(*token as usize).map(String::as_str)
    }
}

/// Chooses a chat template of a GGUF file by name; without a name, the default.
pub(crate) fn template(
    file: &std::path::Path,
    templates: &[(String, String)],
    name: Option<&str>,
    tokens: Dict,
) -> Result<ModelTemplate, ModelError> {
    let error = |message: String| ModelError::new(ModelErrorKind::Configuration, message);
    let named = |wanted: &str| templates.iter().find(|(known, _)| known == wanted);
    let chosen = match name {
        // A single template is used whatever the name is.
        Some(name) if templates.len() > 1 => named(name),
        _ => named("default").or_else(|| templates.first()),
    };
    let Some((_, source)) = chosen else {
        let names: Vec<&str> = templates.iter().map(|(name, _)| name.as_str()).collect();
        return Err(match name {
            Some(name) if !names.is_empty() => {
                error(format!("`{}` has no chat template `{name}`", file.display()))
                    .hint(format!("Available templates: `{}`", names.join("`, `")))
            }
            _ => error(format!("`{}` has no chat template", file.display()))
                .hint("Run models without a chat template without `--apply_chat_template`"),
        });
    };
    let origin = format!("`{}`", file.display());
    Ok(TokenizerTemplate::from_source(source, &origin, tokens)?.into_model_template())
}

#[cfg(test)]
mod tests {
    use lmeval_core::Diagnose as _;

    use super::*;

    /// A SentencePiece vocabulary: special tokens, bytes, spaces and some letters.
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
            pre_tokenizer: Some("default".into()),
            tokens: tokens.iter().map(|(token, _, _)| token.clone()).collect(),
            kinds: tokens.iter().map(|(_, kind, _)| *kind).collect(),
            scores: tokens.iter().map(|(_, _, score)| *score).collect(),
            merges: Vec::new(),
            special: vec![("bos_token", 1), ("eos_token", 2), ("unk_token", 0)],
            add_bos: None,
            add_eos: None,
            add_space_prefix: None,
            templates: vec![("default".into(), "{{ bos_token }}{{ messages[0]['content'] }}".into())],
        }
    }

    fn encode(vocabulary: GgufVocabulary, text: &str) -> Vec<String> {
        let tokens = vocabulary.tokens.clone();
        let tokenizer = HuggingFaceTokenizer::from_gguf(vocabulary).unwrap();
        let ids = tokenizer.encode(text, true).unwrap();
        ids.into_iter().map(|id| tokens[id as usize].clone()).collect()
    }

    #[test]
    fn merges_pieces_by_score() {
        assert_eq!(encode(vocabulary(), "ab"), ["<s>", "▁ab"]);
        assert_eq!(encode(vocabulary(), "b é"), ["<s>", "▁", "b", "▁", "<0xC3>", "<0xA9>"]);
        assert_eq!(encode(vocabulary(), "a<tag>a"), ["<s>", "▁a", "<tag>", "▁a"]);
        let bare = || GgufVocabulary { add_space_prefix: Some(false), add_bos: Some(false), ..vocabulary() };
        assert_eq!(encode(bare(), "ab  ab</s>"), ["ab", "  ", "ab", "</s>"]);
        assert_eq!(encode(GgufVocabulary { add_eos: Some(true), ..bare() }, "a"), ["a", "</s>"]);
        let phi = GgufVocabulary { architecture: "phi3".into(), ..bare() };
        let tokenizer = HuggingFaceTokenizer::from_gguf(vocabulary()).unwrap();
        let ids = tokenizer.encode("b  é</s>", true).unwrap();
        assert_eq!(tokenizer.decode_plain(&ids).unwrap(), "b  é");
        let tokenizer = HuggingFaceTokenizer::from_gguf(phi).unwrap();
        assert_eq!(tokenizer.encode("</s> \n a", true).unwrap().len(), 2);
    }

    #[test]
    fn omits_unused_ids() {
        let tokenizer = HuggingFaceTokenizer::from_gguf(vocabulary()).unwrap();
        assert_eq!(tokenizer.vocabulary_size(), vocabulary().tokens.len() - 1);
        assert_eq!(tokenizer.special_token("eos_token").and_then(|token| token.id), Some(2));
        assert!(tokenizer.special_token("pad_token").is_none());
    }

    #[test]
    fn chooses_templates_by_name() {
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
    fn refuses_inconsistent_vocabularies() {
        let error = |vocabulary| HuggingFaceTokenizer::from_gguf(vocabulary).unwrap_err();
        let found = error(GgufVocabulary { scores: vec![0.0], ..vocabulary() });
        assert!(found.to_string().contains("but 1 scores"), "{found}");
        assert!(found.hints().join(" ").contains("`tokenizer="));
        let found = error(GgufVocabulary { tokens: Vec::new(), ..vocabulary() });
        assert!(found.to_string().contains("it has no tokens"), "{found}");
        let found = error(GgufVocabulary { model: "gpt2".into(), ..vocabulary() });
        assert!(found.to_string().contains("`tokenizer.ggml.pre`"), "{found}");
    }
}
