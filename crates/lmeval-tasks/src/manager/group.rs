//! One loaded group.

use std::path::{Path, PathBuf};

use crate::config::GroupConfig;
use crate::source::Mapping;

/// A group that was loaded: its typed configuration and the mapping that it was made from.
#[derive(Clone, Debug)]
pub struct Group {
    pub(super) name: String,
    /// The typed configuration.
    pub config: GroupConfig,
    pub(super) mapping: Mapping,
    pub(super) source: Option<PathBuf>,
    /// The format that was selected for all members.
    pub(super) selection: Option<String>,
}

impl Group {
    /// The name, which is the key of the results: `parent::name` for a group written inside another.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the configuration was made from, each key knowing its origin.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// The file that defines the group; `None` for an inline group.
    pub fn source(&self) -> Option<&Path> {
        self.source.as_deref()
    }
}
