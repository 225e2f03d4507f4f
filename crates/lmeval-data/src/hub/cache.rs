//! The cache on disk, in the layout of `huggingface_hub`: blobs by ETag, links to them by commit and path.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// The cache of one repository.
#[derive(Clone, Debug)]
pub(super) struct RepositoryCache {
    folder: PathBuf,
    locks: PathBuf,
}

/// Whether a text is the hash of a commit.
pub(super) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a path stays below the folder that it is joined to.
pub(super) fn is_safe(path: &str) -> bool {
    let parts = || path.split(['/', '\\']);
    !path.is_empty()
        && parts().all(|part| !part.is_empty() && part != "." && part != "..")
        && !path.contains(':')
}

impl RepositoryCache {
    pub(super) fn new(cache: &Path, id: &str) -> Self {
        let name = format!("datasets--{}", id.replace('/', "--"));
        Self { folder: cache.join(&name), locks: cache.join(".locks").join(name) }
    }

    /// The commit that a revision stood for when it was last asked for.
    pub(super) fn commit(&self, revision: &str) -> Option<String> {
        if is_commit(revision) {
            return Some(revision.to_owned());
        }
        let kept = fs_err::read_to_string(self.folder.join("refs").join(revision)).ok()?;
        Some(kept.trim().to_owned()).filter(|commit| is_commit(commit))
    }

    /// Notes the commit of a revision.
    pub(super) fn remember(&self, revision: &str, commit: &str) -> Result<(), Error> {
        if revision == commit || !is_safe(revision) || self.commit(revision).as_deref() == Some(commit) {
            return Ok(());
        }
        let path = self.folder.join("refs").join(revision);
        let write = || -> io::Result<()> {
            let parent = path.parent().unwrap_or(&self.folder);
            fs_err::create_dir_all(parent)?;
            let mut file = tempfile::NamedTempFile::new_in(parent)?;
            io::Write::write_all(&mut file, commit.as_bytes())?;
            share(file.as_file())?;
            file.persist(&path)?;
            Ok(())
        };
        write().map_err(|error| Error::io(&path, error))
    }

    /// The folder with the files of a commit.
    pub(super) fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    pub(super) fn blob(&self, etag: &str) -> PathBuf {
        self.folder.join("blobs").join(etag)
    }

    /// Waits for the right to write a blob, which Python processes wait for as well. It ends with the file.
    pub(super) fn lock(&self, etag: &str) -> Result<File, Error> {
        let path = self.locks.join(format!("{etag}.lock"));
        let lock = || -> io::Result<File> {
            fs_err::create_dir_all(&self.locks)?;
            let file = File::options().create(true).truncate(false).write(true).open(&path)?;
            file.lock()?;
            Ok(file)
        };
        lock().map_err(|error| Error::io(&path, error))
    }

    /// Makes the file of a commit point to a blob.
    pub(super) fn link(&self, commit: &str, path: &str, etag: &str) -> Result<(), Error> {
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

/// Temporary files are private; files in the cache are as readable as any new file.
#[cfg(unix)]
pub(super) fn share(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
pub(super) fn share(_file: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout() {
        let root = tempfile::tempdir().unwrap();
        let cache = RepositoryCache::new(root.path(), "org/name");
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
        drop(cache.lock("e").unwrap());
        assert!(root.path().join(".locks/datasets--org--name/e.lock").is_file());
        assert!(is_safe("a/b.c") && !is_safe("../a") && !is_safe("/a") && !is_safe("") && !is_safe("a//b"));
    }
}
