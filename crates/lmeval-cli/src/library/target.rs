//! Writes untrusted files below one folder, within limits.

use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use fs_err as fs;

/// Limits for unpacking. The public library has about 16,000 files and 60 MB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The number of files written.
    pub(crate) files: usize,
    /// The number of entries examined, task files or not.
    pub(crate) entries: usize,
    /// The size of one file.
    pub(crate) file_bytes: u64,
    /// The total size of everything read from an archive or folder.
    pub(crate) total_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { files: 200_000, entries: 1_000_000, file_bytes: 256 << 20, total_bytes: 2 << 30 }
    }
}

/// A folder that task files are written to; nothing is ever written outside it.
#[derive(Debug)]
pub(super) struct Target {
    folder: PathBuf,
    limits: Limits,
    files: usize,
    bytes: u64,
}

impl Target {
    /// Creates a target folder, which must be new so that it contains no links made by others.
    pub(super) fn create(folder: PathBuf, limits: Limits) -> Result<Self> {
        fs::create_dir_all(&folder)?;
        Ok(Self { folder, limits, files: 0, bytes: 0 })
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// The number of files written so far.
    pub(super) fn files(&self) -> usize {
        self.files
    }

    /// Writes one new file, counting actual bytes rather than those a header promises.
    pub(super) fn write(&mut self, path: &Path, content: impl Read) -> Result<()> {
        if !path.components().all(|part| matches!(part, Component::Normal(_))) || path.as_os_str().is_empty()
        {
            bail!("`{}` is not a path below a folder", path.display());
        }
        if self.files >= self.limits.files {
            bail!("There are more than {} files", self.limits.files);
        }
        let target = self.folder.join(path);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut file = match create(&target) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                bail!("`{}` occurs twice", path.display());
            }
            Err(error) => return Err(error).context("Cannot write the file"),
        };
        let allowed = self.limits.file_bytes.min(self.limits.total_bytes - self.bytes);
        let written = io::copy(&mut content.take(allowed.saturating_add(1)), &mut file)
            .with_context(|| format!("Cannot unpack `{}`", path.display()))?;
        if written > self.limits.file_bytes {
            bail!("`{}` is larger than {} bytes", path.display(), self.limits.file_bytes);
        }
        if written > allowed {
            bail!("The files exceed {} bytes in total", self.limits.total_bytes);
        }
        file.flush()?;
        self.bytes += written;
        self.files += 1;
        Ok(())
    }
}

/// Opens a file that must not exist, not even as a link; readable by all, executable by none.
fn create(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use fs_err::os::unix::fs::OpenOptionsExt;
        options.mode(0o644);
    }
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(folder: &Path) -> Target {
        let limits = Limits { files: 3, entries: 10, file_bytes: 8, total_bytes: 12 };
        Target::create(folder.join("new"), limits).unwrap()
    }

    #[test]
    fn writes_only_below_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let mut target = target(folder.path());
        target.write(Path::new("a/b.yaml"), &b"x: 1"[..]).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("new/a/b.yaml")).unwrap(), "x: 1");
        for evil in ["../x", "/tmp/x", "", ".", "a/../../x"] {
            assert!(target.write(Path::new(evil), &b"x"[..]).is_err(), "{evil:?}");
        }
        assert!(target.write(Path::new("a/b.yaml"), &b"x"[..]).unwrap_err().to_string().contains("twice"));
        assert!(target.write(Path::new("a/b.yaml/c"), &b"x"[..]).is_err());
        assert_eq!(target.files(), 1);
    }

    #[test]
    fn counts_files_and_actual_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let mut target = target(folder.path());
        assert!(
            target
                .write(Path::new("large"), &[0_u8; 9][..])
                .unwrap_err()
                .to_string()
                .contains("larger than 8")
        );
        target.write(Path::new("a"), &[0_u8; 8][..]).unwrap();
        let error = target.write(Path::new("b"), &[0_u8; 5][..]).unwrap_err();
        assert!(error.to_string().contains("12 bytes in total"), "{error}");
        target.write(Path::new("c"), &[0_u8; 4][..]).unwrap();
        target.write(Path::new("d"), io::empty()).unwrap();
        assert!(
            target.write(Path::new("e"), io::empty()).unwrap_err().to_string().contains("more than 3 files")
        );
    }

    #[cfg(unix)]
    #[test]
    fn files_are_not_executable_and_links_not_followed() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let mut target = target(folder.path());
        target.write(Path::new("a"), &b"x"[..]).unwrap();
        let mode = fs::metadata(folder.path().join("new/a")).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0);
        std::os::unix::fs::symlink(folder.path().join("outside"), folder.path().join("new/link")).unwrap();
        assert!(target.write(Path::new("link"), &b"x"[..]).is_err());
        assert!(!folder.path().join("outside").exists());
    }
}
