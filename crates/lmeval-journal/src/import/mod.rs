//! Import of the response caches that the reference writes.

mod pickle;
mod sqlite;

use std::fs::File;
use std::path::{Path, PathBuf};

use lmeval_core::{Answer, Response};

use crate::error::Error;
use crate::journal::Journal;
use crate::key::{Fingerprint, Key};
use crate::medium::read_up_to;
use crate::record::{Outcome, StoredEntry};

use pickle::Pickled;
use sqlite::{Column, Database};

/// The table that the reference writes to.
const TABLE: &str = "unnamed";

/// How many answers are appended at once.
const BATCH: usize = 1024;

/// What an import did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Answers that were taken over.
    pub answers: usize,
    /// Answers that the journal had already; its own stay.
    pub known: usize,
    /// Rows that are no answers: other keys, other values.
    pub skipped: usize,
}

/// Whether a file is an SQLite database, as the response caches of the reference are, as far as its first bytes tell.
pub fn is_old_cache(path: &Path) -> bool {
    let mut start = [0; sqlite::MAGIC.len()];
    let read = File::open(path).and_then(|file| read_up_to(&file, &mut start, 0));
    read.is_ok() && start == *sqlite::MAGIC
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
    /// Takes over the answers of a response cache that the reference has written, as those of a model.
    ///
    /// Such a cache does not tell which model it is of: that is for the caller to know. It tells neither tasks nor kinds of
    /// requests; [`Journal::get`] gives an answer as what is asked for, where it can be that.
    pub fn import_sqlite(&self, path: &Path, model: Fingerprint) -> Result<Imported, Error> {
        let database = Database::open(path)?;
        let mut imported = Imported::default();
        let mut entries = Vec::with_capacity(BATCH);
        database.rows(TABLE, |row| {
            let Some((request_hash, response)) = answer(row) else {
                imported.skipped += 1;
                return Ok(());
            };
            let key = Key::new(model, &request_hash, 0, None);
            if self.is_answered(&key) {
                imported.known += 1;
                return Ok(());
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
            Ok(())
        })?;
        self.append_all(&entries)?;
        Ok(imported)
    }
}

/// The request and the answer of a row.
fn answer(row: &[Column<'_>]) -> Option<([u8; 32], Response)> {
    let [Column::Text(key), Column::Blob(value), ..] = row else { return None };
    let response = match pickle::load(value)? {
        Pickled::Text(text) => Response::Text(text),
        Pickled::Float(logprob) => Response::Rolling { logprob },
        Pickled::Tuple(pair) => match pair.as_slice() {
            [logprob, is_greedy] => {
                let logprob = logprob.as_float()?;
                match is_greedy {
                    Pickled::Bool(is_greedy) => Response::Loglikelihood { logprob, is_greedy: *is_greedy },
                    Pickled::Int(number @ (0 | 1)) => {
                        Response::Loglikelihood { logprob, is_greedy: *number == 1 }
                    }
                    // Such a pair can only stand for a whole text.
                    Pickled::None => Response::Rolling { logprob },
                    _ => return None,
                }
            }
            _ => return None,
        },
        Pickled::None | Pickled::Bool(_) | Pickled::Int(_) => return None,
    };
    Some((parse_hash(key)?, response))
}

fn parse_hash(text: &[u8]) -> Option<[u8; 32]> {
    let text: &[u8; 64] = text.try_into().ok()?;
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut hash = [0; 32];
    for (byte, digits) in hash.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(digits[0])? << 4 | digit(digits[1])?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_read() {
        let text = "0123456789abcdef".repeat(4);
        let hash = parse_hash(text.as_bytes()).unwrap();
        assert_eq!(hash[..8], [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]);
        assert_eq!(parse_hash(&text.as_bytes()[1..]), None);
        assert_eq!(parse_hash(text.to_uppercase().as_bytes()), None);
    }

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
