//! The lock file: one writer at a time, and its name.
//!
//! Where the file system has no locks, writers claim the journal by lines in the same file: the first line of a process that
//! may be running wins. Nobody but its writer changes a line, so no claim is lost.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind as IoErrorKind, Read, Seek as _, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::error::{Error, ErrorKind};

/// The exclusive right to write to a journal, or to do other work that a file stands for, released on drop or when the process ends.
///
/// The lock is on a separate file with the suffix `.lock`, because compacting replaces the journal file.
#[derive(Debug)]
pub struct Lock {
    file: File,
    /// The line that claims the journal on a file system without locks.
    claim: Option<Range<u64>>,
}

/// The content of the lock file that is read: the lines of more runs than ever start at once.
const MAX_READ: u64 = 1 << 20;

impl Lock {
    /// Acquires the lock of a file, or fails with the name of its holder: [`ErrorKind::Locked`] or [`ErrorKind::Claimed`].
    pub fn acquire(journal: &Path) -> Result<Self, Error> {
        let path = beside(journal, ".lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|source| Error::io("create", &path, source))?;
        match file.try_lock() {
            Ok(()) => {
                // Best effort: without the holder's name the message of others is shorter.
                let _ = file.set_len(0).and_then(|()| file.write_all(describe_this_process().as_bytes()));
                Ok(Self { file, claim: None })
            }
            Err(TryLockError::WouldBlock) => {
                let holder = read_holder(&mut file);
                Err(ErrorKind::Locked { path: journal.to_owned(), holder }.into())
            }
            Err(TryLockError::Error(error)) if lacks_locks(&error) => Self::claim(journal, path),
            Err(TryLockError::Error(source)) => Err(Error::io("lock", &path, source)),
        }
    }

    /// Claims a journal on a file system without locks.
    fn claim(journal: &Path, path: PathBuf) -> Result<Self, Error> {
        let failed = |source| Error::io("write to", &path, source);
        // Appending leaves the lines of others as they are.
        let mut own = OpenOptions::new().append(true).open(&path).map_err(failed)?;
        let line = describe_this_process();
        own.write_all(line.as_bytes()).map_err(failed)?;
        let end = own.stream_position().map_err(failed)?;
        let claim = end.saturating_sub(line.len() as u64)..end;
        let file = OpenOptions::new().read(true).write(true).open(&path).map_err(failed)?;
        let mut content = Vec::new();
        (&file).take(MAX_READ).read_to_end(&mut content).map_err(failed)?;
        // Dropped without success, it takes its own line back.
        let lock = Self { file, claim: Some(claim.clone()) };
        match first_claim(&content) {
            Some((place, holder)) if place != claim.start => {
                Err(ErrorKind::Claimed { path: journal.to_owned(), holder, lock: path }.into())
            }
            _ => Ok(lock),
        }
    }

    /// Whether the file system supports locks.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.claim.is_none()
    }
}

/// Whether an error of locking says that the file system has no locks: as some network file systems, or those whose lock
/// service does not run.
fn lacks_locks(error: &io::Error) -> bool {
    /// ENOLCK on Linux.
    const NO_LOCKS: i32 = 37;
    error.kind() == IoErrorKind::Unsupported
        || (cfg!(target_os = "linux") && error.raw_os_error() == Some(NO_LOCKS))
}

/// The first line of a process that may be running, with its offset.
fn first_claim(content: &[u8]) -> Option<(u64, String)> {
    let mut offset = 0;
    for line in content.split_inclusive(|byte| *byte == b'\n') {
        let text = String::from_utf8_lossy(line);
        if may_be_running(text.trim()) {
            return Some((offset, text.trim().to_owned()));
        }
        offset += line.len() as u64;
    }
    None
}

/// Whether the process that a line names may be running. On other hosts, nobody can tell.
fn may_be_running(line: &str) -> bool {
    let Some((process, host)) = line.strip_prefix("process ").and_then(|rest| rest.split_once(" on ")) else {
        return false;
    };
    let is_here = host.split_once(" since ").is_some_and(|(host, _)| host == host_name());
    let processes = Path::new("/proc");
    !is_here || !processes.join("self").exists() || processes.join(process).exists()
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            // Best effort: a claim of a process that has ended is ignored on this host.
            let newlines = vec![b'\n'; (claim.end - claim.start) as usize];
            let _ = self.file.seek(SeekFrom::Start(claim.start)).and_then(|_| self.file.write_all(&newlines));
            return;
        }
        // The content is only read while the lock is held. Closing the file would release the lock too, but not
        // while a process being forked still holds a copy of the handle.
        let _ = self.file.set_len(0);
        let _ = self.file.unlock();
    }
}

/// Appends a suffix to a file name.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn read_holder(file: &mut File) -> String {
    let mut text = String::new();
    // Where locks are mandatory, a locked file cannot be read.
    let read = file.take(1024).read_to_string(&mut text);
    let text = text.trim();
    if read.is_err() || text.is_empty() { "another process".to_owned() } else { text.to_owned() }
}

fn describe_this_process() -> String {
    let now = Timestamp::now().strftime("%Y-%m-%d %H:%M:%S UTC");
    format!("process {} on {} since {now}\n", std::process::id(), host_name())
}

fn host_name() -> String {
    let from_system = || fs_err::read_to_string("/proc/sys/kernel/hostname").ok();
    let from_environment = || ["HOSTNAME", "COMPUTERNAME"].iter().find_map(|name| std::env::var(name).ok());
    let name = from_system().or_else(from_environment).unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "an unknown host".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_exclude_each_other_without_locks() {
        let folder = tempfile::tempdir().unwrap();
        let (path, file) = (folder.path().join("a.journal"), folder.path().join("a.journal.lock"));
        let claim = || Lock::claim(&path, file.clone());
        // A process that has ended on this host, and an incomplete line.
        fs_err::write(&file, format!("process 0 on {} since 2026\nhalf a li\n", host_name())).unwrap();
        let lock = claim().unwrap();
        assert!(!lock.is_exclusive());
        let message = claim().unwrap_err().to_string();
        assert!(message.contains(&format!("process {} on ", std::process::id())), "{message}");
        drop(lock);
        drop(claim().unwrap());
        // Whether a process of another host has ended, only its user knows.
        fs_err::OpenOptions::new()
            .append(true)
            .open(&file)
            .unwrap()
            .write_all(b"process 0 on elsewhere since 2026\n")
            .unwrap();
        let error = claim().unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Claimed { holder, .. } if holder == "process 0 on elsewhere since 2026")
        );
        fs_err::write(&file, "").unwrap();
        claim().unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn recognises_file_systems_without_locks() {
        for (number, expected) in [(37, true), (95, true), (38, true), (5, false), (13, false)] {
            assert_eq!(lacks_locks(&io::Error::from_raw_os_error(number)), expected, "{number}");
        }
    }

    #[test]
    fn names_lock_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        let lock = Lock::acquire(&path).unwrap();
        assert!(lock.is_exclusive());
        let message = Lock::acquire(&path).unwrap_err().to_string();
        let expected = format!("`{}` is in use by process {} on ", path.display(), std::process::id());
        assert!(message.starts_with(&expected), "{message}");
        assert!(message.contains(" since 20") && message.ends_with(" UTC"), "{message}");
        drop(lock);
        Lock::acquire(&path).unwrap();
    }
}
