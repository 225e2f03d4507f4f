//! Tokenizers in the Hugging Face format.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};

use lmeval_core::{ModelError, ModelErrorKind, ModelTemplate, TokenEnds, guarded};
use lmeval_pycompat::{Dict, Value};
use tokenizers::models::ModelWrapper;
use tokenizers::models::bpe::BPE;

use crate::chat::TokenizerTemplate;
use crate::class::names_byte_level;
use crate::pipeline;
use crate::special::{SpecialTokens, read_object};

/// The complete tokenizer in one file.
pub(crate) const FILE: &str = "tokenizer.json";
/// The vocabulary and merges, which are sufficient for some classes.
pub(crate) const PARTS: [&str; 2] = ["vocab.json", "merges.txt"];
/// Tokens that older versions of `transformers` saved outside the vocabulary.
pub(crate) const ADDED_TOKENS: &str = "added_tokens.json";

/// How many tokens are decoded together with the next one.
const CONTEXT: usize = 8;

/// A tokenizer read from a folder or built from a GGUF file.
///
/// It never truncates or pads, whatever the files say.
pub struct HuggingFaceTokenizer {
    folder: PathBuf,
    tokenizer: tokenizers::Tokenizer,
    special: SpecialTokens,
    /// Chat templates by name, if they are not files in the folder.
    templates: Option<Vec<(String, String)>>,
}

impl fmt::Debug for HuggingFaceTokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HuggingFaceTokenizer").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// A special token. It has no id if the vocabulary does not contain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecialToken<'a> {
    /// The content, such as `</s>`.
    pub text: &'a str,
    /// The token id.
    pub id: Option<u32>,
}

impl HuggingFaceTokenizer {
    /// Reads a folder's `tokenizer.json`, or else its `vocab.json` and `merges.txt`.
    pub fn from_folder(folder: &Path) -> Result<Self, ModelError> {
        // The `tokenizers` crate panics on some malformed files.
        guarded(|| Self::read_folder(folder)).unwrap_or_else(|panic| {
            let file = folder.join(FILE);
            let path = if file.is_file() { file } else { folder.to_owned() };
            let message = format!("Cannot load the tokenizer `{}`: {panic}", path.display());
            Err(ModelError::new(ModelErrorKind::Configuration, message)
                .hint("The file is malformed; download it again"))
        })
    }

    fn read_folder(folder: &Path) -> Result<Self, ModelError> {
        let path = folder.join(FILE);
        let has_file = path.is_file();
        let shown = if has_file { path.as_path() } else { folder };
        let broken = |problem: String| {
            let message = format!("Cannot load the tokenizer `{}`: {problem}", shown.display());
            ModelError::new(ModelErrorKind::Configuration, message)
        };
        let failed = |error: tokenizers::Error| broken(error.to_string());
        let (read, mut special) = if has_file {
            let bytes = fs_err::read(&path).map_err(|error| broken(error.to_string()))?;
            let special = SpecialTokens::read(folder, names_byte_level(&bytes))?;
            check_normalizer(&bytes).map_err(broken)?;
            let read = tokenizers::Tokenizer::from_bytes(&bytes).map_err(failed)?;
            check_ids(&read, &bytes).map_err(|problem| {
                broken(problem).hint("Save the tokenizer again, or download the file again if it is damaged")
            })?;
            (read, special)
        } else {
            let special = SpecialTokens::read(folder, false)?;
            (read_parts(folder, &special)?, special)
        };
        let mut tokenizer = pipeline::apply(read, &special).map_err(failed)?;
        if let ModelWrapper::BPE(model) = tokenizer.get_model()
            && let Some(dropout) = model.dropout.filter(|dropout| *dropout > 0.0)
        {
            let problem = format!(
                "it drops merges at random (`dropout` is {dropout}), so that no score could be repeated"
            );
            return Err(broken(problem).hint("Set `model.dropout` to `null` in the file"));
        }
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(failed)?;
        // Reference: BPE tokenizers ignore `clean_up_tokenization_spaces`.
        special.clean_up &= !matches!(tokenizer.get_model(), ModelWrapper::BPE(_));
        let known: HashSet<String> =
            tokenizer.get_added_tokens_decoder().into_values().map(|token| token.content).collect();
        let unknown = special.added.iter().filter(|token| !known.contains(&token.content));
        tokenizer.add_tokens(unknown.cloned()).map_err(failed)?;
        pipeline::add_post_processor(&mut tokenizer, &special, has_file).map_err(failed)?;
        Ok(Self { folder: folder.to_owned(), tokenizer, special, templates: None })
    }

    /// A tokenizer built from a single file.
    pub(crate) fn from_parts(
        file: PathBuf,
        tokenizer: tokenizers::Tokenizer,
        special: SpecialTokens,
        templates: Vec<(String, String)>,
    ) -> Self {
        Self { folder: file, tokenizer, special, templates: Some(templates) }
    }

