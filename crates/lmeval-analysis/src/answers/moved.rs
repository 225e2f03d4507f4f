//! Requests by content, for documents that are not where they were.

use lmeval_core::ModelRequest;
use lmeval_core::recorded::RequestContent;
use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

use super::reader::Reader;
use super::same::{Settings, canonical};
use super::{Place, StoredFile};
use crate::Error;

/// Lines that are read together.
const CHUNK: usize = 1024;

/// All requests of a run, sorted by hash.
#[derive(Debug, Default)]
pub(super) struct Contents {
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    /// The hash of the request's content and its generation settings.
    hash: [u64; 2],
    file: u32,
    /// The index of the line.
    line: u32,
    /// The index among the requests of the document.
    request: u32,
}

impl Contents {
    pub(super) fn read(files: &[StoredFile]) -> Result<Self, Error> {
        let mut entries = Vec::new();
        for (number, file) in files.iter().enumerate() {
            let lines = &file.content.lines;
            let starts: Vec<usize> = (0..lines.len()).step_by(CHUNK).collect();
            let of_chunk = |start: usize| -> Result<Vec<Entry>, Error> {
                let end = (start + CHUNK).min(lines.len());
                let mut reader = Reader::new(files, lines[end - 1].document as usize, Vec::new());
                let mut entries = Vec::with_capacity(end - start);
                for line in start..end {
                    for (request, types) in reader.requests(number, line)?.iter().enumerate() {
                        let [file, line, request] = [number, line, request].map(|index| index as u32);
                        let hashes = types
                            .iter()
                            .map(|(content, kwargs)| hash(content, &canonical(kwargs.as_deref())));
                        entries.extend(hashes.map(|hash| Entry { hash, file, line, request }));
                    }
                }
                Ok(entries)
            };
            let chunks: Vec<Vec<Entry>> = starts.into_par_iter().map(of_chunk).collect::<Result<_, _>>()?;
            entries.extend(chunks.into_iter().flatten());
        }
        entries.par_sort_unstable();
        Ok(Self { entries })
    }

    /// The stored requests with the content and the settings of this one.
    pub(super) fn find(
        &self,
        request: &ModelRequest,
        files: &[StoredFile],
        settings: &mut Settings,
    ) -> Vec<Place> {
        let (content, kwargs) = RequestContent::of_request(request);
        let hash = hash(&content, settings.wanted(kwargs));
        let start = self.entries.partition_point(|entry| entry.hash < hash);
        let same = self.entries[start..].iter().take_while(|entry| entry.hash == hash);
        same.map(|entry| {
            let (file, line) = (entry.file as usize, entry.line as usize);
            Place { file, line: files[file].content.lines[line], request: entry.request as usize }
        })
        .collect()
    }
}

/// The hash of a request. `kwargs` are the generation settings as [`canonical`] writes them.
fn hash(content: &RequestContent, kwargs: &str) -> [u64; 2] {
    let mut hash = Sha256::new();
    for part in [content.kind.name(), &*content.context, &*content.continuation, kwargs] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let digest = hash.finalize();
    let half = |bytes: &[u8]| bytes.iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte));
    [half(&digest), half(&digest[8..])]
}
