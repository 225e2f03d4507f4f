//! Images and sounds as values.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};

/// What a [`Media`] contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MediaKind {
    /// A file with an image.
    Image,
    /// A file with a sound.
    Audio,
    /// Samples that Python code has decoded or computed, as a WAV file. Python sees a dictionary with `array` and
    /// `sampling_rate`.
    Samples,
}

impl MediaKind {
    /// The name in messages, samples and on the wire to Python.
    pub fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Audio => "audio",
            Self::Samples => "samples",
        }
    }

    /// The kind with a name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Image, Self::Audio, Self::Samples].into_iter().find(|kind| kind.name() == name)
    }
}

/// The bytes of a file that are part of a larger file, such as a cell of a Parquet file.
pub trait StoredBytes: Send + Sync {
    /// Reads them; they are not kept.
    fn read(&self) -> io::Result<Arc<[u8]>>;
}

/// An image or a sound: an encoded file in memory, on disk, or in a file of a dataset.
///
/// Python code sees what the `datasets` library gives it: an image of Pillow, or a decoded sound. What is not in memory is
/// read when its bytes are needed, and not kept.
#[derive(Clone)]
pub struct Media {
    kind: MediaKind,
    content: Content,
    name: Option<Arc<str>>,
    option: Option<Arc<str>>,
    digest: OnceLock<[u8; 32]>,
}

#[derive(Clone)]
enum Content {
    Bytes(Arc<[u8]>),
    File(Arc<Path>),
    Stored(Arc<dyn StoredBytes>),
}

impl Media {
    /// An encoded file in memory.
    pub fn from_bytes(kind: MediaKind, bytes: impl Into<Arc<[u8]>>) -> Self {
        Self::new(kind, Content::Bytes(bytes.into()))
    }

    /// A file on disk.
    pub fn from_file(kind: MediaKind, path: PathBuf) -> Self {
        Self::new(kind, Content::File(path.into()))
    }

    fn new(kind: MediaKind, content: Content) -> Self {
        Self { kind, content, name: None, option: None, digest: OnceLock::new() }
    }

    /// The same file, read from a dataset whenever its bytes are needed, instead of kept in memory.
    #[must_use]
    pub fn stored_as(&self, stored: Arc<dyn StoredBytes>) -> Self {
        Self { content: Content::Stored(stored), ..self.clone() }
    }

    /// Whether the bytes are in memory.
    pub fn is_in_memory(&self) -> bool {
        matches!(self.content, Content::Bytes(_))
    }

    /// Sets the file name that the dataset gives.
    #[must_use]
    pub fn named(self, name: Option<Arc<str>>) -> Self {
        Self { name, ..self }
    }

    /// Sets how a column is decoded: the mode of its images, or the sampling rate of its sounds.
    #[must_use]
    pub fn decoded_as(self, option: Option<Arc<str>>) -> Self {
        Self { option, ..self }
    }

    /// Whether this is an image or a sound.
    pub fn kind(&self) -> MediaKind {
        self.kind
    }

    /// The file name that the dataset gives, or the path on disk.
    pub fn name(&self) -> Option<String> {
        match (&self.name, &self.content) {
            (Some(name), _) => Some(name.to_string()),
            (None, Content::File(path)) => Some(path.display().to_string()),
            (None, Content::Bytes(_) | Content::Stored(_)) => None,
        }
    }

    /// How the column is decoded: the mode of its images, or the sampling rate of its sounds.
    pub fn option(&self) -> Option<&Arc<str>> {
        self.option.as_ref()
    }

    /// The bytes of the file, read unless they are in memory.
    pub fn bytes(&self) -> io::Result<Arc<[u8]>> {
        match &self.content {
            Content::Bytes(bytes) => Ok(Arc::clone(bytes)),
            Content::File(path) => Ok(fs_err::read(path)?.into()),
            Content::Stored(stored) => stored.read(),
        }
    }

    /// The SHA-256 of the bytes.
    pub fn digest(&self) -> io::Result<[u8; 32]> {
        if let Some(digest) = self.digest.get() {
            return Ok(*digest);
        }
        let digest = Sha256::digest(self.bytes()?).into();
        Ok(*self.digest.get_or_init(|| digest))
    }

    /// The SHA-256 in hexadecimal digits; of a file that cannot be read, its path.
    pub fn digest_text(&self) -> String {
        use fmt::Write as _;
        match self.digest() {
            Ok(digest) => digest.iter().fold(String::with_capacity(64), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            }),
            Err(_) => self.name().unwrap_or_default(),
        }
    }
}

impl PartialEq for Media {
    fn eq(&self, other: &Self) -> bool {
        let is_same_content = || match (&self.content, &other.content) {
            (Content::Bytes(one), Content::Bytes(other)) => one == other,
            (Content::File(one), Content::File(other)) => one == other,
            (Content::Stored(one), Content::Stored(other)) if Arc::ptr_eq(one, other) => true,
            _ => matches!((self.digest(), other.digest()), (Ok(one), Ok(other)) if one == other),
        };
        self.kind == other.kind && self.option == other.option && is_same_content()
    }
}

impl fmt::Debug for Media {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

/// Python's `repr` of such objects has an address; ours has the digest.
impl fmt::Display for Media {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "<{} sha256:{}>", self.kind.name(), self.digest_text())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn files_and_bytes_have_the_same_digest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.png");
        fs_err::write(&path, b"pixels").unwrap();
        let file = Media::from_file(MediaKind::Image, path.clone());
        let memory = Media::from_bytes(MediaKind::Image, b"pixels".as_slice()).named(Some("b.png".into()));
        assert_eq!(file.digest().unwrap(), memory.digest().unwrap());
        assert_eq!(file.to_string(), memory.to_string());
        assert!(file.to_string().starts_with("<image sha256:"), "{file}");
        assert_eq!(memory.name().as_deref(), Some("b.png"));
        fs_err::remove_file(&path).unwrap();
        assert!(file.bytes().is_err());
        assert!(file.digest().is_ok(), "the digest is kept");
        let missing = Media::from_file(MediaKind::Audio, path);
        assert!(missing.to_string().contains("a.png"), "{missing}");
    }

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl StoredBytes for Counted {
        fn read(&self) -> io::Result<Arc<[u8]>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(b"pixels".as_slice().into())
        }
    }

    #[test]
    fn stored_files_are_read_when_needed() {
        let place = Arc::new(Counted::default());
        let memory = Media::from_bytes(MediaKind::Image, b"pixels".as_slice()).named(Some("b.png".into()));
        let stored = memory.stored_as(Arc::clone(&place) as Arc<dyn StoredBytes>);
        assert!(memory.is_in_memory() && !stored.is_in_memory());
        assert_eq!((stored.name(), place.0.load(Ordering::Relaxed)), (memory.name(), 0));
        assert_eq!(&*stored.bytes().unwrap(), b"pixels");
        assert_eq!(stored, memory);
        assert_eq!(stored.to_string(), memory.to_string());
        assert_eq!(place.0.load(Ordering::Relaxed), 2, "the digest is kept, the bytes are not");
    }
}