    /// Encodes a string. `special` adds the special tokens of the tokenizer's post-processor.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, ModelError> {
        let encoding = self.guarded("encode", || self.tokenizer.encode_fast(text, special))?;
        Ok(encoding.map_err(|error| cannot_encode(&error))?.get_ids().to_vec())
    }

    /// The number of bytes that each token of a string takes. A character of several tokens counts for the last of them.
    pub fn lengths(&self, text: &str) -> Result<Vec<usize>, ModelError> {
        let encoding = self.guarded("encode", || self.tokenizer.encode(text, false))?;
        let encoding = encoding.map_err(|error| cannot_encode(&error))?;
        let offsets = encoding.get_offsets();
        let next = offsets.iter().skip(1).map(|(start, _)| *start).chain([text.len()]);
        let mut reached = 0;
        let lengths = next.map(|end| {
            let length = end.saturating_sub(reached);
            reached += length;
            length
        });
        Ok(lengths.collect())
    }

    /// Decodes tokens, including special ones.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, ModelError> {
        self.decode_with(tokens, false)
    }

    /// Decodes tokens, skipping special ones.
    pub fn decode_plain(&self, tokens: &[u32]) -> Result<String, ModelError> {
        self.decode_with(tokens, true)
    }

    /// Where the text that [`decode_plain`](Self::decode_plain) gives ends after each token.
    pub fn ends(&self, tokens: &[u32]) -> Result<TokenEnds, ModelError> {
        let mut ends = Vec::with_capacity(tokens.len());
        // Decoding a token depends on the ones before it, but not on many.
        let (mut from, mut known) = (0, 0);
        let mut shown = 0;
        for count in 1..=tokens.len() {
            let text = self.decode_plain(&tokens[from..count])?;
            let sound = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
            let broken = text[sound.len()..].chars().count();
            let length = sound.len().saturating_sub(shown);
            ends.push((length, broken));
            shown += length;
            if broken == 0 && count - known >= CONTEXT {
                shown = self.decode_plain(&tokens[known..count])?.len();
                (from, known) = (known, count);
            }
        }
        Ok(TokenEnds::new(ends))
    }

    fn decode_with(&self, tokens: &[u32], skip_special: bool) -> Result<String, ModelError> {
        let decoded = self.guarded("decode", || self.tokenizer.decode(tokens, skip_special))?;
        let text = decoded.map_err(|error| {
            ModelError::new(ModelErrorKind::Request, format!("Cannot decode the tokens: {error}"))
        })?;
        Ok(if self.special.clean_up { clean_up(text) } else { text })
    }

    /// Catches panics of the `tokenizers` crate, which accepts some malformed files and panics later.
    fn guarded<T>(&self, operation: &str, work: impl FnOnce() -> T) -> Result<T, ModelError> {
        guarded(work).map_err(|panic| {
            let folder = self.folder.display();
            let message = format!("The tokenizer `{folder}` failed to {operation}: {panic}");
            ModelError::new(ModelErrorKind::Configuration, message)
                .hint("The tokenizer file is malformed; download it again")
        })
    }

    /// A special token by name, such as `eos_token`.
    pub fn special_token(&self, name: &str) -> Option<SpecialToken<'_>> {
        let text = self.special.text(name)?;
        Some(SpecialToken { text, id: self.tokenizer.token_to_id(text) })
    }

    /// The vocabulary size without added tokens.
    pub fn vocabulary_size(&self) -> usize {
        self.tokenizer.get_vocab_size(false)
    }

    /// The padding token and its id, with the reference's fallbacks for tokenizers without one.
    pub fn padding(&self) -> (String, u32) {
        for name in ["pad_token", "unk_token", "eos_token"] {
            if let Some(SpecialToken { text, id: Some(id) }) = self.special_token(name) {
                return (text.to_owned(), id);
            }
        }
        ("<|pad|>".into(), self.tokenizer.get_vocab_size(true) as u32)
    }

    /// The chat template `name`; without a name, the default.
    pub fn chat_template(&self, name: Option<&str>) -> Result<ModelTemplate, ModelError> {
        self.chat_template_with(name, &Dict::new())
    }

    /// Like [`chat_template`](Self::chat_template), with additional variables that override special tokens.
    pub fn chat_template_with(
        &self,
        name: Option<&str>,
        variables: &Dict,
    ) -> Result<ModelTemplate, ModelError> {
        let mut known = self.special.named.clone();
        known.update(variables);
        if let Some(templates) = &self.templates {
            return crate::gguf::template(&self.folder, templates, name, known);
        }
        let mut template = TokenizerTemplate::read(&self.folder, name)?;
        template.set_variables(known);
        Ok(template.into_model_template())
    }

    /// The folder or file the tokenizer was read from.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

fn cannot_encode(error: &tokenizers::Error) -> ModelError {
    ModelError::new(ModelErrorKind::Request, format!("Cannot encode the text: {error}"))
}

