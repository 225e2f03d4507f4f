//! Settings for finding data.

use std::env;
use std::path::{Path, PathBuf};

use lmeval_hub::Kind;

/// Reads an embedded file; its path starts with `builtin:`.
pub type VirtualFiles = fn(&Path) -> Option<&'static [u8]>;

/// Everything besides a [`DatasetRequest`](lmeval_core::DatasetRequest) that affects where data is found.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The connection to the hub and the receiver of its progress.
    pub hub: lmeval_hub::Settings,
    /// The folder in which relative paths are looked up first.
    pub working_directory: PathBuf,
    /// Reads embedded files.
    pub virtual_files: Option<VirtualFiles>,
}

impl Settings {
    /// The settings from environment variables and the hub's token file.
    pub fn from_environment() -> Self {
        Self {
            hub: lmeval_hub::Settings::from_environment(Kind::Dataset),
            working_directory: env::current_dir().unwrap_or_else(|_| PathBuf::from(".")),
            virtual_files: None,
        }
    }

    /// Settings that ignore the environment: no token, and the given cache and working directory.
    pub fn isolated(endpoint: &str, cache: &Path, working_directory: &Path) -> Self {
        let hub = lmeval_hub::Settings::isolated(endpoint, cache);
        Self { hub, working_directory: working_directory.into(), virtual_files: None }
    }
}
