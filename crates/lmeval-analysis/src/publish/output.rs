//! Files that appear complete or not at all, without secrets.

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use fs_err as fs;
use lmeval_core::{Diagnostic, secrets};
use lmeval_pycompat::{Dict, Value, json};
use lmeval_scoring::results::replace_foreign;
use sha2::{Digest as _, Sha256};

use crate::Error;

/// Where the files of a publication go, and what became of them.
#[derive(Debug)]
pub struct Output {
    folder: PathBuf,
    /// The files, in the order in which they were written.
    pub files: Vec<PathBuf>,
    /// What was left out, and what to check before the files are sent anywhere.
    pub notes: Vec<String>,
}

impl Output {
    /// Files below a folder, which is created when it is needed.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), files: Vec::new(), notes: Vec::new() }
    }

    /// Writes a small file.
    pub(super) fn write(&mut self, name: &str, text: &str) -> Result<(), Error> {
        let mut part = self.create(name)?;
        part.text(&secrets::mask_data(text))?;
        part.finish(self)?;
        Ok(())
    }

    /// Opens a file for writing; it gets its name when it is finished.
    pub(super) fn create(&self, name: &str) -> Result<Part, Error> {
        let path = self.folder.join(name);
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(|error| cannot_write(&path, error))?;
        let file_name = path.file_name().unwrap_or_default().to_string_lossy();
        // Another process may publish to the same folder.
        let part = path.with_file_name(format!(".{file_name}.{}.part", std::process::id()));
        let file = fs::File::create(&part).map_err(|error| cannot_write(&path, error))?;
        let file = BufWriter::with_capacity(1 << 16, file);
        Ok(Part { path, hidden: part, file, hash: Sha256::new(), is_finished: false })
    }
}

/// A file that is being written; deleted unless it is finished.
pub(super) struct Part {
    path: PathBuf,
    hidden: PathBuf,
    file: BufWriter<fs::File>,
    hash: Sha256,
    is_finished: bool,
}

impl Part {
    /// Appends text, which must have no secrets.
    pub(super) fn text(&mut self, text: &str) -> Result<(), Error> {
        self.hash.update(text.as_bytes());
        Ok(self.file.write_all(text.as_bytes()).map_err(|error| cannot_write(&self.path, error))?)
    }

    /// Renames the complete file; returns its SHA-256.
    pub(super) fn finish(mut self, output: &mut Output) -> Result<String, Error> {
        let synced = self.file.flush().and_then(|()| self.file.get_ref().sync_all());
        synced
            .and_then(|()| fs::rename(&self.hidden, &self.path))
            .map_err(|error| cannot_write(&self.path, error))?;
        self.is_finished = true;
        output.files.push(self.path.clone());
        Ok(hex(&self.hash.clone().finalize()))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.is_finished {
            // The error that ended the publication is the one to report.
            let _ = fs::remove_file(&self.hidden);
        }
    }
}

/// Strict JSON without secrets: NaN and infinities become null.
pub(super) fn json_text(value: &Value, indent: Option<usize>) -> Result<String, Error> {
    let options = json::Options {
        ensure_ascii: false,
        allow_nan: false,
        indent,
        default: Some(&replace_foreign),
        ..json::Options::default()
    };
    let value = secrets::mask_strings(finite(value), secrets::mask_data);
    json::dumps(&value, &options).map_err(|error| {
        Diagnostic::new("A value of the run cannot be written as JSON").caused_by(error).into()
    })
}

/// Hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |text, byte| text + &format!("{byte:02x}"))
}

fn finite(value: &Value) -> Value {
    match value {
        Value::Float(number) if !number.is_finite() => Value::None,
        Value::List(items) | Value::Tuple(items) | Value::Set(items) => Value::list(items.iter().map(finite)),
        Value::Dict(entries) => {
            let entries: Dict = entries.iter().map(|(key, value)| (key.clone(), finite(value))).collect();
            Value::from(entries)
        }
        other => other.clone(),
    }
}

fn cannot_write(path: &Path, error: std::io::Error) -> Diagnostic {
    Diagnostic::new(format!("Cannot write `{}`", path.display()))
        .caused_by(error)
        .hint("`--output FOLDER` names another folder")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_files_disappear() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut output = Output::new(folder.path());
        let mut part = output.create("deep/a.json").expect("it is created");
        part.text("half").expect("it is written");
        drop(part);
        let names = || fs::read_dir(folder.path().join("deep")).expect("it is there").count();
        assert_eq!(names(), 0);
        output.write("deep/b.json", "whole").expect("it is written");
        assert_eq!((names(), output.files.len()), (1, 1));
    }

    #[test]
    fn json_has_no_nan_and_no_keys() {
        secrets::remember("sk-publish-0123456789abcdef");
        let value = Value::dict([
            ("score", Value::Float(f64::NAN)),
            ("text", Value::str("key sk-publish-0123456789abcdef")),
        ]);
        assert_eq!(json_text(&value, None).expect("it is JSON"), r#"{"score": null, "text": "key ***"}"#);
    }
}
