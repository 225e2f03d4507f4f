//! Data files: bytes in memory or on disk, decompressed on opening.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;

use crate::error::Error;

/// Files up to this size in bytes are held in memory.
const IN_MEMORY: u64 = 1 << 20;

/// The size in bytes that any compressed file may unpack to. Larger results may be at most `RATIO` times the size
/// of the file: text compresses to a hundredth at best, decompression bombs to far less.
const UNPACKED: u64 = 4 << 30;
const RATIO: u64 = 200;

/// The maximum number of files held open; a dataset may have more files than a process may open.
const HANDLES: usize = 256;

/// The bytes that are read ahead of a thread that reads one row after another.
const AHEAD: usize = 16 << 10;

/// Bytes of a file that a thread read last.
#[derive(Default)]
struct Window {
    /// Identifies the file; no other one gets its address as long as this exists.
    file: Weak<DiskFile>,
    start: u64,
    bytes: Bytes,
}

thread_local! {
    static WINDOW: RefCell<Window> = RefCell::default();
}

static OPEN: AtomicUsize = AtomicUsize::new(0);

/// A file with random access from any thread.
#[derive(Clone, Debug)]
pub(crate) struct DataFile {
    name: Arc<str>,
    length: u64,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    Memory(Bytes),
    Disk(Arc<DiskFile>),
}

/// A file on disk. Reopened for every read if too many files are open.
#[derive(Debug)]
enum DiskFile {
    Open(File),
    Closed(PathBuf),
}

impl DiskFile {
    /// Holds the file open if the limit allows. A file without a path is always held open.
    fn new(file: File, path: Option<PathBuf>) -> Self {
        match path {
            Some(path) if OPEN.load(Ordering::Relaxed) >= HANDLES => Self::Closed(path),
            _ => {
                OPEN.fetch_add(1, Ordering::Relaxed);
                Self::Open(file)
            }
        }
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            Self::Open(file) => read_exact_at(file, buffer, offset),
            Self::Closed(path) => read_exact_at(&File::open(path)?, buffer, offset),
        }
    }
}

impl Drop for DiskFile {
    fn drop(&mut self) {
        if matches!(self, Self::Open(_)) {
            OPEN.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl DataFile {
    /// Opens a file on disk; its path is its name in messages.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(|source| Error::io(path, source))?;
        Self::from_disk(path.display().to_string().into(), file, Some(path.into()))
    }

    /// A file in memory.
    pub(crate) fn from_memory(name: impl Into<Arc<str>>, content: impl Into<Bytes>) -> Self {
        let content = content.into();
        Self { name: name.into(), length: content.len() as u64, content: Content::Memory(content) }
    }

    fn from_disk(name: Arc<str>, mut file: File, path: Option<PathBuf>) -> Result<Self, Error> {
        let fail = |source| Error::io(&*name, source);
        let length = file.seek(SeekFrom::End(0)).map_err(fail)?;
        if length > IN_MEMORY {
            let content = Content::Disk(Arc::new(DiskFile::new(file, path)));
            return Ok(Self { name, length, content });
        }
        file.rewind().map_err(fail)?;
        let mut content = Vec::with_capacity(length as usize);
        file.read_to_end(&mut content).map_err(fail)?;
        Ok(Self::from_memory(name, content))
    }

    /// The name in messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn len(&self) -> u64 {
        self.length
    }

    /// Reads bytes at an offset; fewer than requested only at the end of the file.
    pub(crate) fn read_at(&self, offset: u64, length: usize) -> Result<Bytes, Error> {
        let available = self.length.saturating_sub(offset).min(length as u64) as usize;
        match &self.content {
            Content::Memory(bytes) => {
                let start = offset.min(self.length) as usize;
                Ok(bytes.slice(start..start + available))
            }
            Content::Disk(file) => {
                let mut buffer = vec![0; available];
                file.read_exact_at(&mut buffer, offset).map_err(|source| Error::io(self.name(), source))?;
                Ok(buffer.into())
            }
        }
    }

    /// Like [`DataFile::read_at`], for rows: those after a row are read with it if the thread reads one after another.
    pub(crate) fn read_row(&self, offset: u64, length: usize) -> Result<Bytes, Error> {
        let Content::Disk(file) = &self.content else { return self.read_at(offset, length) };
        WINDOW.with_borrow_mut(|window| {
            let is_own = std::ptr::eq(window.file.as_ptr(), Arc::as_ptr(file)) && offset >= window.start;
            let distance = usize::try_from(offset.wrapping_sub(window.start)).unwrap_or(usize::MAX);
            if is_own && distance.saturating_add(length) <= window.bytes.len() {
                return Ok(window.bytes.slice(distance..distance + length));
            }
            let is_next = is_own && distance <= window.bytes.len() + AHEAD;
            let bytes = self.read_at(offset, if is_next { length.max(AHEAD) } else { length })?;
            let row = bytes.slice(..length.min(bytes.len()));
            *window = Window { file: Arc::downgrade(file), start: offset, bytes };
            Ok(row)
        })
    }

    /// Reads the complete file.
    pub(crate) fn read_all(&self) -> Result<Bytes, Error> {
        self.read_at(0, usize::try_from(self.length).unwrap_or(usize::MAX))
    }

    /// The line that contains an offset, from 1.
    pub(crate) fn line_of(&self, offset: u64) -> Result<u64, Error> {
        let mut lines = 1;
        let mut at = 0;
        while at < offset.min(self.length) {
            let block = self.read_at(at, (offset - at).min(1 << 20) as usize)?;
            lines += memchr::memchr_iter(b'\n', &block).count() as u64;
            at += block.len() as u64;
        }
        Ok(lines)
    }

    /// Decompresses the file if it is compressed; an archive gives several files.
    pub(crate) fn decompress(self) -> Result<Vec<Self>, Error> {
        let head = self.read_at(0, 6)?;
        let fail = |source| Error::io(self.name(), source);
        let reader = self.reader();
        let stream: Box<dyn Read> = match &*head {
            [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(reader)),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::stream::read::Decoder::new(reader).map_err(fail)?),
            [b'B', b'Z', b'h', ..] => Box::new(bzip2::read::MultiBzDecoder::new(reader)),
            [0xfd, b'7', b'z', b'X', b'Z', 0] => Box::new(lzma_rust2::XzReader::new(reader, true)),
            [b'P', b'K', 3, 4, ..] => return self.unzip(),
            _ => return Ok(vec![self]),
        };
        Ok(vec![spool(self.name.clone(), stream, &mut self.unpacked_limit())?])
    }

