//! Tokenizers of the Hugging Face format.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};

use lmeval_core::{ModelError, ModelErrorKind, ModelTemplate, guarded};
use lmeval_pycompat::Dict;
use tokenizers::models::ModelWrapper;
use tokenizers::models::bpe::BPE;

use crate::chat::TokenizerTemplate;
use crate::class::names_byte_level;
use crate::rules;
use crate::special::SpecialTokens;

/// The file of a whole tokenizer.
pub(crate) const FILE: &str = "tokenizer.json";
/// The files of its vocabulary and of its merges, which suffice for some classes.
pub(crate) const PARTS: [&str; 2] = ["vocab.json", "merges.txt"];

/// A tokenizer that was read from the files of a folder, or made of a GGUF file.
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
    /// Reads the tokenizer of a folder: its `tokenizer.json`, else `vocab.json` and `merges.txt`.
    pub fn from_folder(folder: &Path) -> Result<Self, ModelError> {
        // The library panics on some malformed files.
        guarded(|| Self::read_folder(folder)).unwrap_or_else(|panic| {
            let file = folder.join(FILE);
            let place = if file.is_file() { file } else { folder.to_owned() };
            let message = format!("The tokenizer `{}` cannot be used: {panic}", place.display());
            Err(ModelError::new(ModelErrorKind::Configuration, message)
                .hint("The file is malformed; download it again"))
        })
    }

    fn read_folder(folder: &Path) -> Result<Self, ModelError> {
        let path = folder.join(FILE);
        let has_file = path.is_file();
        let place = if has_file { path.as_path() } else { folder };
        let broken = |problem: String| {
            let message = format!("The tokenizer `{}` cannot be used: {problem}", place.display());
            ModelError::new(ModelErrorKind::Configuration, message)
        };
        let failed = |error: tokenizers::Error| broken(error.to_string());
        let (read, mut special) = if has_file {
            let bytes = fs_err::read(&path).map_err(|error| broken(error.to_string()))?;
            let special = SpecialTokens::read(folder, names_byte_level(&bytes))?;
            (tokenizers::Tokenizer::from_bytes(bytes).map_err(failed)?, special)
        } else {
            let special = SpecialTokens::read(folder, false)?;
            (of_parts(folder, &special)?, special)
        };
        let mut tokenizer = rules::apply(read, &special).map_err(failed)?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(failed)?;
        // Reference: byte-pair tokenizers keep their blanks, whatever their files say.
        special.clean_up &= !matches!(tokenizer.get_model(), ModelWrapper::BPE(_));
        let known: HashSet<String> =
            tokenizer.get_added_tokens_decoder().into_values().map(|token| token.content).collect();
        let unknown = special.added.iter().filter(|token| !known.contains(&token.content));
        tokenizer.add_tokens(unknown.cloned()).map_err(failed)?;
        rules::add_frame(&mut tokenizer, &special, has_file).map_err(failed)?;
        Ok(Self { folder: folder.to_owned(), tokenizer, special, templates: None })
    }

    /// A tokenizer that was made of a single file.
    pub(crate) fn from_parts(
        file: PathBuf,
        tokenizer: tokenizers::Tokenizer,
        special: SpecialTokens,
        templates: Vec<(String, String)>,
    ) -> Self {
        Self { folder: file, tokenizer, special, templates: Some(templates) }
    }

    /// The tokens of a text; `special` asks for those that the tokenizer puts around one.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, ModelError> {
        let encoded = self.guarded("text", "tokens", || self.tokenizer.encode_fast(text, special))?;
        let encoding = encoded.map_err(|error| {
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
        let decoded = self.guarded("tokens", "text", || self.tokenizer.decode(tokens, skip_special))?;
        let text = decoded.map_err(|error| {
            ModelError::new(
                ModelErrorKind::Request,
                format!("The tokens cannot be turned into text: {error}"),
            )
        })?;
        Ok(if self.special.clean_up { clean_up(text) } else { text })
    }

    /// Runs a part of the library, which panics where a malformed file has got past its reader.
    fn guarded<T>(&self, from: &str, to: &str, work: impl FnOnce() -> T) -> Result<T, ModelError> {
        guarded(work).map_err(|panic| {
            let place = self.folder.display();
            let message = format!("The tokenizer `{place}` cannot turn {from} into {to}: {panic}");
            ModelError::new(ModelErrorKind::Configuration, message)
                .hint("The tokenizer's file is malformed; download it again")
        })
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
            return crate::gguf::template(&self.folder, templates, name, known);
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

/// The vocabulary and the merges of a folder without `tokenizer.json`.
fn of_parts(folder: &Path, special: &SpecialTokens) -> Result<tokenizers::Tokenizer, ModelError> {
    let shown = folder.display();
    let problem = |message: String| {
        ModelError::new(ModelErrorKind::Configuration, message)
            .hint("Give the model's tokenizer as `tokenizer=<name on the hub or folder>`")
            .hint("Or run the model in Python: `--model lm_eval:hf`")
    };
    let paths = PARTS.map(|name| folder.join(name));
    if let Some(place) = paths.iter().position(|path| !path.is_file()) {
        let message = format!("`{shown}` has neither the tokenizer `{FILE}` nor `{}`", PARTS[place]);
        return Err(problem(message));
    }
    if !special.class.is_some_and(|class| class.rules.is_byte_level()) {
        return Err(problem(format!(
            "`{shown}` has no `{FILE}`, and its class of tokenizer is none that `{}` and `{}` suffice for",
            PARTS[0], PARTS[1]
        )));
    }
    let [vocabulary, merges] = paths.map(|path| path.to_string_lossy().into_owned());
    let model = BPE::from_file(&vocabulary, &merges).build();
    let model =
        model.map_err(|error| problem(format!("The tokenizer in `{shown}` cannot be used: {error}")))?;
    Ok(tokenizers::Tokenizer::new(model))
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
