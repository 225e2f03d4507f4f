//! Folders of task files for tests.

use std::path::PathBuf;

use lmeval_tasks::{Error, Overrides, Spec, TaskDict, TaskManager};

/// A temporary folder, deleted on drop.
pub(crate) struct Library {
    folder: tempfile::TempDir,
}

impl Library {
    /// Creates a folder with the given files.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let library = Self { folder: tempfile::tempdir().unwrap() };
        for (name, text) in files {
            library.write(name, text.as_bytes());
        }
        library
    }

    /// Writes one file and creates its parent folders.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.folder.path().join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, bytes).unwrap();
    }

    /// The path of the folder, with symbolic links resolved.
    pub(crate) fn path(&self) -> PathBuf {
        fs_err::canonicalize(self.folder.path()).unwrap()
    }

    /// A manager with this folder as its only root.
    pub(crate) fn manager(&self) -> TaskManager {
        TaskManager::new(&[self.path()])
    }

    /// Loads tasks and groups by name.
    pub(crate) fn load(&self, names: &[&str]) -> Result<TaskDict, Error> {
        let specs: Vec<Spec> = names.iter().map(|name| Spec::from(*name)).collect();
        self.manager().load(&specs, Overrides::default())
    }
}

/// The keys of the loaded tasks.
pub(crate) fn keys(loaded: &TaskDict) -> Vec<&str> {
    loaded.tasks.keys().map(String::as_str).collect()
}

/// A small valid task.
pub(crate) fn task(name: &str, more: &str) -> String {
    format!("task: {name}\ndataset_path: json\ntest_split: test\ndoc_to_text: q\ndoc_to_target: a\n{more}")
}
