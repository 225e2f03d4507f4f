//! The cache on disk, in the layout of `huggingface_hub`: blobs by ETag, links to them by commit and path.

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

/// Whether a text is the hash of a commit.
pub(crate) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a path stays below the folder that it is joined to.
pub fn is_safe(path: &str) -> bool {
    !path.contains(':') && path.split(['/', '\\']).all(|part| !part.is_empty() && part != "." && part != "..")
}

/// Whether a text can be the name of a repository: `name` or `owner/name`.
pub fn is_repository(name: &str) -> bool {
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

    /// The commit that a revision stood for when it was last asked for.
    pub(crate) fn commit(&self, revision: &str) -> Option<String> {
        if is_commit(revision) {
            return Some(revision.to_owned());
        }
        if !is_safe(revision) {
            return None;
        }
        let kept = fs_err::read_to_string(self.folder.join("refs").join(revision)).ok()?;
        Some(kept.trim().to_owned()).filter(|commit| is_commit(commit))
    }

    /// Notes the commit of a revision.
    pub(crate) fn remember(&self, revision: &str, commit: &str) -> Result<(), Error> {
        if revision == commit || !is_safe(revision) || self.commit(revision).as_deref() == Some(commit) {
            return Ok(());
        }
        let path = self.folder.join("refs").join(revision);
        replace(&path, commit.as_bytes())
    }

    /// The folder with the files of a commit.
    pub(crate) fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    pub(crate) fn blob(&self, etag: &str) -> PathBuf {
        self.folder.join("blobs").join(etag)
    }

    /// The lock file of a blob, which Python processes lock as well.
    pub(crate) fn lock_file(&self, etag: &str) -> PathBuf {
        self.locks.join(format!("{etag}.lock"))
    }

    /// Notes which files a commit has, fetched or not: without the list, the part of a data set that happens to be in
    /// the cache would pass for the whole.
    pub(crate) fn remember_files(&self, commit: &str, files: &[String]) -> Result<(), Error> {
        let path = self.listing(commit);
        if path.is_file() { Ok(()) } else { replace(&path, files.join("\n").as_bytes()) }
    }

    /// The files of a commit: the noted ones, else those that are in the cache.
    pub(crate) fn files(&self, commit: &str) -> Result<Vec<String>, Error> {
        if let Ok(noted) = fs_err::read_to_string(self.listing(commit)) {
            return Ok(noted.lines().filter(|path| is_safe(path)).map(str::to_owned).collect());
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

    /// Makes the file of a commit point to a blob.
    pub(crate) fn link(&self, commit: &str, path: &str, etag: &str) -> Result<(), Error> {
        let pointer = self.snapshot(commit).join(path);
        let link = || -> io::Result<()> {
            let parent = pointer.parent().unwrap_or(&self.folder);
            fs_err::create_dir_all(parent)?;
            if pointer.is_file() {
                return Ok(());
            }
            // A link that points nowhere is left from a blob that was deleted.
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

/// Adds the files below a folder as relative paths.
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

/// Writes a file such that no reader ever sees a part of it.
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

/// Waits for the lock of a file, which ends with the value; `waits` is called if another process holds it.
pub(crate) fn lock(path: &Path, waits: impl FnOnce()) -> Result<File, Error> {
    let lock = || -> io::Result<File> {
        fs_err::create_dir_all(path.parent().unwrap_or(path))?;
        let file = File::options().create(true).truncate(false).write(true).open(path)?;
        // Locking a file twice can block forever on some systems.
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                waits();
                file.lock()?;
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        Ok(file)
    };
    lock().map_err(|error| Error::io(path, error))
}

/// Temporary files are private; files in the cache are as readable as any new file.
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
    fn layout() {
        let root = tempfile::tempdir().unwrap();
        let cache = RepositoryCache::new(root.path(), Kind::Dataset, "org/name");
        let commit = "a".repeat(40);
        assert_eq!(cache.commit("main"), None);
        cache.remember("main", &commit).unwrap();
        cache.remember("refs/convert/parquet", &commit).unwrap();
        assert_eq!(cache.commit("main"), Some(commit.clone()));
        assert_eq!(cache.commit("refs/convert/parquet"), Some(commit.clone()));
        fs_err::create_dir_all(root.path().join("datasets--org--name/blobs")).unwrap();
        fs_err::write(cache.blob("e"), "text").unwrap();
        cache.link(&commit, "data/x.txt", "e").unwrap();
        cache.link(&commit, "data/x.txt", "e").unwrap();
        let pointer = cache.snapshot(&commit).join("data/x.txt");
        assert_eq!(fs_err::read_to_string(&pointer).unwrap(), "text");
        assert_eq!(fs_err::read_link(&pointer).unwrap().to_str(), Some("../../../blobs/e"));
        drop(lock(&cache.lock_file("e"), || panic!("nobody holds it")).unwrap());
        assert_eq!(cache.files(&commit).unwrap(), ["data/x.txt"]);
        cache.remember_files(&commit, &["data/x.txt".into(), "y".into()]).unwrap();
        assert_eq!(cache.files(&commit).unwrap(), ["data/x.txt", "y"]);
        assert!(cache.files(&"b".repeat(40)).unwrap().is_empty());
        assert_eq!(cache.commit("../main"), None);
        assert!(root.path().join(".locks/datasets--org--name/e.lock").is_file());
        assert!(is_safe("a/b.c") && !is_safe("../a") && !is_safe("/a") && !is_safe("") && !is_safe("a//b"));
    }
}
