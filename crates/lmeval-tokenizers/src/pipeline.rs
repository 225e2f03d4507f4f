//! The tokenization pipeline of a class: normaliser, pre-tokenizer, decoder and post-processor.
//!
//! Reference: a class takes only the vocabulary, the merges and the post-processor from the files.

use serde_json::json;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence as Decoders;
use tokenizers::decoders::strip::Strip;
use tokenizers::models::ModelWrapper;
use tokenizers::models::bpe::BPE;
use tokenizers::models::unigram::Unigram;
use tokenizers::normalizers::{NFC, NormalizerWrapper, Replace};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::pre_tokenizers::sequence::Sequence as PreTokenizers;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::pre_tokenizers::whitespace::WhitespaceSplit;
use tokenizers::{AddedToken, PostProcessorWrapper, SplitDelimiterBehavior, Tokenizer};

use crate::class::Scheme;
use crate::special::SpecialTokens;

/// Represents a space in SentencePiece tokens.
pub(crate) const SPACE: char = '▁';
/// English contractions, words, single digits, punctuation and whitespace.
const WORDS: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

/// Settings of `tokenizer_config.json` that affect the pipeline.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) add_prefix_space: Option<bool>,
    pub(crate) legacy: Option<bool>,
    pub(crate) add_bos_token: Option<bool>,
    pub(crate) add_eos_token: Option<bool>,
    /// Number of T5's sentinel tokens.
    pub(crate) extra_ids: Option<usize>,
}

impl Settings {
    /// Where LLaMA's scheme prepends a space.
    fn prepend_scheme(self) -> PrependScheme {
        match (self.add_prefix_space, self.legacy) {
            (Some(false), _) => PrependScheme::Never,
            (_, Some(true)) => PrependScheme::Always,
            _ => PrependScheme::First,
        }
    }
}

/// Rebuilds a tokenizer with the pipeline of its class, if it has the model of the class. Other tokenizers, and those without
/// a class, are unchanged.
pub(crate) fn apply(file: Tokenizer, special: &SpecialTokens) -> tokenizers::Result<Tokenizer> {
    let Some(class) = special.class else { return Ok(file) };
    let mut tokenizer = match (class.scheme, file.get_model()) {
        (Scheme::Words, ModelWrapper::Unigram(model)) => Tokenizer::new(words_model(model)?),
        (Scheme::Words, _) => return Ok(file),
        (scheme, ModelWrapper::BPE(model)) => Tokenizer::new(merging_model(model, scheme, special)),
        _ => return Ok(file),
    };
    let (scheme, settings) = (class.scheme, special.settings);
    tokenizer.with_normalizer(normalizer(scheme, file.get_normalizer())?)?;
    tokenizer.with_pre_tokenizer(Some(pre_tokenizer(scheme, settings)?));
    tokenizer.with_decoder(Some(decoder(scheme, settings)?));
    tokenizer.with_post_processor(file.get_post_processor().cloned());
    if !special.are_declared {
        let mut tokens: Vec<(u32, AddedToken)> = file.get_added_tokens_decoder().into_iter().collect();
        tokens.sort_by_key(|(id, _)| *id);
        tokenizer.add_tokens(tokens.into_iter().map(|(_, token)| token))?;
    }
    Ok(tokenizer)
}

/// The model of T5: the third token is the unknown one.
fn words_model(file: &Unigram) -> tokenizers::Result<Unigram> {
    Unigram::from(file.iter().cloned().collect(), Some(2), false)
}

/// A model that merges pieces.
fn merging_model(file: &BPE, scheme: Scheme, special: &SpecialTokens) -> BPE {
    let mut model = file.clone();
    let unknown = || special.text("unk_token").map(str::to_owned);
    model.dropout = None;
    model.continuing_subword_prefix = None;
    model.end_of_word_suffix = None;
    model.ignore_merges = false;
    model.unk_token =
        if matches!(scheme, Scheme::CodePieces | Scheme::BarePieces) { unknown() } else { None };
    model.fuse_unk = !scheme.is_byte_level();
    model.byte_fallback = !scheme.is_byte_level();
    model
}

fn normalizer(
    scheme: Scheme,
    file: Option<&NormalizerWrapper>,
) -> tokenizers::Result<Option<NormalizerWrapper>> {
    Ok(match scheme {
        Scheme::Bytes | Scheme::Pieces | Scheme::CodePieces => None,
        Scheme::ComposedBytes | Scheme::DigitsAndBytes | Scheme::WordsAndBytes => Some(NFC.into()),
        Scheme::BarePieces => Some(Replace::new(" ", SPACE.to_string())?.into()),
        Scheme::Words => file.and_then(table),
    })
}

/// The table of characters in a normaliser.
fn table(normalizer: &NormalizerWrapper) -> Option<NormalizerWrapper> {
    match normalizer {
        NormalizerWrapper::Precompiled(_) => Some(normalizer.clone()),
        NormalizerWrapper::Sequence(all) => all.as_ref().iter().find_map(table),
        _ => None,
    }
}