    fn unzip(&self) -> Result<Vec<Self>, Error> {
        let fail = |source: zip::result::ZipError| Error::io(self.name(), io::Error::other(source));
        let mut archive = zip::ZipArchive::new(self.reader()).map_err(fail)?;
        let mut names: Vec<String> = archive
            .file_names()
            .map(|name| name.map(std::borrow::Cow::into_owned))
            .collect::<Result<_, _>>()
            .map_err(fail)?;
        let hidden = |name: &str| name.split('/').any(|part| part.starts_with('.') || part.starts_with("__"));
        names.retain(|name| !name.ends_with('/') && !hidden(name));
        names.sort_unstable();
        let mut files = Vec::with_capacity(names.len());
        let mut left = self.unpacked_limit();
        for name in names {
            let member = archive.by_name(&name).map_err(fail)?;
            files.push(spool(format!("{}:{name}", self.name).into(), member, &mut left)?);
        }
        Ok(files)
    }

    /// The maximum total size of everything in the file.
    fn unpacked_limit(&self) -> u64 {
        self.length.saturating_mul(RATIO).max(UNPACKED)
    }

    /// A reader from the start.
    pub(crate) fn reader(&self) -> Reader {
        Reader { file: self.clone(), at: 0, block: Bytes::new() }
    }

    #[cfg(test)]
    fn is_on_disk(&self) -> bool {
        matches!(self.content, Content::Disk(_))
    }
}

/// Reads a stream to its end, into memory or, if it is long, into an unnamed temporary file. Its size is
/// subtracted from the limit.
fn spool(name: Arc<str>, stream: impl Read, left: &mut u64) -> Result<DataFile, Error> {
    let fail = |source| Error::io(&*name, source);
    let limit = *left;
    let mut spend = |bytes: u64| {
        *left = left.checked_sub(bytes).ok_or_else(|| {
            let message = format!("it unpacks to more than {limit} bytes, which its size does not justify");
            fail(io::Error::new(io::ErrorKind::FileTooLarge, message))
        })?;
        Ok::<_, Error>(())
    };
    let mut stream = stream.take(limit.saturating_add(1));
    let mut start = Vec::new();
    stream.by_ref().take(IN_MEMORY + 1).read_to_end(&mut start).map_err(fail)?;
    spend(start.len() as u64)?;
    if start.len() as u64 <= IN_MEMORY {
        return Ok(DataFile::from_memory(name, start));
    }
    let mut file = tempfile::tempfile().map_err(fail)?;
    file.write_all(&start).map_err(fail)?;
    drop(start);
    spend(io::copy(&mut stream, &mut file).map_err(fail)?)?;
    DataFile::from_disk(name, file, None)
}

