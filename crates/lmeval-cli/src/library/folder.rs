//! Copies the task folder of a checkout or an installed package.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use fs_err as fs;
use lmeval::library::{TASKS_FOLDER, Version};
use lmeval_core::Diagnostic;

use super::target::Target;

/// Folders that never contain task files.
const SKIPPED: [&str; 3] = ["__pycache__", ".ipynb_checkpoints", ".git"];

/// The maximum folder depth.
const DEEPEST: usize = 64;

/// The task folder at or inside a folder.
pub(super) fn find_tasks(folder: &Path) -> Result<PathBuf> {
    let folder = fs::canonicalize(folder)?;
    if folder.ends_with(TASKS_FOLDER) {
        return Ok(folder);
    }
    let inside = [folder.join(TASKS_FOLDER), folder.join("tasks")];
    Ok(inside.into_iter().find(|path| path.is_dir()).unwrap_or(folder))
}

/// The version of the package a task folder belongs to, or else a name derived from the folder's.
pub(super) fn version(tasks: &Path) -> Result<Version> {
    let root = if tasks.ends_with(TASKS_FOLDER) {
        tasks.ancestors().nth(2)
    } else if tasks.ends_with("tasks") {
        tasks.parent()
    } else {
        Some(tasks)
    };
    let root = root.unwrap_or(tasks);
    if let Some(version) = installed_version(root) {
        return Ok(version);
    }
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    Version::from_name(&name).map_err(|error| {
        let diagnostic = Diagnostic::new(format!("`{name}` cannot be the name of a library"));
        diagnostic.hint("Choose a name: lm-eval tasks pull NAME --from …").caused_by(error).into()
    })
}

/// The version in the name of the only `lm_eval-….dist-info` in a folder.
fn installed_version(packages: &Path) -> Option<Version> {
    let mut versions = fs::read_dir(packages).ok()?.flatten().filter_map(|entry| {
        let name = entry.file_name();
        let version = name.to_str()?.strip_prefix("lm_eval-")?.strip_suffix(".dist-info")?;
        Version::parse(version).ok()
    });
    let version = versions.next()?;
    versions.next().is_none().then_some(version)
}

/// Copies a task folder; returns the number of links skipped because they point outside it or to folders.
pub(super) fn copy(tasks: &Path, target: &mut Target) -> Result<usize> {
    let root = fs::canonicalize(tasks)?;
    let mut walk = Walk { root: &root, target, entries: 0, skipped_links: 0, has_yaml: false };
    walk.copy(&root, Path::new(""), 0)?;
    if !walk.has_yaml {
        let diagnostic = Diagnostic::new(format!("`{}` contains no task files", tasks.display()));
        bail!(
            diagnostic
                .hint(format!("Choose a folder of `.yaml` files, or one that contains `{TASKS_FOLDER}`"))
        );
    }
    Ok(walk.skipped_links)
}

/// A copy in progress.
struct Walk<'a> {
    root: &'a Path,
    target: &'a mut Target,
    entries: usize,
    skipped_links: usize,
    has_yaml: bool,
}

impl Walk<'_> {
    fn copy(&mut self, folder: &Path, relative: &Path, depth: usize) -> Result<()> {
        if depth > DEEPEST {
            bail!("`{}` is nested deeper than {DEEPEST} folders", folder.display());
        }
        let mut entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            self.entries += 1;
            if self.entries > self.target.limits().entries {
                bail!(
                    "`{}` contains more than {} entries",
                    self.root.display(),
                    self.target.limits().entries
                );
            }
            let name = entry.file_name();
            let (path, relative) = (entry.path(), relative.join(&name));
            let kind = entry.file_type()?;
            if kind.is_dir() {
                if !SKIPPED.iter().any(|skipped| name == OsStr::new(skipped)) {
                    self.copy(&path, &relative, depth + 1)?;
                }
            } else if kind.is_file() {
                self.copy_file(&path, &relative)?;
            } else if kind.is_symlink() {
                match fs::canonicalize(&path) {
                    Ok(real) if real.starts_with(self.root) && real.is_file() => {
                        self.copy_file(&real, &relative)?;
                    }
                    _ => self.skipped_links += 1,
                }
            }
        }
        Ok(())
    }

    fn copy_file(&mut self, path: &Path, relative: &Path) -> Result<()> {
        self.has_yaml |= relative.extension() == Some(OsStr::new("yaml"));
        self.target.write(relative, fs::File::open(path)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::target::Limits;

    fn write(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn finds_the_task_folder() {
        let temporary = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(temporary.path()).unwrap();
        write(root.join("site/lm_eval/tasks/a.yaml"), "task: a");
        write(root.join("site/lm_eval-0.4.13.dist-info/METADATA"), "");
        write(root.join("mine/tasks/a.yaml"), "task: a");
        write(root.join("my own/a.yaml"), "task: a");
        let tasks = root.join("site/lm_eval/tasks");
        for folder in ["site", "site/lm_eval", "site/lm_eval/tasks"] {
            assert_eq!(find_tasks(&root.join(folder)).unwrap(), tasks);
        }
        assert_eq!(version(&tasks).unwrap().as_str(), "0.4.13");
        let mine = find_tasks(&root.join("mine")).unwrap();
        assert_eq!(
            (mine.as_path(), version(&mine).unwrap().as_str()),
            (root.join("mine/tasks").as_path(), "mine")
        );
        let own = find_tasks(&root.join("my own")).unwrap();
        assert_eq!(version(&own).unwrap().as_str(), "my-own");
        write(root.join("site/lm_eval-0.4.9.dist-info/METADATA"), "");
        assert_eq!(version(&tasks).unwrap().as_str(), "site", "two packages are ambiguous");
    }

    #[cfg(unix)]
    #[test]
    fn skips_links_that_point_outside() {
        use std::os::unix::fs::symlink;
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path();
        write(root.join("secret.txt"), "secret");
        write(root.join("from/a/a.yaml"), "task: a");
        write(root.join("from/a/data.5k"), "data");
        write(root.join("from/a/__pycache__/x.pyc"), "");
        write(root.join("from/.git/config"), "");
        symlink(root.join("secret.txt"), root.join("from/secret.txt")).unwrap();
        symlink(root, root.join("from/up")).unwrap();
        symlink(root.join("from"), root.join("from/loop")).unwrap();
        symlink(root.join("nowhere"), root.join("from/dangling")).unwrap();
        symlink("a/a.yaml", root.join("from/b.yaml")).unwrap();
        let mut target = Target::create(root.join("to"), Limits::default()).unwrap();
        assert_eq!(copy(&root.join("from"), &mut target).unwrap(), 4);
        assert_eq!(target.files(), 3);
        assert_eq!(fs::read_to_string(root.join("to/b.yaml")).unwrap(), "task: a");
        assert!(fs::symlink_metadata(root.join("to/b.yaml")).unwrap().is_file());
        assert!(!root.join("to/secret.txt").exists());
    }

    #[test]
    fn rejects_folders_without_tasks_and_with_too_many_files() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path();
        write(root.join("from/readme.txt"), "");
        let mut target = Target::create(root.join("to"), Limits::default()).unwrap();
        assert!(copy(&root.join("from"), &mut target).unwrap_err().to_string().contains("no task files"));
        for number in 0..4 {
            write(root.join(format!("from/{number}.yaml")), "");
        }
        let limits = Limits { files: 3, ..Limits::default() };
        let mut target = Target::create(root.join("limited"), limits).unwrap();
        assert!(copy(&root.join("from"), &mut target).is_err());
    }
}
