//! Tokenizers by the rules of their class.
//!
//! Reference: a class takes the vocabulary, the merges and the tokens around a text from the files, nothing else.

use serde_json::json;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence as Decoders;
use tokenizers::decoders::strip::Strip;
use tokenizers::models::ModelWrapper;
use tokenizers::normalizers::{NFC, NormalizerWrapper, Replace};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::pre_tokenizers::sequence::Sequence as PreTokenizers;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, PostProcessorWrapper, SplitDelimiterBehavior, Tokenizer};

use crate::class::Rules;
use crate::special::SpecialTokens;

/// What stands for a blank in pieces.
const BLANK: char = '▁';
/// English endings, words, single digits, other signs and white space.
const WORDS: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

/// Settings of `tokenizer_config.json` that rules heed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) add_prefix_space: Option<bool>,
    pub(crate) legacy: Option<bool>,
    pub(crate) add_bos_token: Option<bool>,
    pub(crate) add_eos_token: Option<bool>,
}

impl Settings {
    /// Where LLaMA's rules put a blank.
    fn blank(self) -> PrependScheme {
        match (self.add_prefix_space, self.legacy) {
            (Some(false), _) => PrependScheme::Never,
            (_, Some(true)) => PrependScheme::Always,
            _ => PrependScheme::First,
        }
    }
}

/// The tokenizer with the vocabulary of another one and the rules of its class, if that has some. One whose vocabulary is
/// of another kind stays as it is.
pub(crate) fn apply(file: Tokenizer, special: &SpecialTokens) -> tokenizers::Result<Tokenizer> {
    let Some(class) = special.class else { return Ok(file) };
    let ModelWrapper::BPE(model) = file.get_model() else { return Ok(file) };
    let mut model = model.clone();
    let (rules, settings) = (class.rules, special.settings);
    let unknown = || special.text("unk_token").map(str::to_owned);
    model.dropout = None;
    model.continuing_subword_prefix = None;
    model.end_of_word_suffix = None;
    model.ignore_merges = false;
    model.unk_token = if matches!(rules, Rules::CodePieces | Rules::BarePieces) { unknown() } else { None };
    model.fuse_unk = !rules.is_byte_level();
    model.byte_fallback = !rules.is_byte_level();
    let mut tokenizer = Tokenizer::new(model);
    tokenizer.with_normalizer(normalizer(rules)?)?;
    tokenizer.with_pre_tokenizer(Some(pre_tokenizer(rules, settings)?));
    tokenizer.with_decoder(Some(decoder(rules, settings)?));
    tokenizer.with_post_processor(file.get_post_processor().cloned());
    if !special.are_declared {
        let mut tokens: Vec<(u32, AddedToken)> = file.get_added_tokens_decoder().into_iter().collect();
        tokens.sort_by_key(|(id, _)| *id);
        tokenizer.add_tokens(tokens.into_iter().map(|(_, token)| token))?;
    }
    Ok(tokenizer)
}

fn normalizer(rules: Rules) -> tokenizers::Result<Option<NormalizerWrapper>> {
    Ok(match rules {
        Rules::Bytes | Rules::Pieces | Rules::CodePieces => None,
        Rules::ComposedBytes | Rules::DigitsAndBytes | Rules::WordsAndBytes => Some(NFC.into()),
        Rules::BarePieces => Some(Replace::new(" ", BLANK.to_string())?.into()),
    })
}

fn pre_tokenizer(rules: Rules, settings: Settings) -> tokenizers::Result<PreTokenizerWrapper> {
    let bytes = |cuts| ByteLevel::new(settings.add_prefix_space == Some(true), true, cuts);
    Ok(match rules {
        Rules::Bytes | Rules::ComposedBytes => bytes(true).into(),
        Rules::DigitsAndBytes => {
            PreTokenizers::new(vec![Digits::new(true).into(), bytes(true).into()]).into()
        }
        Rules::WordsAndBytes => {
            let words =
                Split::new(SplitPattern::Regex(WORDS.into()), SplitDelimiterBehavior::Isolated, false)?;
            PreTokenizers::new(vec![words.into(), bytes(false).into()]).into()
        }
        Rules::Pieces => Metaspace::new(BLANK, settings.blank(), false).into(),
        Rules::CodePieces => {
            let is_bare = settings.add_prefix_space == Some(false);
            let scheme = if is_bare { PrependScheme::Never } else { PrependScheme::First };
            Metaspace::new(BLANK, scheme, false).into()
        }
        Rules::BarePieces => {
            let blank = SplitPattern::String(" ".into());
            Split::new(blank, SplitDelimiterBehavior::MergedWithPrevious, false)?.into()
        }
    })
}

fn decoder(rules: Rules, settings: Settings) -> tokenizers::Result<DecoderWrapper> {
    if rules.is_byte_level() {
        return Ok(ByteLevel::new(true, true, true).into());
    }
    let back = Replace::new(BLANK.to_string(), " ")?;
    let mut decoders: Vec<DecoderWrapper> = vec![back.into(), ByteFallback::new().into(), Fuse::new().into()];
    let is_first_removed = match rules {
        Rules::Pieces => settings.add_prefix_space != Some(false),
        rules => rules == Rules::CodePieces,
    };
    if is_first_removed {
        decoders.push(Strip::new(' ', 1, 0).into());
    }
    Ok(Decoders::new(decoders).into())
}

/// Puts tokens around texts where the class does so itself, or where no `tokenizer.json` says it.
pub(crate) fn add_frame(
    tokenizer: &mut Tokenizer,
    special: &SpecialTokens,
    has_file: bool,
) -> tokenizers::Result<()> {
    let Some(class) = special.class else { return Ok(()) };
    let is_own = matches!(class.rules, Rules::ComposedBytes | Rules::CodePieces);
    if (has_file && !is_own) || !matches!(tokenizer.get_model(), ModelWrapper::BPE(_)) {
        return Ok(());
    }
    // Reference: what the configuration says of them does not count beside a `tokenizer.json`.
    let said = |flag: Option<bool>| flag.filter(|_| !has_file);
    let begins = said(special.settings.add_bos_token).unwrap_or(class.rules == Rules::CodePieces);
    let ends = said(special.settings.add_eos_token).unwrap_or(false);
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
    let frame: PostProcessorWrapper = serde_json::from_value(json!({
        "type": "TemplateProcessing",
        "single": around("A", 0),
        "pair": pair,
        "special_tokens": known,
    }))?;
    tokenizer.with_post_processor(Some(frame));
    Ok(())
}
