//! Tokenizers of the Hugging Face format.

use std::fmt;
use std::path::{Path, PathBuf};

use lmeval_core::{ModelError, ModelErrorKind, ModelTemplate};
use lmeval_pycompat::Dict;
use tokenizers::models::ModelWrapper;

use super::chat::TokenizerTemplate;
use super::class::with_blank;
use super::special::SpecialTokens;

/// A tokenizer that was read from a folder with `tokenizer.json`, or made of a GGUF file.
///
/// Texts are encoded whole: nothing is cut off or filled up, whatever the files say.
pub struct HuggingFaceTokenizer {
    folder: PathBuf,
    tokenizer: tokenizers::Tokenizer,
    special: SpecialTokens,
    /// The chat templates by name, where they are not in the folder's files.
    templates: Option<Vec<(String, String)>>,
}

impl fmt::Debug for HuggingFaceTokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HuggingFaceTokenizer").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// A special token: its text, and its number where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecialToken<'a> {
    /// How it is written.
    pub text: &'a str,
    /// Its number.
    pub id: Option<u32>,
}

impl HuggingFaceTokenizer {
    /// Reads the tokenizer of a folder.
    pub fn from_folder(folder: &Path) -> Result<Self, ModelError> {
        let path = folder.join("tokenizer.json");
        let broken = |problem: String| {
            let message = format!("The tokenizer `{}` cannot be used: {problem}", path.display());
            ModelError::new(ModelErrorKind::Configuration, message)
        };
        let mut bytes = fs_err::read(&path).map_err(|error| broken(error.to_string()))?;
        let mut special = SpecialTokens::read(folder);
        if let Some(scheme) = special.blank {
            bytes = with_blank(bytes, scheme);
        }
        let mut tokenizer =
            tokenizers::Tokenizer::from_bytes(bytes).map_err(|error| broken(error.to_string()))?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|error| broken(error.to_string()))?;
        // Reference: byte-pair tokenizers keep their blanks, whatever their files say.
        special.clean_up &= !matches!(tokenizer.get_model(), ModelWrapper::BPE(_));
        let known = tokenizer.get_added_tokens_decoder();
        let unknown =
            special.added.iter().filter(|token| known.values().all(|known| known.content != token.content));
        // One after the other: the order of their numbers is the order of the files.
        for token in unknown {
            let added = if token.special {
                tokenizer.add_special_tokens([token.clone()])
            } else {
                tokenizer.add_tokens([token.clone()])
            };
            added.map_err(|error| broken(error.to_string()))?;
        }
        Ok(Self { folder: folder.to_owned(), tokenizer, special, templates: None })
    }

    /// A tokenizer that was made of a single file.
    pub(super) fn from_parts(
        file: PathBuf,
        tokenizer: tokenizers::Tokenizer,
        special: SpecialTokens,
        templates: Vec<(String, String)>,
    ) -> Self {
        Self { folder: file, tokenizer, special, templates: Some(templates) }
    }

    /// The tokens of a text; `special` asks for those that the tokenizer puts around one.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, ModelError> {
        let encoding = self.tokenizer.encode_fast(text, special).map_err(|error| {
            ModelError::new(
                ModelErrorKind::Request,
                format!("The text cannot be turned into tokens: {error}"),
            )
        })?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The text of tokens, special ones included.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, ModelError> {
        self.text_of(tokens, false)
    }

    /// The text of tokens without the special ones.
    pub fn decode_plain(&self, tokens: &[u32]) -> Result<String, ModelError> {
        self.text_of(tokens, true)
    }

    fn text_of(&self, tokens: &[u32], skip_special: bool) -> Result<String, ModelError> {
        let text = self.tokenizer.decode(tokens, skip_special).map_err(|error| {
            ModelError::new(
                ModelErrorKind::Request,
                format!("The tokens cannot be turned into text: {error}"),
            )
        })?;
        Ok(if self.special.clean_up { clean_up(text) } else { text })
    }

    /// A special token by its name, such as `eos_token`.
    pub fn special_token(&self, name: &str) -> Option<SpecialToken<'_>> {
        let text = self.special.text(name)?;
        Some(SpecialToken { text, id: self.tokenizer.token_to_id(text) })
    }

    /// The number of tokens, without those that were added to it.
    pub fn vocabulary_size(&self) -> usize {
        self.tokenizer.get_vocab_size(false)
    }

    /// The token that texts are filled up with, where the tokenizer itself has none.
    pub fn padding(&self) -> (String, u32) {
        for name in ["pad_token", "unk_token", "eos_token"] {
            if let Some(SpecialToken { text, id: Some(id) }) = self.special_token(name) {
                return (text.to_owned(), id);
            }
        }
        ("<|pad|>".into(), self.tokenizer.get_vocab_size(true) as u32)
    }

    /// The chat template: the one with the name, else the default one.
    pub fn chat_template(&self, name: Option<&str>) -> Result<ModelTemplate, ModelError> {
        self.chat_template_with(name, &Dict::new())
    }

    /// The same with further variables for the template, which win over special tokens of their names.
    pub fn chat_template_with(
        &self,
        name: Option<&str>,
        variables: &Dict,
    ) -> Result<ModelTemplate, ModelError> {
        let mut known = self.special.named.clone();
        known.update(variables);
        if let Some(templates) = &self.templates {
            return super::gguf::template(&self.folder, templates, name, known);
        }
        let mut template = TokenizerTemplate::read(&self.folder, name)?;
        template.set_variables(known);
        Ok(template.into_model_template())
    }

    /// The folder or the file that the tokenizer was read from.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Removes blanks before punctuation and English contractions.
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
