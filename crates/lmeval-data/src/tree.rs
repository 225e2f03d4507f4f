//! Where data files are: folders, repositories and single places.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lmeval_hub::Repository;

use crate::error::Error;
use crate::file::DataFile;
use crate::glob;

/// Files under names, in a folder or in a repository.
pub(crate) trait Tree: Send + Sync {
    /// The folder or repository in messages.
    fn place(&self) -> &str;

    /// All files as relative paths, in name order.
    fn files(&self) -> &[String];

    /// Opens one of the files.
    fn open(&self, path: &str) -> Result<DataFile, Error>;
}

/// A folder on disk.
pub(crate) struct Folder {
    root: PathBuf,
    place: String,
    files: Vec<String>,
}

impl Folder {
    pub(crate) fn new(root: &Path) -> Result<Self, Error> {
        Ok(Self { root: root.into(), place: root.display().to_string(), files: glob::list_folder(root)? })
    }
}

impl Tree for Folder {
    fn place(&self) -> &str {
        &self.place
    }

    fn files(&self) -> &[String] {
        &self.files
    }

    fn open(&self, path: &str) -> Result<DataFile, Error> {
        DataFile::open(&self.root.join(path))
    }
}

impl Tree for Repository {
    fn place(&self) -> &str {
        self.id()
    }

    fn files(&self) -> &[String] {
        self.files()
    }

    fn open(&self, path: &str) -> Result<DataFile, Error> {
        DataFile::open(&self.fetch(path)?)
    }
}

/// The place of one data file.
#[derive(Clone)]
pub(crate) enum Location {
    /// In a folder or repository.
    Tree(Arc<dyn Tree>, String),
    /// On disk.
    Disk(PathBuf),
    /// In the program.
    Program(String, &'static [u8]),
}

impl Location {
    pub(crate) fn open(&self) -> Result<DataFile, Error> {
        match self {
            Self::Tree(tree, path) => tree.open(path),
            Self::Disk(path) => DataFile::open(path),
            Self::Program(name, content) => {
                Ok(DataFile::from_memory(name.as_str(), bytes::Bytes::from_static(content)))
            }
        }
    }
}
