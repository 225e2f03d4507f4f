//! Tokenizers from SentencePiece models: `tokenizer.model`, or `spiece.model` of T5.

mod proto;

use rustc_hash::FxHashMap;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence as Decoders;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::models::unigram::Unigram;
use tokenizers::normalizers::{NormalizerWrapper, Precompiled, Replace, Sequence as Normalizers};
use tokenizers::{AddedToken, Tokenizer};

use self::proto::{ModelKind, PieceKind, Proto};
use crate::class::{Class, Scheme};
use crate::formats::Problem;
use crate::merges::{Pairs, check_length};
use crate::pipeline::SPACE;
use crate::special::SpecialTokens;

/// Number of T5's sentinel tokens, which its models do not contain, unless the configuration has another one.
const SENTINELS: usize = 100;
/// The largest number of sentinel tokens. No known model has more than 300.
const MAX_SENTINELS: usize = 10_000;

/// Builds a tokenizer from a SentencePiece model.
///
/// Classes use only the vocabulary and the table of characters. Without a class, the tokenizer is built from the model alone.
pub(crate) fn build(file: &[u8], special: &mut SpecialTokens) -> Result<Tokenizer, Problem> {
    if is_tiktoken(file) {
        return Err(Problem::Unsupported(
            "it is in the format of tiktoken, which has no special tokens".into(),
        ));
    }
    let proto = Proto::read(file)?;
    proto.check()?;
    check_class(proto.kind, special.class).map_err(Problem::Unsupported)?;
    let scheme = special.class.map(|class| class.scheme);
    let mut tokenizer = match (proto.kind, scheme) {
        (ModelKind::Unigram, Some(_)) => sentinel_model(&proto, special)?,
        (ModelKind::Unigram, None) => Tokenizer::new(unigram(&proto, Vec::new(), proto.has_byte_fallback)?),
        _ => Tokenizer::new(merging(&proto, special)?),
    };
    if scheme.is_none() {
        for (name, token) in
            [("bos_token", &proto.begin), ("eos_token", &proto.end), ("unk_token", &proto.unknown)]
        {
            if token.id >= 0 {
                special.set_default(name, &token.text);
            }
        }
        let mut decoders: Vec<DecoderWrapper> = vec![Replace::new(SPACE.to_string(), " ")?.into()];
        if proto.has_byte_fallback {
            decoders.extend([ByteFallback::new().into(), Fuse::new().into()]);
        }
        tokenizer.with_decoder(Some(Decoders::new(decoders)));
    }
    tokenizer.with_normalizer(Some(normalizer(&proto)?))?;
    let added = proto.pieces.iter().filter_map(|piece| {
        let is_special = match piece.kind {
            PieceKind::Control => true,
            PieceKind::UserDefined => false,
            _ => return None,
        };
        // Renamed pieces have no id any more.
        tokenizer.token_to_id(&piece.text)?;
        Some(AddedToken::from(piece.text.as_str(), is_special).normalized(false))
    });
    let added: Vec<AddedToken> = added.collect();
    tokenizer.add_tokens(added)?;
    Ok(tokenizer)
}

/// Refuses models of other kinds than the class reads.
///
/// Reference: classes of merged pieces take unigram models as lists of merges, which gives other tokens than the model.
fn check_class(kind: ModelKind, class: Option<&Class>) -> Result<(), String> {
    if kind == ModelKind::Other {
        return Err("its SentencePiece model is neither of the kind `unigram` nor `bpe`".to_owned());
    }
    let Some(Class { name, scheme, .. }) = class else { return Ok(()) };
    let needed = match scheme {
        Scheme::Words => ModelKind::Unigram,
        Scheme::Pieces | Scheme::CodePieces | Scheme::BarePieces => ModelKind::Merges,
        _ => return Err(format!("its class `{name}` cannot be built from a SentencePiece model")),
    };
    if kind == needed {
        return Ok(());
    }
    let needed = if needed == ModelKind::Unigram { "unigram" } else { "bpe" };
    Err(format!("its class `{name}` needs a model of the kind `{needed}`, and this one has another kind"))
}

