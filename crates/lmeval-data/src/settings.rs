//! Everything outside a request that decides on how data is found.

use std::env;
use std::path::{Path, PathBuf};

use lmeval_hub::Kind;

/// Reads a file that is part of the program; its path starts with `builtin:`.
pub type VirtualFiles = fn(&Path) -> Option<&'static [u8]>;

/// Everything outside a [`DatasetRequest`](lmeval_core::DatasetRequest) that decides on how data is found.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How the hub is reached, and who hears about downloads.
    pub hub: lmeval_hub::Settings,
    /// The folder that relative paths are looked up in first.
    pub working_directory: PathBuf,
    /// Files that are part of the program.
    pub virtual_files: Option<VirtualFiles>,
}

impl Settings {
    /// The settings that environment variables and the hub's token file give.
    pub fn from_environment() -> Self {
        Self {
            hub: lmeval_hub::Settings::from_environment(Kind::Dataset),
            working_directory: env::current_dir().unwrap_or_else(|_| PathBuf::from(".")),
            virtual_files: None,
        }
    }

    /// Settings that use nothing of the environment: no token, and a cache and working directory as given.
    pub fn isolated(endpoint: &str, cache: &Path, working_directory: &Path) -> Self {
        let hub = lmeval_hub::Settings::isolated(endpoint, cache);
        Self { hub, working_directory: working_directory.into(), virtual_files: None }
    }
}
