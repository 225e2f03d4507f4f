//! Memory-mapped files.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memmap2::Mmap;

use crate::error::{Error, Result};

/// The bytes of all files that are mapped now.
static MAPPED: AtomicUsize = AtomicUsize::new(0);

/// The bytes of weights that are mapped now, and stay in memory only as long as there is room for them.
pub(crate) fn mapped_bytes() -> usize {
    MAPPED.load(Ordering::Relaxed)
}

/// A memory-mapped file.
pub(super) struct Mapped {
    pub(super) path: PathBuf,
    pub(super) bytes: Mmap,
}

impl Mapped {
    /// Maps a file.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = fs_err::File::open(path).map_err(|error| Error::file(path, error))?;
        // SAFETY: the file is only read. Truncating it while it is mapped kills this process, as with any memory map.
        #[expect(unsafe_code, reason = "weights are read without copying them")]
        let bytes = unsafe { Mmap::map(file.file()) }.map_err(|error| Error::file(path, error))?;
        MAPPED.fetch_add(bytes.len(), Ordering::Relaxed);
        Ok(Self { path: path.to_owned(), bytes })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        MAPPED.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

/// Some bytes of a mapped file, which stays mapped as long as they are in use.
#[derive(Clone)]
pub(super) struct MappedBytes {
    file: Arc<Mapped>,
    range: Range<usize>,
}

impl MappedBytes {
    /// Bytes in the file.
    pub(super) fn new(file: &Arc<Mapped>, range: Range<usize>) -> Self {
        Self { file: Arc::clone(file), range }
    }
}

impl AsRef<[u8]> for MappedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.file.bytes[self.range.clone()]
    }
}