#[cfg(unix)]
fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, buffer, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                buffer = &mut buffer[count..];
                offset += count as u64;
            }
        }
    }
    Ok(())
}

/// A cursor over a [`DataFile`].
#[derive(Debug)]
pub(crate) struct Reader {
    file: DataFile,
    at: u64,
    block: Bytes,
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.block.is_empty() {
            self.block = self.file.read_at(self.at, 1 << 20).map_err(io::Error::other)?;
            self.at += self.block.len() as u64;
        }
        let count = Cursor::new(&self.block).read(buffer)?;
        self.block = self.block.slice(count..);
        Ok(count)
    }
}

impl Seek for Reader {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        let current = self.at - self.block.len() as u64;
        let target = match position {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::End(offset) => self.file.length.checked_add_signed(offset),
            SeekFrom::Current(offset) => current.checked_add_signed(offset),
        };
        self.at = target.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        self.block = Bytes::new();
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_compressed_files() {
        let text = b"one\ntwo\n".repeat(100);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(&text).unwrap();
        let mut bzip = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::default());
        bzip.write_all(&text).unwrap();
        let mut xz = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::default()).unwrap();
        xz.write_all(&text).unwrap();
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for name in ["b.txt", "a.txt", "__MACOSX/a.txt", ".hidden"] {
            zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(&text).unwrap();
        }
        let packed = [
            (gzip.finish().unwrap(), 1),
            (bzip.finish().unwrap(), 1),
            (xz.finish().unwrap(), 1),
            (zstd::encode_all(&*text, 0).unwrap(), 1),
            (zip.finish().unwrap().into_inner(), 2),
            (text.clone(), 1),
        ];
        for (content, count) in packed {
            let files = DataFile::from_memory("x", content).decompress().unwrap();
            assert_eq!(files.len(), count);
            assert!(files.iter().all(|file| file.read_all().unwrap() == text));
        }
        let cut = DataFile::from_memory("cut.gz", vec![0x1f, 0x8b, 8, 0]);
        assert!(cut.decompress().unwrap_err().to_string().contains("cut.gz"));
    }

    #[test]
    fn rows_read_ahead_are_those_of_their_file() {
        let file = |seed: u32| {
            let numbers = (0..300_000_u32).flat_map(|number| (number ^ seed).to_le_bytes());
            let content: Vec<u8> = numbers.collect();
            let length = content.len() as u64;
            let file = spool("rows".into(), &content[..], &mut { length }).unwrap();
            assert!(file.is_on_disk());
            (file, content)
        };
        for seed in 0..3 {
            // A file may get the address of the one before.
            let (file, content) = file(seed);
            let ordered = (0..2000).map(|row| row * 100);
            let backwards = (0..50).map(|row| 1_000_000 - row * 40);
            let ends = [content.len() - 7, 5, content.len() - 100, 0];
            for start in ordered.chain(backwards).chain(ends) {
                let length = 90.min(content.len() - start);
                assert_eq!(file.read_row(start as u64, length).unwrap(), content[start..start + length]);
            }
        }
    }

    #[test]
    fn limits_unpacked_size() {
        let zeros = || io::repeat(b'x').take(3 << 20);
        for limit in [10, 2 << 20] {
            let error = spool("bomb.gz".into(), zeros(), &mut { limit }).unwrap_err().to_string();
            assert!(error.contains("bomb.gz"), "{error}");
        }
        let mut left = 4 << 20;
        assert_eq!(spool("fine.gz".into(), zeros(), &mut left).unwrap().len(), 3 << 20);
        assert_eq!(left, 1 << 20);
        assert!(spool("second.gz".into(), zeros(), &mut left).is_err());
        assert_eq!(DataFile::from_memory("x", vec![0; 10]).unpacked_limit(), UNPACKED);
    }

    #[test]
    fn keeps_long_files_on_disk() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let block = vec![b'x'; 1 << 20];
        for _ in 0..9 {
            file.write_all(&block).unwrap();
        }
        file.write_all(b"\nend").unwrap();
        let data = DataFile::open(file.path()).unwrap();
        assert!(data.is_on_disk());
        assert_eq!(&data.read_at(9 << 20, 100).unwrap()[..], b"\nend");
        assert_eq!(data.line_of(data.len()).unwrap(), 2);
        let mut text = Vec::new();
        data.reader().read_to_end(&mut text).unwrap();
        assert_eq!(text.len() as u64, data.len());
        let many: Vec<DataFile> = (0..HANDLES + 10).map(|_| DataFile::open(file.path()).unwrap()).collect();
        assert!(many.iter().all(|file| file.read_at(9 << 20, 4).unwrap() == b"\nend"[..]));
    }
}
