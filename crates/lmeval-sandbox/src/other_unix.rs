//! Systems other than Linux, which only have resource limits.

use std::io;
use std::path::{Path, PathBuf};

use crate::plan::Isolation;

const REASON: &str = "needs Linux";

/// Mirrors the Linux type; never created.
#[derive(Debug)]
pub(crate) struct Landlocked {
    pub(crate) version: i32,
    pub(crate) limits_network: bool,
    pub(crate) limits_signals: bool,
}

/// No equivalent here.
pub(crate) fn end_with_parent() {}

/// No equivalent here.
pub(crate) fn adopt_orphans() {}

/// No equivalent here.
pub(crate) fn end_orphans() {}

/// No equivalent here.
pub(crate) fn drop_privileges(_is_nobody: bool) -> Result<String, String> {
    Err(REASON.to_owned())
}

/// No equivalent here.
pub(crate) fn restrict_files(_read: &[PathBuf], _folder: &Path) -> Result<Landlocked, String> {
    Err(REASON.to_owned())
}

/// No equivalent here.
pub(crate) fn deny_system_calls() -> Result<String, String> {
    Err(REASON.to_owned())
}

/// No equivalent here.
pub(crate) fn separate(_is_nobody: bool) -> Isolation {
    Isolation { shared_because: Some(REASON.to_owned()), ..Isolation::default() }
}

/// No equivalent here.
pub(crate) fn mount_folder(_folder: &Path, _size: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// No equivalent here.
pub(crate) fn unmount_folder(_folder: &Path) {}
