//! YAML settings files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use lmeval_core::{Diagnostic, nearest, secrets};
use lmeval_pycompat::yaml::{self, Marks};
use lmeval_pycompat::{Dict, Value, repr};
use lmeval_tasks::source::SourceFile;
use lmeval_tasks::{Error, ErrorKind, Location};

use super::layer::Layer;
use super::options::Options;
use super::resolve::DATA_SETTINGS;

/// A settings file with the source position of each setting.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    /// The settings as written, unchecked except for their names.
    pub dict: Dict,
    file: Arc<SourceFile>,
    marks: Marks,
}

/// Registers the secrets of a file for masking.
fn learn(settings: &Value) {
    match settings {
        Value::Dict(dict) => {
            let is_data = |name: &Value| name.as_str().is_some_and(|name| DATA_SETTINGS.contains(&name));
            let settings = dict.iter().filter(|(name, _)| !is_data(name));
            secrets::learn(
                &settings.map(|(name, value)| (name.clone(), value.clone())).collect::<Dict>().into(),
            );
        }
        other => secrets::learn(other),
    }
}

impl ConfigFile {
    /// Reads a file and checks the names in it; values are checked where they are used.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let bytes = fs_err::read(path).map_err(|error| {
            Diagnostic::cannot_read(path, error)
                .hint("`--config` names a YAML file with one setting per line")
        })?;
        // Excerpts in messages must not show keys, even if the file cannot be parsed.
        let text = secrets::hide_secret_lines(&yaml::decode_lossy(&bytes));
        let loaded = yaml::load_bytes(&bytes).map_err(|error| {
            secrets::learn_from_text(&yaml::decode_lossy(&bytes));
            let file = source_file(path, &text, Marks::default());
            let position = error.position();
            let range = position.offset..position.offset;
            let line = position.line as usize + 1;
            Error::new(
                ErrorKind::Yaml,
                format!("`{}` is not valid YAML: {}", path.display(), error.message()),
            )
            .at(Some(file.location(range, line)))
        })?;
        learn(&loaded.value);
        let Value::Dict(dict) = &loaded.value else {
            let what = if loaded.value.is_none() { "is empty" } else { "is not a mapping" };
            return Err(Error::new(ErrorKind::Type, format!("`{}` {what}", path.display()))
                .hint("A settings file has one setting per line, such as `model: ngram`")
                .into());
        };
        let file = source_file(path, &text, loaded.marks.clone());
        let read = Self { dict: Dict::clone(dict), file, marks: loaded.marks };
        read.check_names()?;
        Ok(read)
    }

    fn check_names(&self) -> Result<()> {
        let mut known = Options::names("");
        known.retain(|name| *name != "config");
        for key in self.dict.keys() {
            let name = repr::str(key);
            if !known.contains(&name.as_str()) {
                let error = Error::new(ErrorKind::Type, format!("Unknown setting `{name}`"));
                let near = nearest(&name, known.iter().copied());
                let error = if near.is_empty() {
                    error.hint("Settings have the names of the long flags of `lm-eval run`, with `_` for `-`")
                } else {
                    error.did_you_mean(&near)
                };
                return Err(error.at(self.locate(&name)).into());
            }
        }
        Ok(())
    }

    /// The settings of the file that no higher layer gives.
    pub(super) fn layer(&self, given: &Dict) -> Result<Options> {
        let own =
            self.dict.iter().filter(|(name, _)| name.as_str().is_none_or(|name| !given.contains_str(name)));
        let own: Dict = own.map(|(name, value)| (name.clone(), value.clone())).collect();
        Options::read("", &own).map_err(|(name, wrong)| {
            let message = wrong.message(name, own.get_str(name).unwrap_or(&Value::None));
            Error::new(ErrorKind::Type, message).at(self.locate(name)).into()
        })
    }

    /// The location of a setting in the file.
    fn locate(&self, name: &str) -> Option<Location> {
        let mark = self.marks.find(&[name.into()])?;
        let span = mark.key.unwrap_or(mark.value);
        Some(self.file.location(span.range(), span.start.line as usize + 1))
    }
}

fn source_file(path: &Path, text: &str, marks: Marks) -> Arc<SourceFile> {
    Arc::new(SourceFile::new(PathBuf::from(path), PathBuf::from(path), text, marks))
}
