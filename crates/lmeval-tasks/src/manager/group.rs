//! A loaded group.

use std::path::{Path, PathBuf};

use super::options::TaskOptions;
use crate::config::GroupConfig;
use crate::source::Mapping;

/// A loaded group: its typed configuration and the mapping it was read from.
#[derive(Clone, Debug)]
pub struct Group {
    pub(super) name: String,
    /// The typed configuration, with overrides applied.
    pub config: GroupConfig,
    pub(super) mapping: Mapping,
    pub(super) source: Option<PathBuf>,
    /// The format selected for all members.
    pub(super) selection: Option<String>,
    /// The options for all members.
    pub(super) options: TaskOptions,
}

impl Group {
    /// The key in results: `parent::name` for a group defined inside another.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The mapping that the configuration was read from, with the origin of each key.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// The file that defines the group; `None` for an inline group.
    pub fn source(&self) -> Option<&Path> {
        self.source.as_deref()
    }
}
