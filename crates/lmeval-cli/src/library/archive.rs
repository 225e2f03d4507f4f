//! Unpacks the task folder of a wheel or source archive.

use std::collections::BTreeSet;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

use anyhow::{Context, Result, bail};
use flate2::read::MultiGzDecoder;
use fs_err as fs;
use lmeval::library::{TASKS_FOLDER, Version};
use tar::EntryType;
use zip::ZipArchive;

use super::entry::{EntryKind, classify};
use super::target::Target;

/// The maximum size of the package metadata or of a long name, in bytes.
const MAX_AUXILIARY_BYTES: u64 = 1 << 20;

/// Archive formats, recognized by their first bytes and not by file name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Zip,
    Gzip,
    Tar,
}

impl Kind {
    fn of(start: &[u8]) -> Option<Self> {
        match start {
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Some(Self::Zip),
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            _ if start.get(257..262) == Some(b"ustar") => Some(Self::Tar),
            _ => None,
        }
    }
}

/// Information about an archive besides its files.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// The version in the package metadata.
    pub(super) version: Option<Version>,
    prefixes: BTreeSet<String>,
}

impl Contents {
    /// Records the folder a task file was found in; there must be only one.
    fn note_prefix(&mut self, prefix: String) -> Result<()> {
        self.prefixes.insert(prefix);
        if self.prefixes.len() > 1 {
            let folders: Vec<String> =
                self.prefixes.iter().map(|prefix| format!("`{}`", join(prefix))).collect();
            bail!("The archive contains several task folders: {}", folders.join(", "));
        }
        Ok(())
    }

    /// Reads the version from the package metadata, if it has a valid one.
    fn note_metadata(&mut self, description: impl Read) -> Result<()> {
        let mut text = Vec::new();
        description
            .take(MAX_AUXILIARY_BYTES)
            .read_to_end(&mut text)
            .context("Cannot read the package metadata")?;
        let text = String::from_utf8_lossy(&text);
        let mut header = text.lines().take_while(|line| !line.is_empty());
        let stated = header.find_map(|line| line.strip_prefix("Version:"));
        if self.version.is_none() {
            self.version = stated.and_then(|version| Version::parse(version.trim()).ok());
        }
        Ok(())
    }
}

fn join(prefix: &str) -> String {
    if prefix.is_empty() { TASKS_FOLDER.to_owned() } else { format!("{prefix}/{TASKS_FOLDER}") }
}

/// Unpacks the task folder of an archive.
pub(super) fn unpack(archive: &Path, target: &mut Target) -> Result<Contents> {
    let mut file = fs::File::open(archive)?;
    if file.metadata()?.len() > target.limits().total_bytes {
        bail!("The archive is larger than {} bytes", target.limits().total_bytes);
    }
    let mut start = Vec::new();
    file.by_ref().take(512).read_to_end(&mut start)?;
    file.rewind()?;
    let limit = target.limits().total_bytes;
    let contents = match Kind::of(&start) {
        Some(Kind::Zip) => unpack_zip(BufReader::new(file), target),
        Some(Kind::Gzip) => {
            let unzipped = MultiGzDecoder::new(BufReader::new(file));
            unpack_complete_tar(&mut LimitedReader::new(unzipped, limit), target)
        }
        Some(Kind::Tar) => unpack_complete_tar(&mut LimitedReader::new(BufReader::new(file), limit), target),
        None => bail!("Not a wheel, zip file or tar archive (plain or gzipped)"),
    }?;
    if target.files() == 0 {
        bail!("No `{TASKS_FOLDER}` folder in the archive");
    }
    Ok(contents)
}

fn unpack_zip(reader: impl Read + Seek, target: &mut Target) -> Result<Contents> {
    let mut archive = ZipArchive::new(reader).context("The zip file is damaged")?;
    if archive.len() > target.limits().entries {
        bail!("The archive has more than {} entries", target.limits().entries);
    }
    if archive.has_duplicate_names() {
        bail!("The archive contains the same name twice");
    }
    let mut contents = Contents::default();
    for index in 0..archive.len() {
        // Other entries are never decompressed, so their compression method does not matter.
        let entry = archive.by_index_raw(index).context("The zip file is damaged")?;
        let name = entry.name_raw().to_vec();
        let kind = classify(&name)?;
        let regular = is_regular(entry.unix_mode()) && !entry.is_symlink();
        let folder = entry.is_dir();
        drop(entry);
        let open = || format!("Cannot unpack `{}`", name.escape_ascii());
        match kind {
            EntryKind::Task { prefix, path } if !folder => {
                if !regular {
                    bail!("The archive contains `{}`, which is a link or a device", path.display());
                }
                contents.note_prefix(prefix)?;
                target.write(&path, archive.by_index(index).with_context(open)?)?;
            }
            EntryKind::Metadata if !folder => {
                contents.note_metadata(archive.by_index(index).with_context(open)?)?;
            }
            _ => {}
        }
    }
    Ok(contents)
}