fn pre_tokenizer(scheme: Scheme, settings: Settings) -> tokenizers::Result<PreTokenizerWrapper> {
    let bytes = |use_regex| ByteLevel::new(settings.add_prefix_space == Some(true), true, use_regex);
    Ok(match scheme {
        Scheme::Bytes | Scheme::ComposedBytes => bytes(true).into(),
        Scheme::DigitsAndBytes => {
            PreTokenizers::new(vec![Digits::new(true).into(), bytes(true).into()]).into()
        }
        Scheme::WordsAndBytes => {
            let words =
                Split::new(SplitPattern::Regex(WORDS.into()), SplitDelimiterBehavior::Isolated, false)?;
            PreTokenizers::new(vec![words.into(), bytes(false).into()]).into()
        }
        Scheme::Pieces => Metaspace::new(SPACE, settings.prepend_scheme(), false).into(),
        Scheme::CodePieces => {
            let is_bare = settings.add_prefix_space == Some(false);
            let prepend = if is_bare { PrependScheme::Never } else { PrependScheme::First };
            Metaspace::new(SPACE, prepend, false).into()
        }
        Scheme::BarePieces => {
            let space = SplitPattern::String(" ".into());
            Split::new(space, SplitDelimiterBehavior::MergedWithPrevious, false)?.into()
        }
        Scheme::Words => {
            let words = Metaspace::new(SPACE, PrependScheme::Always, true);
            PreTokenizers::new(vec![WhitespaceSplit.into(), words.into()]).into()
        }
    })
}

fn decoder(scheme: Scheme, settings: Settings) -> tokenizers::Result<DecoderWrapper> {
    if scheme.is_byte_level() {
        return Ok(ByteLevel::new(true, true, true).into());
    }
    if scheme == Scheme::Words {
        return Ok(Metaspace::new(SPACE, PrependScheme::Always, true).into());
    }
    let back = Replace::new(SPACE.to_string(), " ")?;
    let mut decoders: Vec<DecoderWrapper> = vec![back.into(), ByteFallback::new().into(), Fuse::new().into()];
    let strips_first = match scheme {
        Scheme::Pieces => settings.add_prefix_space != Some(false),
        scheme => scheme == Scheme::CodePieces,
    };
    if strips_first {
        decoders.push(Strip::new(' ', 1, 0).into());
    }
    Ok(Decoders::new(decoders).into())
}

/// Adds `bos_token` and `eos_token` to sequences, if the class does so itself or there is no `tokenizer.json`.
pub(crate) fn add_post_processor(
    tokenizer: &mut Tokenizer,
    special: &SpecialTokens,
    has_file: bool,
) -> tokenizers::Result<()> {
    let scheme = special.class.map(|class| class.scheme);
    let (begins, ends) = match (scheme, tokenizer.get_model()) {
        (Some(Scheme::Words), ModelWrapper::Unigram(_)) => (false, true),
        (Some(Scheme::Words), _) => return Ok(()),
        (scheme, model) => {
            let is_own = matches!(scheme, Some(Scheme::ComposedBytes | Scheme::CodePieces));
            let is_merging = matches!(model, ModelWrapper::BPE(_));
            if has_file && !(is_own && is_merging) {
                return Ok(());
            }
            // Reference: with a `tokenizer.json`, these flags of the configuration are ignored.
            let configured = |flag: Option<bool>| flag.filter(|_| !has_file);
            let begins = configured(special.settings.add_bos_token);
            (
                begins.unwrap_or(scheme == Some(Scheme::CodePieces)),
                configured(special.settings.add_eos_token).unwrap_or(false),
            )
        }
    };
    let token = |name: &str| {
        let text = special.text(name)?;
        Some((text, tokenizer.token_to_id(text)?))
    };
    let begin = token("bos_token").filter(|_| begins);
    let end = token("eos_token").filter(|_| ends);
    let around = |sequence: &str, kind: u32| {
        let piece = |text: &str| json!({"SpecialToken": {"id": text, "type_id": kind}});
        let mut pieces = Vec::new();
        pieces.extend(begin.map(|(text, _)| piece(text)));
        pieces.push(json!({"Sequence": {"id": sequence, "type_id": kind}}));
        pieces.extend(end.map(|(text, _)| piece(text)));
        pieces
    };
    let known: serde_json::Map<String, serde_json::Value> = [begin, end]
        .into_iter()
        .flatten()
        .map(|(text, id)| (text.to_owned(), json!({"id": text, "ids": [id], "tokens": [text]})))
        .collect();
    let pair = [around("A", 0), around("B", 1)].concat();
    let processor: PostProcessorWrapper = serde_json::from_value(json!({
        "type": "TemplateProcessing",
        "single": around("A", 0),
        "pair": pair,
        "special_tokens": known,
    }))?;
    tokenizer.with_post_processor(Some(processor));
    Ok(())
}
