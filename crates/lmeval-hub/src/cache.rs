//! The on-disk cache, in the layout of `huggingface_hub`: blobs named by ETag, and symlinks to them by commit and path.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::repository::Kind;

/// The cache of one repository.
#[derive(Clone, Debug)]
pub(crate) struct RepositoryCache {
    folder: PathBuf,
    locks: PathBuf,
}

/// Whether a string is a full commit hash.
pub(crate) fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a relative path stays inside the folder it is joined to.
pub fn is_safe(path: &str) -> bool {
    !path.contains(':') && path.split(['/', '\\']).all(|part| !part.is_empty() && part != "." && part != "..")
}

/// Whether a string is a valid repository name: `name` or `owner/name`.
pub(crate) fn is_repository(name: &str) -> bool {
    is_safe(name)
        && name.split('/').count() <= 2
        && !name.contains(['\\', ' '])
        && !name.starts_with(['~', '-'])
}

impl RepositoryCache {
    pub(crate) fn new(cache: &Path, kind: Kind, id: &str) -> Self {
        let name = format!("{}--{}", kind.plural(), id.replace('/', "--"));
        Self { folder: cache.join(&name), locks: cache.join(".locks").join(name) }
    }

    /// The commit that a revision pointed to when it was last resolved.
    pub(crate) fn commit(&self, revision: &str) -> Option<String> {
        if is_commit(revision) {
            return Some(revision.to_owned());
        }
        if !is_safe(revision) {
            return None;
        }
        let saved = fs_err::read_to_string(self.folder.join("refs").join(revision)).ok()?;
        Some(saved.trim().to_owned()).filter(|commit| is_commit(commit))
    }

    /// Saves which commit a revision points to.
    pub(crate) fn save_commit(&self, revision: &str, commit: &str) -> Result<(), Error> {
        if revision == commit || !is_safe(revision) || self.commit(revision).as_deref() == Some(commit) {
            return Ok(());
        }
        let path = self.folder.join("refs").join(revision);
        replace(&path, commit.as_bytes())
    }

    /// The snapshot folder of a commit.
    pub(crate) fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    pub(crate) fn blob(&self, etag: &str) -> PathBuf {
        self.folder.join("blobs").join(etag)
    }

    /// The lock file of a blob. `huggingface_hub` locks the same file.
    pub(crate) fn lock_file(&self, etag: &str) -> PathBuf {
        self.locks.join(format!("{etag}.lock"))
    }

    /// Saves the list of a commit's files, whether or not they are cached. Without the list, a partially cached dataset
    /// would look complete.
    pub(crate) fn save_files(&self, commit: &str, files: &[String]) -> Result<(), Error> {
        let path = self.listing(commit);
        if path.is_file() { Ok(()) } else { replace(&path, files.join("\n").as_bytes()) }
    }

    /// The files of a commit: the saved list, or the cached files if there is no list.
    pub(crate) fn files(&self, commit: &str) -> Result<Vec<String>, Error> {
        if let Ok(saved) = fs_err::read_to_string(self.listing(commit)) {
            return Ok(saved.lines().filter(|path| is_safe(path)).map(str::to_owned).collect());
        }
        let mut files = Vec::new();
        let root = self.snapshot(commit);
        if root.is_dir() {
            list(&root, "", &mut files).map_err(|error| Error::io(&root, error))?;
        }
        files.sort_unstable();
        Ok(files)
    }

    fn listing(&self, commit: &str) -> PathBuf {
        self.folder.join(".files").join(commit)
    }

    /// Links a file of a commit's snapshot to its blob.
    pub(crate) fn link(&self, commit: &str, path: &str, etag: &str) -> Result<(), Error> {
        let pointer = self.snapshot(commit).join(path);
        let link = || -> io::Result<()> {
            let parent = pointer.parent().unwrap_or(&self.folder);
            fs_err::create_dir_all(parent)?;
            if pointer.is_file() {
                return Ok(());
            }
            // A dangling link: its blob was deleted.
            if pointer.is_symlink() {
                fs_err::remove_file(&pointer)?;
            }
            let up = "../".repeat(path.split('/').count() + 1);
            match symlink(&format!("{up}blobs/{etag}"), &pointer) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                Err(_) => fs_err::copy(self.blob(etag), &pointer).map(drop),
                Ok(()) => Ok(()),
            }
        };
        link().map_err(|error| Error::io(&pointer, error))
    }
}

