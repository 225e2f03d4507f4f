//! The lock file: one writer at a time, and its name.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind as IoErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Error, ErrorKind};

/// The exclusive right to write to a journal, released on drop or when the process ends.
///
/// The lock is on a separate file, because compacting replaces the journal file.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    is_exclusive: bool,
}

impl Lock {
    /// Acquires the lock of a journal, or fails with the name of its holder.
    pub(crate) fn acquire(journal: &Path) -> Result<Self, Error> {
        let path = beside(journal, ".lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|source| Error::io("create", &path, source))?;
        let is_exclusive = match file.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => {
                let holder = read_holder(&mut file);
                return Err(ErrorKind::Locked { path: journal.to_owned(), holder }.into());
            }
            // Some network file systems do not support locks; the run continues without one.
            Err(TryLockError::Error(error)) if error.kind() == IoErrorKind::Unsupported => false,
            Err(TryLockError::Error(source)) => return Err(Error::io("lock", &path, source)),
        };
        // Best effort: without the holder's name the message of others is shorter.
        let _ = file.set_len(0).and_then(|()| file.write_all(describe_this_process().as_bytes()));
        Ok(Self { file, is_exclusive })
    }

    /// Whether the file system supports locks.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
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
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    format!("process {} on {} since {}\n", std::process::id(), host_name(), utc(seconds))
}

fn host_name() -> String {
    let from_system = || fs_err::read_to_string("/proc/sys/kernel/hostname").ok();
    let from_environment = || ["HOSTNAME", "COMPUTERNAME"].iter().find_map(|name| std::env::var(name).ok());
    let name = from_system().or_else(from_environment).unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "an unknown host".to_owned() } else { name.to_owned() }
}

/// Formats seconds since the Unix epoch.
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years start in March here, so that the leap day is the last day of its year.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + next;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_dates() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_399), "2000-02-28 23:59:59 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_700_000_000), "2023-11-14 22:13:20 UTC");
        assert_eq!(utc(4_107_542_399), "2100-02-28 23:59:59 UTC");
        assert_eq!(utc(4_107_542_400), "2100-03-01 00:00:00 UTC");
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