/// Whether the file consists of lines with a token in Base64 and its rank.
fn is_tiktoken(file: &[u8]) -> bool {
    let line = file.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
    words.next().is_some_and(|token| !token.is_empty() && token.iter().all(is_base64))
        && words.next().is_some_and(|rank| !rank.is_empty() && rank.iter().all(u8::is_ascii_digit))
}

fn normalizer(proto: &Proto) -> Result<NormalizerWrapper, Problem> {
    let spaces: NormalizerWrapper = Replace::new(" ", SPACE.to_string())?.into();
    if proto.table.is_empty() {
        return Ok(spaces);
    }
    // The library reserves memory for the table before it reads it, and looks up its first entry for every string.
    let length = proto.table.first_chunk().map(|bytes| u32::from_le_bytes(*bytes) as usize);
    let is_whole =
        length.is_some_and(|length| length > 0 && length % 4 == 0 && length <= proto.table.len() - 4);
    let table = is_whole.then(|| Precompiled::from(&proto.table).ok()).flatten();
    let table = table.ok_or("the table of characters of its normaliser is damaged")?;
    Ok(Normalizers::new(vec![table.into(), spaces]).into())
}

fn unigram(proto: &Proto, more: Vec<String>, has_byte_fallback: bool) -> Result<Unigram, Problem> {
    let pieces = proto.pieces.iter().map(|piece| (piece.text.clone(), f64::from(piece.score)));
    let pieces = pieces.chain(more.into_iter().map(|token| (token, 0.0))).collect();
    let unknown = usize::try_from(proto.unknown.id).map_err(|_| "it has no unknown piece")?;
    Ok(Unigram::from(pieces, Some(unknown), has_byte_fallback)?)
}

/// The model of T5 with its sentinel tokens, the first of which has the highest id.
fn sentinel_model(proto: &Proto, special: &SpecialTokens) -> Result<Tokenizer, Problem> {
    let count = special.settings.extra_ids.unwrap_or(SENTINELS);
    if count > MAX_SENTINELS {
        return Err(format!("`extra_ids` is {count}; the limit is {MAX_SENTINELS}").into());
    }
    let sentinels: Vec<String> = (0..count).rev().map(|index| format!("<extra_id_{index}>")).collect();
    let mut tokenizer = Tokenizer::new(unigram(proto, sentinels.clone(), false)?);
    tokenizer.add_tokens(sentinels.into_iter().map(|token| AddedToken::from(token, true)))?;
    Ok(tokenizer)
}

/// A model that merges pieces in the order of their ids, whatever their scores.
fn merging(proto: &Proto, special: &SpecialTokens) -> Result<BPE, Problem> {
    let mut ids: FxHashMap<&str, u32> = FxHashMap::default();
    for (id, piece) in (0_u32..).zip(&proto.pieces) {
        check_length(id as usize, &piece.text)?;
        ids.insert(&piece.text, id);
    }
    let (mut merges, mut pairs) = (Vec::new(), Pairs::default());
    for piece in &proto.pieces {
        let found = pairs.of(&piece.text, &ids)?;
        merges.extend(found.into_iter().map(|(left, right)| (left.to_owned(), right.to_owned())));
    }
    let mut vocabulary: Vocab = ids.iter().map(|(text, id)| ((*text).to_owned(), *id)).collect();
    if special.class.is_none() {
        rename(&mut vocabulary, proto, &special.declared);
    }
    let model = BPE::builder().vocab_and_merges::<Vocab>(vocabulary, merges);
    let model = model.fuse_unk(true).byte_fallback(proto.has_byte_fallback);
    Ok(model.unk_token(proto.unknown.text.clone()).build()?)
}

/// Gives placeholders the content that the configuration lists for their ids.
fn rename(vocabulary: &mut Vocab, proto: &Proto, declared: &[(i64, String)]) {
    for (id, content) in declared {
        let piece = usize::try_from(*id).ok().and_then(|id| proto.pieces.get(id));
        if let Some(piece) = piece.filter(|piece| !piece.text.is_empty())
            && !vocabulary.contains_key(content)
            && let Some(id) = vocabulary.remove(&piece.text)
        {
            vocabulary.insert(content.clone(), id);
        }
    }
}