/// Whether a Unix mode is that of a regular file, or has no file type.
fn is_regular(mode: Option<u32>) -> bool {
    const TYPE_MASK: u32 = 0o170_000;
    const REGULAR: u32 = 0o100_000;
    mode.is_none_or(|mode| matches!(mode & TYPE_MASK, 0 | REGULAR))
}

/// Unpacks a tar archive and checks that it is complete: it ends with a block of zeros, and reading past that end
/// verifies the checksum of a gzip file.
fn unpack_complete_tar<R: Read>(reader: &mut LimitedReader<R>, target: &mut Target) -> Result<Contents> {
    let contents = unpack_tar(&mut *reader, target)?;
    io::copy(reader, &mut io::sink()).context("The tar archive is damaged")?;
    if reader.zeros < 512 {
        bail!("The tar archive is truncated");
    }
    Ok(contents)
}

fn unpack_tar(reader: impl Read, target: &mut Target) -> Result<Contents> {
    let mut archive = tar::Archive::new(reader);
    let mut contents = Contents::default();
    let mut long_name: Option<Vec<u8>> = None;
    // Long names are read here because the `tar` crate would hold one of any length in memory.
    for (index, entry) in archive.entries()?.raw(true).enumerate() {
        if index >= target.limits().entries {
            bail!("The archive has more than {} entries", target.limits().entries);
        }
        let mut entry = entry.context("The tar archive is damaged")?;
        let kind = entry.header().entry_type();
        match kind {
            EntryType::GNULongName => {
                let mut name = read_auxiliary(&mut entry)?;
                if name.last() == Some(&0) {
                    name.pop();
                }
                long_name = Some(name);
                continue;
            }
            EntryType::XHeader => {
                let text = read_auxiliary(&mut entry)?;
                long_name = extended_name(&text)?.or(long_name);
                continue;
            }
            EntryType::XGlobalHeader | EntryType::GNULongLink => continue,
            _ => {}
        }
        let name = long_name.take().unwrap_or_else(|| entry.path_bytes().into_owned());
        match classify(&name)? {
            EntryKind::Task { .. } | EntryKind::Metadata if kind.is_dir() => {}
            EntryKind::Task { path, .. } if !kind.is_file() => {
                bail!("The archive contains `{}`, which is a link or a device", path.display());
            }
            EntryKind::Task { prefix, path } => {
                contents.note_prefix(prefix)?;
                let size = entry.size();
                let mut counted = CountingReader { inner: entry, bytes: 0 };
                target.write(&path, &mut counted)?;
                if counted.bytes != size {
                    bail!("The tar archive is damaged: `{}` is truncated", path.display());
                }
            }
            EntryKind::Metadata if kind.is_file() => contents.note_metadata(entry)?,
            EntryKind::Metadata | EntryKind::Other => {}
        }
    }
    Ok(contents)
}

/// Reads an auxiliary entry, which is small in any legitimate archive.
fn read_auxiliary(entry: &mut impl Read) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    entry.take(MAX_AUXILIARY_BYTES + 1).read_to_end(&mut text).context("The tar archive is damaged")?;
    if text.len() as u64 > MAX_AUXILIARY_BYTES {
        bail!("The archive contains a name longer than {MAX_AUXILIARY_BYTES} bytes");
    }
    Ok(text)
}

/// The `path` of an extended header, if it has one.
fn extended_name(text: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut name = None;
    for record in tar::PaxExtensions::new(text) {
        let record = record.context("The tar archive is damaged")?;
        match record.key_bytes() {
            b"path" => name = Some(record.value_bytes().to_vec()),
            // Only files of 8 GiB and more need it; here it would hide where the next entry begins.
            b"size" => {
                bail!("The archive states the size of an entry in an extended header, which is not supported")
            }
            _ => {}
        }
    }
    Ok(name)
}

/// Counts the bytes read.
struct CountingReader<R> {
    inner: R,
    bytes: u64,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.bytes += read as u64;
        Ok(read)
    }
}

/// Fails once more than the allowed number of bytes is read, and counts trailing zeros.
struct LimitedReader<R> {
    inner: R,
    left: u64,
    zeros: usize,
}

impl<R> LimitedReader<R> {
    fn new(inner: R, limit: u64) -> Self {
        Self { inner, left: limit, zeros: 0 }
    }
}

impl<R: Read> Read for LimitedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            io::Error::new(io::ErrorKind::FileTooLarge, "The unpacked archive exceeds the size limit")
        })?;
        let zeros = buffer[..read].iter().rev().take_while(|byte| **byte == 0).count();
        self.zeros = if zeros == read { self.zeros.saturating_add(zeros) } else { zeros };
        Ok(read)
    }
}
