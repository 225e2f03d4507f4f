//! Import of response caches written by the reference harness.

use std::path::{Path, PathBuf};

use lmeval_core::{Answer, Response};

use crate::error::Error;
use crate::journal::Journal;
use crate::key::{Fingerprint, Key};
use crate::record::{Outcome, StoredEntry};

/// How many answers one append carries.
const BATCH: usize = 1024;

/// The counts of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Imported answers.
    pub answers: usize,
    /// Answers that the journal already had; they were not replaced.
    pub known: usize,
    /// Rows with an unknown key or an unreadable value.
    pub skipped: usize,
}

/// The reference's response caches for `--use_cache <prefix>`: files named `<prefix>_rank<N>.db`, sorted by rank.
pub fn old_caches(prefix: &Path) -> Vec<PathBuf> {
    let Some(name) = prefix.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let folder = prefix.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let rank = |file: &str| {
        let number = file.strip_prefix(name)?.strip_prefix("_rank")?.strip_suffix(".db")?;
        number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse::<u64>().ok())?
    };
    let files = fs_err::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<(u64, PathBuf)> =
        files.filter_map(|file| Some((rank(file.file_name().to_str()?)?, file.path()))).collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

impl Journal {
    /// Imports a response cache written by the reference, as answers of `model`. Each row is a request hash and
    /// its answer, or `None` for a row that is not an answer.
    ///
    /// The cache does not record its model, so the caller must supply it. Tasks and request types are not recorded
    /// either; [`Journal::get`] converts an imported answer to the requested type where possible.
    pub fn import<E: From<Error>>(
        &self,
        rows: impl IntoIterator<Item = Result<Option<([u8; 32], Response)>, E>>,
        model: Fingerprint,
    ) -> Result<Imported, E> {
        let mut imported = Imported::default();
        let mut entries = Vec::with_capacity(BATCH);
        for row in rows {
            let Some((request_hash, response)) = row? else {
                imported.skipped += 1;
                continue;
            };
            let key = Key::new(model, &request_hash, 0, None);
            if self.is_answered(&key) {
                imported.known += 1;
                continue;
            }
            imported.answers += 1;
            entries.push(StoredEntry {
                key,
                origin: None,
                outcome: Outcome::Answered(Answer::from(response)),
            });
            if entries.len() == BATCH {
                self.append_all(&entries)?;
                entries.clear();
            }
        }
        self.append_all(&entries)?;
        Ok(imported)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_caches_by_prefix() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["c_rank10.db", "c_rank2.db", "c_rank.db", "c_rankx.db", "cc_rank0.db", "c_rank0.db-wal"]
        {
            fs_err::write(folder.path().join(name), "").unwrap();
        }
        let found = old_caches(&folder.path().join("c"));
        assert_eq!(found, [folder.path().join("c_rank2.db"), folder.path().join("c_rank10.db")]);
        assert!(old_caches(&folder.path().join("none/c")).is_empty());
    }
}