#[cfg(unix)]
fn symlink(target: &str, pointer: &Path) -> io::Result<()> {
    fs_err::os::unix::fs::symlink(target, pointer)
}

#[cfg(not(unix))]
fn symlink(_target: &str, _pointer: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Collects all files under a folder as relative paths.
fn list(folder: &Path, prefix: &str, files: &mut Vec<String>) -> io::Result<()> {
    for entry in fs_err::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let name = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            list(&entry.path(), &format!("{name}/"), files)?;
        } else if entry.path().is_file() {
            files.push(name);
        }
    }
    Ok(())
}

/// Writes a file atomically.
fn replace(path: &Path, content: &[u8]) -> Result<(), Error> {
    let write = || -> io::Result<()> {
        let parent = path.parent().unwrap_or(path);
        fs_err::create_dir_all(parent)?;
        let mut file = tempfile::NamedTempFile::new_in(parent)?;
        io::Write::write_all(&mut file, content)?;
        share(file.as_file())?;
        file.persist(path)?;
        Ok(())
    };
    write().map_err(|error| Error::io(path, error))
}

/// Acquires a file lock, held until the returned file is dropped. Calls `on_wait` first if another process holds it.
pub(crate) fn lock(path: &Path, on_wait: impl FnOnce()) -> Result<File, Error> {
    let lock = || -> io::Result<File> {
        fs_err::create_dir_all(path.parent().unwrap_or(path))?;
        let file = File::options().create(true).truncate(false).write(true).open(path)?;
        // `lock` after a failed `try_lock` only: locking a held file twice blocks forever on some systems.
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                on_wait();
                file.lock()?;
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        Ok(file)
    };
    lock().map_err(|error| Error::io(path, error))
}

/// Makes a temporary file, which is created private, world-readable like any other cached file.
#[cfg(unix)]
pub(crate) fn share(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
pub(crate) fn share(_file: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_follow_the_layout_of_huggingface_hub() {
        let root = tempfile::tempdir().unwrap();
        let cache = RepositoryCache::new(root.path(), Kind::Dataset, "org/name");
        let commit = "a".repeat(40);
        assert_eq!(cache.commit("main"), None);
        cache.save_commit("main", &commit).unwrap();
        cache.save_commit("refs/convert/parquet", &commit).unwrap();
        assert_eq!(cache.commit("main"), Some(commit.clone()));
        assert_eq!(cache.commit("refs/convert/parquet"), Some(commit.clone()));
        fs_err::create_dir_all(root.path().join("datasets--org--name/blobs")).unwrap();
        fs_err::write(cache.blob("e"), "text").unwrap();
        cache.link(&commit, "data/x.txt", "e").unwrap();
        cache.link(&commit, "data/x.txt", "e").unwrap();
        let pointer = cache.snapshot(&commit).join("data/x.txt");
        assert_eq!(fs_err::read_to_string(&pointer).unwrap(), "text");
        assert_eq!(fs_err::read_link(&pointer).unwrap().to_str(), Some("../../../blobs/e"));
        drop(lock(&cache.lock_file("e"), || panic!("the lock is free")).unwrap());
        assert_eq!(cache.files(&commit).unwrap(), ["data/x.txt"]);
        cache.save_files(&commit, &["data/x.txt".into(), "y".into()]).unwrap();
        assert_eq!(cache.files(&commit).unwrap(), ["data/x.txt", "y"]);
        assert!(cache.files(&"b".repeat(40)).unwrap().is_empty());
        assert_eq!(cache.commit("../main"), None);
        assert!(root.path().join(".locks/datasets--org--name/e.lock").is_file());
        assert!(is_safe("a/b.c") && !is_safe("../a") && !is_safe("/a") && !is_safe("") && !is_safe("a//b"));
    }
}
