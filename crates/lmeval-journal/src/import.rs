//! Import of the response caches that the reference writes.

use std::path::{Path, PathBuf};

use lmeval_core::{Answer, Response};

use crate::error::Error;
use crate::journal::Journal;
use crate::key::{Fingerprint, Key};
use crate::record::{Outcome, StoredEntry};

/// How many answers are appended at once.
const BATCH: usize = 1024;

/// What an import did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Answers that were taken over.
    pub answers: usize,
    /// Answers that the journal had already; its own stay.
    pub known: usize,
    /// Rows that are not answers: other keys, other values.
    pub skipped: usize,
}

/// The response caches that the reference would use for `--use_cache <prefix>`: `<prefix>_rank<number>.db`, by number.
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
    /// Takes over the answers of a response cache that the reference has written, as those of a model. Each row is the hash
    /// of a request and its answer, or `None` where it is not an answer.
    ///
    /// Such a cache does not tell which model it is of: that is for the caller to know. It tells neither tasks nor kinds of
    /// requests; [`Journal::get`] gives an answer as what is asked for, where it can be that.
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
    fn caches_are_found_by_their_prefix() {
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
