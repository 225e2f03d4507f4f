//! Small versions of the images and sounds of a samples file, in a file beside it that the viewer reads.

use std::collections::HashSet;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use fs_err as fs;
use lmeval_media::preview;
use lmeval_pycompat::{Media, Value};
use lmeval_scoring::results::SampleRecord;

use crate::error::ReportError;

/// Writes a line for each image and sound of the records: its SHA-256 and a `data:` address. The file exists only if there are
/// any.
#[derive(Debug)]
pub(crate) struct Previews {
    part: PathBuf,
    file: Option<BufWriter<fs::File>>,
    seen: HashSet<[u8; 32]>,
}

impl Previews {
    /// The previews of a samples file that is being written.
    pub(crate) fn beside(samples: &Path) -> Self {
        Self { part: sibling(samples), file: None, seen: HashSet::new() }
    }

    /// Adds the files of a record that are new.
    pub(crate) fn add(&mut self, record: &SampleRecord) -> Result<(), ReportError> {
        for value in record.doc.values() {
            self.add_value(value)?;
        }
        self.add_value(&record.arguments)
    }

    fn add_value(&mut self, value: &Value) -> Result<(), ReportError> {
        match value {
            Value::Media(media) => self.add_media(media),
            Value::List(items) | Value::Tuple(items) => {
                items.iter().try_for_each(|item| self.add_value(item))
            }
            Value::Dict(dict) => dict.values().try_for_each(|item| self.add_value(item)),
            _ => Ok(()),
        }
    }

    fn add_media(&mut self, media: &Media) -> Result<(), ReportError> {
        // A file that cannot be read was an error before.
        let Ok(digest) = media.digest() else { return Ok(()) };
        if !self.seen.insert(digest) {
            return Ok(());
        }
        let Some(url) = preview(media) else { return Ok(()) };
        let failed = ReportError::write("write", &self.part);
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let created =
                    fs::File::create(&self.part).map_err(ReportError::write("write", &self.part))?;
                // Not every file system has locks.
                let _ = created.file().try_lock();
                self.file.insert(BufWriter::new(created))
            }
        };
        let digest = media.digest_text();
        writeln!(file, "{{\"sha256\": \"{digest}\", \"url\": \"{url}\"}}").map_err(failed)
    }

    /// Puts the complete file beside the samples file.
    pub(crate) fn finish(self, samples: &Path) -> Result<(), ReportError> {
        let path = sibling(samples);
        let Some(mut file) = self.file else {
            return Ok(());
        };
        file.flush().map_err(ReportError::write("write", &self.part))?;
        fs::rename(&self.part, &path).map_err(ReportError::write("write", &path))
    }

    /// Deletes the file.
    pub(crate) fn discard(self) -> Result<(), ReportError> {
        match self.file {
            Some(_) => fs::remove_file(&self.part).map_err(ReportError::write("remove", &self.part)),
            None => Ok(()),
        }
    }
}

/// The path with `media_` in place of `samples_`.
fn sibling(samples: &Path) -> PathBuf {
    let name = samples.file_name().unwrap_or_default().to_string_lossy();
    samples.with_file_name(name.replacen("samples_", "media_", 1))
}
