//! The answered documents of a task, from all shards.

use std::io::{BufRead as _, BufReader};

use fs_err as fs;
use lmeval_core::{Diagnostic, DocId};
use lmeval_engine::{DocumentCounts, EngineError, StoredDocuments, decode_answered};
use lmeval_pycompat::json::Decoder;
use lmeval_scoring::scorers::AnsweredDocument;
use sha2::{Digest as _, Sha256};

use super::shard::{Shard, TaskFile};
use crate::run::shard::hex;

/// The documents of a task in order, read from all shards at the same time.
pub(super) fn of_task<'a>(shards: &'a [Shard], task: &str) -> Result<StoredDocuments<'a>, EngineError> {
    let mut readers = Vec::with_capacity(shards.len());
    let mut counts = DocumentCounts::default();
    for shard in shards {
        let Some(file) = shard.task(task) else {
            let message = format!("`{}` has no answers to the task `{task}`", shard.folder.display());
            let hint = "The task may have been renamed since; use its old name";
            return Err(Diagnostic::new(message).hint(hint).into());
        };
        counts = DocumentCounts { built: counts.built + file.built, original: file.original, digest: None };
        let mut reader = Reader::open(file)?;
        if let Some(next) = reader.read()? {
            readers.push((next, reader));
        }
    }
    // The next document is that of the last reader.
    readers.sort_by_key(|(next, _)| std::cmp::Reverse(next.doc_id));
    Ok(StoredDocuments { counts, documents: Box::new(Documents { readers, last: None }) })
}

/// Merges files that are sorted by document.
struct Documents<'a> {
    /// The files with their next documents, largest id first.
    readers: Vec<(AnsweredDocument, Reader<'a>)>,
    last: Option<DocId>,
}

impl Iterator for Documents<'_> {
    type Item = Result<AnsweredDocument, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (document, mut reader) = self.readers.pop()?;
        if self.last.is_some_and(|last| last >= document.doc_id) {
            self.readers.clear();
            let message = format!("is damaged: document {} occurs twice or out of order", document.doc_id);
            return Some(Err(reader.error(&message)));
        }
        self.last = Some(document.doc_id);
        match reader.read() {
            Ok(None) => {}
            Ok(Some(next)) => {
                let index = self.readers.partition_point(|(other, _)| other.doc_id > next.doc_id);
                self.readers.insert(index, (next, reader));
            }
            Err(error) => {
                self.readers.clear();
                return Some(Err(error));
            }
        }
        Some(Ok(document))
    }
}

/// Reads one file.
struct Reader<'a> {
    file: &'a TaskFile,
    lines: BufReader<fs::File>,
    line: String,
    /// The number of documents read.
    read: usize,
    /// The hash of everything read.
    hash: Sha256,
    decoder: Decoder,
}

impl<'a> Reader<'a> {
    fn open(file: &'a TaskFile) -> Result<Self, EngineError> {
        let opened = fs::File::open(&file.path).map_err(|error| {
            EngineError::from(
                Diagnostic::new("Cannot read the answers of a shard")
                    .caused_by(error)
                    .hint("Run the command of the shard again; its answers are saved"),
            )
        })?;
        let lines = BufReader::with_capacity(1 << 16, opened);
        Ok(Self { file, lines, line: String::new(), read: 0, hash: Sha256::new(), decoder: Decoder::new() })
    }

    fn read(&mut self) -> Result<Option<AnsweredDocument>, EngineError> {
        self.line.clear();
        let length = self.lines.read_line(&mut self.line);
        if length.map_err(|error| self.error(&format!("cannot be read: {error}")))? == 0 {
            let (found, expected) = (self.read, self.file.documents);
            if found != expected {
                return Err(self.error(&format!("is damaged: it has {found} of {expected} documents")));
            }
            if hex(&std::mem::take(&mut self.hash).finalize()) != self.file.sha256 {
                return Err(self
                    .error("is damaged, or not the file that the shard has written: its checksum is wrong"));
            }
            return Ok(None);
        }
        self.read += 1;
        self.hash.update(&self.line);
        match decode_answered(&mut self.decoder, self.line.trim_end_matches('\n')) {
            Ok(document) => Ok(Some(document)),
            Err(message) => Err(self.error(&format!("is damaged in line {}: {message}", self.read))),
        }
    }

    fn error(&self, problem: &str) -> EngineError {
        Diagnostic::new(format!("`{}` {problem}", self.file.path.display()))
            .hint("Run the command of the shard again; its answers are saved")
            .into()
    }
}