/// Refuses a vocabulary with two tokens of one id, and added tokens that do not get the id that the file gives them: the
/// library only warns that it chose another one, which belongs to another row of the embedding.
fn check_ids(tokenizer: &tokenizers::Tokenizer, file: &[u8]) -> Result<(), String> {
    let mut known: HashMap<u32, String> = HashMap::new();
    for (token, id) in tokenizer.get_vocab(false) {
        if let Some(other) = known.insert(id, token.clone()) {
            let (first, second) = if other < token { (other, token) } else { (token, other) };
            return Err(format!("the tokens `{first}` and `{second}` have the same id {id}"));
        }
    }
    // Tokens of these names have a number for their value.
    let lists = values_of(file, "added_tokens").filter_map(|value| match value {
        serde_json::Value::Array(tokens) => Some(tokens),
        _ => None,
    });
    for token in lists.flatten() {
        let content = token.get("content").and_then(serde_json::Value::as_str).unwrap_or_default();
        let id = token.get("id").and_then(serde_json::Value::as_u64);
        if let (Some(id), Some(own)) = (id, tokenizer.token_to_id(content))
            && u64::from(own) != id
        {
            return Err(format!("the added token `{content}` has the id {id}, but would become {own}"));
        }
    }
    Ok(())
}

/// Refuses a normaliser whose table is longer than its data: the library reserves memory for it before it reads it.
fn check_normalizer(file: &[u8]) -> Result<(), String> {
    for value in values_of(file, "precompiled_charsmap") {
        let Some(text) = value.as_str() else { continue };
        if first_number(text).is_none_or(|length| length as usize > text.len()) {
            return Err("the table `precompiled_charsmap` of its normaliser is damaged".to_owned());
        }
    }
    Ok(())
}

/// The little-endian number in the first four bytes of a Base64 string.
fn first_number(text: &str) -> Option<u32> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.as_bytes().get(..6)?.iter().map(|byte| DIGITS.iter().position(|digit| digit == byte));
    let bits =
        digits.collect::<Option<Vec<_>>>()?.into_iter().fold(0_u64, |bits, digit| bits << 6 | digit as u64);
    Some(((bits >> 4) as u32).swap_bytes())
}

/// The values of a key anywhere in a JSON file, without reading the rest of a file that may have many megabytes.
fn values_of<'f>(file: &'f [u8], key: &str) -> impl Iterator<Item = serde_json::Value> + 'f {
    let name = format!("\"{key}\"").into_bytes();
    let length = name.len();
    let starts =
        (0..file.len()).filter(move |start| file[*start] == b'"' && file[*start..].starts_with(&name));
    starts.filter_map(move |start| {
        let value = file[start + length..].trim_ascii_start().strip_prefix(b":")?;
        serde_json::Deserializer::from_slice(value).into_iter().next()?.ok()
    })
}

/// Reads `vocab.json` and `merges.txt` of a folder without `tokenizer.json`.
fn read_parts(folder: &Path, special: &SpecialTokens) -> Result<tokenizers::Tokenizer, ModelError> {
    let shown = folder.display();
    let problem = |message: String| {
        ModelError::new(ModelErrorKind::Unsupported, message)
            .hint("Set the model's tokenizer with `tokenizer=<name on the hub or folder>`")
    };
    let paths = PARTS.map(|name| folder.join(name));
    if let Some(index) = paths.iter().position(|path| !path.is_file()) {
        let message = format!("`{shown}` has neither the tokenizer `{FILE}` nor `{}`", PARTS[index]);
        return Err(problem(message));
    }
    if !special.class.is_some_and(|class| class.scheme.is_byte_level()) {
        return Err(problem(format!(
            "`{shown}` has no `{FILE}`, and its tokenizer class cannot be built from `{}` and `{}` alone",
            PARTS[0], PARTS[1]
        )));
    }
    let [vocabulary, merges] = paths.map(|path| path.to_string_lossy().into_owned());
    let model = BPE::from_file(&vocabulary, &merges).build();
    let model = model.map_err(|error| problem(format!("Cannot load the tokenizer in `{shown}`: {error}")))?;
    let tokenizer = tokenizers::Tokenizer::new(model);
    let is_known = |token: &str| {
        tokenizer.token_to_id(token).is_some() || special.added.iter().any(|known| known.content == token)
    };
    let added = if special.are_declared { Dict::new() } else { read_object(&folder.join(ADDED_TOKENS))? };
    if let Some(token) = added.keys().filter_map(Value::as_str).find(|token| !is_known(token)) {
        return Err(problem(format!(
            "`{shown}` has no `{FILE}`, and the token `{token}` of `{ADDED_TOKENS}` is not in `{}`",
            PARTS[0]
        )));
    }
    Ok(tokenizer)
}

/// Removes spaces before punctuation and English contractions.
fn clean_up(text: String) -> String {
    const PAIRS: [(&str, &str); 10] = [
        (" .", "."),
        (" ?", "?"),
        (" !", "!"),
        (" ,", ","),
        (" ' ", "'"),
        (" n't", "n't"),
        (" 'm", "'m"),
        (" 's", "'s"),
        (" 've", "'ve"),
        (" 're", "'re"),
    ];
    PAIRS
        .iter()
        .fold(text, |text, (from, to)| if text.contains(from) { text.replace(from, to) } else { text })
}
