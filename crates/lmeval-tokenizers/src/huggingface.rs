//! Tokenizers in the Hugging Face format.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};

use lmeval_core::{ModelError, ModelErrorKind, ModelTemplate, TokenEnds, guarded};
use lmeval_pycompat::Dict;
use tokenizers::models::ModelWrapper;

use crate::chat::TokenizerTemplate;
use crate::formats::{Format, OTHER_TOKENIZER, Problem};
use crate::pipeline;
use crate::special::SpecialTokens;

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
    /// Reads a folder's tokenizer in the first format that it has.
    pub fn from_folder(folder: &Path) -> Result<Self, ModelError> {
        let Some(format) = Format::find(|file| folder.join(file).is_file()) else {
            let message = format!("`{}` has {}", folder.display(), Format::lacking());
            return Err(ModelError::new(ModelErrorKind::Unsupported, message).hint(OTHER_TOKENIZER));
        };
        // The `tokenizers` crate panics on some malformed files.
        guarded(|| Self::read(folder, format)).unwrap_or_else(|panic| {
            let path = folder.join(format.files[0]);
            let message = format!("Cannot load the tokenizer `{}`: {panic}", path.display());
            Err(ModelError::new(ModelErrorKind::Configuration, message)
                .hint("The file is malformed; download it again"))
        })
    }

    fn read(folder: &Path, format: &Format) -> Result<Self, ModelError> {
        let path = folder.join(format.files[0]);
        let failed = |error: tokenizers::Error| Problem::from(error).at(&path);
        let (read, mut special) = format.read(folder)?;
        let mut tokenizer = pipeline::apply(read, &special).map_err(failed)?;
        if let ModelWrapper::BPE(model) = tokenizer.get_model()
            && let Some(dropout) = model.dropout.filter(|dropout| *dropout > 0.0)
        {
            let message = format!(
                "Cannot load the tokenizer `{}`: it drops merges at random (`dropout` is {dropout}), so that no score could \
                 be repeated",
                path.display()
            );
            return Err(ModelError::new(ModelErrorKind::Configuration, message)
                .hint("Set `model.dropout` to `null` in the file"));
        }
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(failed)?;
        // Reference: BPE tokenizers ignore `clean_up_tokenization_spaces`.
        special.clean_up &= !matches!(tokenizer.get_model(), ModelWrapper::BPE(_));
        let known: HashSet<String> =
            tokenizer.get_added_tokens_decoder().into_values().map(|token| token.content).collect();
        let unknown = special.added.iter().filter(|token| !known.contains(&token.content));
        tokenizer.add_tokens(unknown.cloned()).map_err(failed)?;
        pipeline::add_post_processor(&mut tokenizer, &special, format.is_complete()).map_err(failed)?;
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
