//! Tokenizers from Mistral's `tekken.json`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence as PreTokenizers;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, SplitDelimiterBehavior, Tokenizer};

use crate::formats::Problem;
use crate::merges::{LONGEST, Pairs};
use crate::special::SpecialTokens;

/// The special tokens of files that do not list them.
const SPECIAL: [&str; 20] = [
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
];
/// The named special tokens, as far as a file has them.
const NAMED: [(&str, &str); 4] =
    [("bos_token", "<s>"), ("eos_token", "</s>"), ("unk_token", "<unk>"), ("pad_token", "<pad>")];
/// The largest vocabulary, to bound memory. The largest known one has 150,000 tokens.
const MAX_TOKENS: usize = 1 << 22;

/// A vocabulary of byte sequences in the order of their merges, which are not listed.
#[derive(Debug, Deserialize)]
struct Tekken {
    config: Config,
    vocab: Vec<Token>,
    special_tokens: Option<Vec<SpecialToken>>,
}

#[derive(Debug, Deserialize)]
struct Config {
    /// Splits text into words.
    pattern: String,
    /// Number of tokens, special ones included.
    default_vocab_size: usize,
    default_num_special_tokens: usize,
}

#[derive(Debug, Deserialize)]
struct Token {
    rank: usize,
    token_bytes: String,
}

#[derive(Debug, Deserialize)]
struct SpecialToken {
    rank: usize,
    token_str: String,
}

/// Builds a tokenizer from a `tekken.json`. Sequences begin with `<s>`, unless the configuration says otherwise.
///
/// Unlike `mistral-common`, special tokens in text are recognised, as chat templates need it.
pub(crate) fn build(file: &[u8], special: &mut SpecialTokens) -> Result<Tokenizer, Problem> {
    let file: Tekken = serde_json::from_slice(file).map_err(|error| error.to_string())?;
    let names = file.special_names()?;
    let words = file.words(names.len())?;
    let spelled: Vec<String> = words.iter().map(|word| spell(word)).collect();
    let first = names.len() as u32;
    let mut ids: FxHashMap<&str, u32> = FxHashMap::default();
    for (id, word) in (first..).zip(&spelled) {
        if ids.insert(word, id).is_some() {
            return Err(format!("it has the token `{word}` twice").into());
        }
    }
    if let Some(byte) = (0..=255_u8).find(|byte| !ids.contains_key(spell(&[*byte]).as_str())) {
        return Err(format!("the token for the byte {byte} is missing").into());
    }
    let (mut merges, mut pairs) = (Vec::new(), Pairs::default());
    for word in &spelled {
        let mut found = pairs.of(word, &ids)?;
        found.sort_by_key(|(left, right)| (ids[left], ids[right]));
        merges.extend(found.into_iter().map(|(left, right)| (left.to_owned(), right.to_owned())));
    }
    let mut vocabulary: Vocab = ids.iter().map(|(word, id)| ((*word).to_owned(), *id)).collect();
    vocabulary.extend(names.iter().cloned().zip(0..));
    let model = BPE::builder().vocab_and_merges::<Vocab>(vocabulary, merges).ignore_merges(true);
    let mut tokenizer = Tokenizer::new(model.build()?);
    let pattern = SplitPattern::Regex(file.config.pattern);
    let words = Split::new(pattern, SplitDelimiterBehavior::Isolated, false)
        .map_err(|error| format!("its `pattern` is not a regular expression: {error}"))?;
    let bytes = ByteLevel::new(false, true, false);
    tokenizer.with_pre_tokenizer(Some(PreTokenizers::new(vec![words.into(), bytes.into()])));
    tokenizer.with_decoder(Some(ByteLevel::new(true, true, true)));
    tokenizer.add_tokens(names.iter().map(|name| AddedToken::from(name.as_str(), true)))?;
    // Files with this vocabulary name classes that have nothing to do with it.
    special.class = None;
    for (name, text) in NAMED.into_iter().filter(|(_, text)| names.iter().any(|name| name == text)) {
        special.set_default(name, text);
    }
    special.settings.add_bos_token.get_or_insert(true);
    Ok(tokenizer)
}

impl Tekken {
    /// The special tokens by id, with names for ids that have none.
    fn special_names(&self) -> Result<Vec<String>, Problem> {
        let count = self.config.default_num_special_tokens;
        if count > MAX_TOKENS {
            return Err(format!("`default_num_special_tokens` is {count}; the limit is {MAX_TOKENS}").into());
        }
        let mut names = match &self.special_tokens {
            None => SPECIAL.map(str::to_owned).to_vec(),
            Some(listed) => {
                let names = listed.iter().enumerate().map(|(id, token)| {
                    (token.rank == id)
                        .then(|| token.token_str.clone())
                        .ok_or_else(|| format!("its special token {id} has the rank {}", token.rank))
                });
                names.collect::<Result<_, _>>()?
            }
        };
        if names.len() > count {
            let problem =
                format!("it has {} special tokens, but `default_num_special_tokens` is {count}", names.len());
            return Err(problem.into());
        }
        let mut known = FxHashSet::default();
        if let Some(name) = names.iter().find(|name| !known.insert(name.as_str())) {
            return Err(format!("it has the special token `{name}` twice").into());
        }
        names.extend((names.len()..count).map(|id| format!("<SPECIAL_{id}>")));
        Ok(names)
    }

    /// The tokens after the special ones, as bytes. Files have more than the model uses.
    fn words(&self, special: usize) -> Result<Vec<Vec<u8>>, Problem> {
        let size = self.config.default_vocab_size;
        let count =
            size.checked_sub(special).filter(|count| *count <= self.vocab.len()).ok_or_else(|| {
                format!(
                    "its `default_vocab_size` is {size}, but it has {special} special and {} other tokens",
                    self.vocab.len()
                )
            })?;
        let words = self.vocab[..count].iter().enumerate().map(|(rank, token)| {
            if token.rank != rank {
                return Err(format!("its token {rank} has the rank {}", token.rank));
            }
            let bytes = STANDARD.decode(&token.token_bytes);
            let bytes = bytes.map_err(|_| format!("its token {rank} is not valid Base64"))?;
            if bytes.len() > LONGEST {
                return Err(format!("its token {rank} has {} bytes; the limit is {LONGEST}", bytes.len()));
            }
            Ok(bytes)
        });
        Ok(words.collect::<Result<_, _>>()?)
    }
}

/// Writes each byte as a letter, as in GPT-2's vocabulary: printable bytes as themselves, others as letters from 256 on.
fn spell(bytes: &[u8]) -> String {
    let is_printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let letters = (0..=255_u8).scan(256_u32, |next, byte| {
        let letter = if is_printable(byte) { u32::from(byte) } else { *next };
        *next += u32::from(!is_printable(byte));
        char::from_u32(letter)
    });
    let letters: Vec<char> = letters.collect();
    bytes.iter().map(|byte| letters[usize::from(*byte)]).collect()
}
