//! Systems other than Linux: limits of processes are all there is.

use std::io;
use std::path::{Path, PathBuf};

use crate::plan::Surroundings;

const REASON: &str = "needs Linux";

/// What restricts access to files.
#[derive(Debug)]
pub(crate) struct Landlocked {
    pub(crate) version: i32,
    pub(crate) limits_network: bool,
    pub(crate) limits_signals: bool,
}

/// Nothing.
pub(crate) fn end_with_parent() {}

/// Nothing.
pub(crate) fn adopt_orphans() {}

/// Nothing.
pub(crate) fn end_orphans() {}

/// Nothing.
pub(crate) fn drop_privileges(_is_nobody: bool) -> Result<String, String> {
    Err(REASON.to_owned())
}

/// Nothing.
pub(crate) fn restrict_files(_read: &[PathBuf], _folder: &Path) -> Result<Landlocked, String> {
    Err(REASON.to_owned())
}

/// Nothing.
pub(crate) fn deny_system_calls() -> Result<String, String> {
    Err(REASON.to_owned())
}

/// Nothing.
pub(crate) fn separate(_is_nobody: bool) -> Surroundings {
    Surroundings { shared_because: Some(REASON.to_owned()), ..Surroundings::default() }
}

/// Nothing.
pub(crate) fn mount_folder(_folder: &Path, _size: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Nothing.
pub(crate) fn unmount_folder(_folder: &Path) {}
