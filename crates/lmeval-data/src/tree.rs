//! Locations of data files: folders, repositories and single files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lmeval_hub::Repository;

use crate::error::Error;
use crate::file::DataFile;
use crate::glob;

/// Named files in a folder or repository.
pub(crate) trait Tree: Send + Sync {
    /// The folder or repository as displayed in messages.
    fn location(&self) -> &str;

    /// All files as relative paths, sorted by name.
    fn files(&self) -> &[String];

    fn open(&self, path: &str) -> Result<DataFile, Error>;

    /// The path of a file on disk; one in a repository is downloaded.
    fn local(&self, path: &str) -> Result<PathBuf, Error>;
}

/// A folder on disk.
pub(crate) struct Folder {
    root: PathBuf,
    location: String,
    files: Vec<String>,
}

impl Folder {
    pub(crate) fn new(root: &Path) -> Result<Self, Error> {
        Ok(Self { root: root.into(), location: root.display().to_string(), files: glob::list_folder(root)? })
    }
}

impl Tree for Folder {
    fn location(&self) -> &str {
        &self.location
    }

    fn files(&self) -> &[String] {
        &self.files
    }

    fn open(&self, path: &str) -> Result<DataFile, Error> {
        DataFile::open(&self.root.join(path))
    }

    fn local(&self, path: &str) -> Result<PathBuf, Error> {
        Ok(self.root.join(path))
    }
}

impl Tree for Repository {
    fn location(&self) -> &str {
        self.id()
    }

    fn files(&self) -> &[String] {
        self.files()
    }

    fn open(&self, path: &str) -> Result<DataFile, Error> {
        DataFile::open(&self.fetch(path)?)
    }

    fn local(&self, path: &str) -> Result<PathBuf, Error> {
        Ok(self.fetch(path)?)
    }
}

/// The location of one data file.
#[derive(Clone)]
pub(crate) enum Location {
    /// In a folder or repository.
    Tree(Arc<dyn Tree>, String),
    /// On disk.
    Disk(PathBuf),
    /// Embedded in the binary.
    Embedded(String, &'static [u8]),
}

impl Location {
    pub(crate) fn open(&self) -> Result<DataFile, Error> {
        match self {
            Self::Tree(tree, path) => tree.open(path),
            Self::Disk(path) => DataFile::open(path),
            Self::Embedded(name, content) => {
                Ok(DataFile::from_memory(name.as_str(), bytes::Bytes::from_static(content)))
            }
        }
    }

    /// The path on disk.
    pub(crate) fn local(&self) -> Result<PathBuf, Error> {
        match self {
            Self::Tree(tree, path) => tree.local(path),
            Self::Disk(path) => Ok(path.clone()),
            Self::Embedded(name, _) => Ok(PathBuf::from(name)),
        }
    }

    /// The path, with slashes: of a file in a folder or repository, relative to it.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Tree(_, path) => path.clone(),
            Self::Disk(path) => path.display().to_string().replace('\\', "/"),
            Self::Embedded(name, _) => name.clone(),
        }
    }

    /// A file that is named relative to the folder of this one.
    pub(crate) fn beside(&self, name: &str) -> Self {
        match self {
            Self::Tree(tree, path) => {
                let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
                Self::Tree(Arc::clone(tree), path)
            }
            Self::Disk(path) => Self::Disk(path.with_file_name(name)),
            Self::Embedded(path, _) => Self::Disk(Path::new(path).with_file_name(name)),
        }
    }
}
