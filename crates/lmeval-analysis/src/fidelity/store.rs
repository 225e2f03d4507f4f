//! Distributions on disk, between the first model and the second.
//!
//! Tokens are sorted into tiers by how far their log-probability is below the largest one, four nats each. The first tier has it in single
//! precision, each further one in fewer bits, because the error of a divergence is that of the log-probability times the probability. The ids
//! of a tier are gaps in a Rice code.

use std::io::{BufReader, BufWriter, Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use fs_err as fs;
use lmeval_core::{Diagnostic, Distribution};
use rustc_hash::FxHashMap;

use super::code::{decode, encode};
use crate::Error;

/// The first bytes of a file.
const MAGIC: &[u8; 8] = b"lmdist2\n";
/// The request of the record that ends a complete file.
const END: u32 = u32::MAX;
/// The position of the record with the tokens of a request.
const TOKENS: u32 = u32::MAX;
/// Bytes before the payload of a record: request, position and length.
const HEAD: usize = 12;
/// Bytes of a distribution before its tokens: the log-probability of the scored token, the largest one, the rest and the count.
pub(super) const FIXED: usize = 28;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The tokens of a request.
    Tokens(u32),
    /// The distribution at a position of a request.
    Distribution(u32, u32),
}

impl Kind {
    fn key(self) -> (u32, u32) {
        match self {
            Self::Tokens(request) => (request, TOKENS),
            Self::Distribution(request, position) => (request, position),
        }
    }
}

/// A distribution with the log-probability of the scored token.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// The log-probability of the scored token.
    pub logprob: f64,
    /// The distribution in its place.
    pub distribution: Distribution,
}

/// How large the distributions of a file are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreSize {
    /// The number of distributions.
    pub distributions: u64,
    /// The number of listed tokens of all distributions.
    pub listed: u64,
    /// Bytes of all records.
    pub bytes: u64,
}

/// The distributions of one model over the scored tokens of numbered requests.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    offsets: FxHashMap<(u32, u32), u64>,
    size: StoreSize,
    state: State,
}

#[derive(Debug)]
enum State {
    Writing { output: BufWriter<fs::File>, end: u64 },
    Reading(BufReader<fs::File>),
}

impl Store {
    /// Begins a file. `label` says what is in it: a complete file with another label is not used.
    pub fn create(path: &Path, label: &str) -> Result<Self, Error> {
        let partial = partial(path);
        let failed = |error| unwritable(&partial, error);
        let mut output = BufWriter::new(fs::File::create(&partial).map_err(failed)?);
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&(label.len() as u32).to_le_bytes());
        head.extend_from_slice(label.as_bytes());
        output.write_all(&head).map_err(failed)?;
        let state = State::Writing { output, end: head.len() as u64 };
        Ok(Self { path: path.to_owned(), offsets: FxHashMap::default(), size: StoreSize::default(), state })
    }

    /// Opens a complete file with this label; `None` if there is no such file.
    pub fn open(path: &Path, label: &str) -> Result<Option<Self>, Error> {
        let file = match fs::File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Diagnostic::cannot_read(path, error).into()),
        };
        let mut input = BufReader::with_capacity(1 << 18, file);
        // A damaged file is written again.
        let Some((offsets, size)) = index(&mut input, label) else { return Ok(None) };
        Ok(Some(Self { path: path.to_owned(), offsets, size, state: State::Reading(input) }))
    }

    /// Adds the tokens of a request, of which the last `scored` are scored.
    pub fn add_tokens(&mut self, request: u32, tokens: &[u32], scored: usize) -> Result<(), Error> {
        let mut payload = (scored as u32).to_le_bytes().to_vec();
        payload.extend(tokens.iter().flat_map(|token| token.to_le_bytes()));
        self.add(Kind::Tokens(request), &payload).map(drop)
    }

    /// Adds a distribution, unless there is one already.
    pub fn add_distribution(&mut self, request: u32, position: u32, stored: &Stored) -> Result<(), Error> {
        let (payload, listed) = encode(stored);
        if let Some(bytes) = self.add(Kind::Distribution(request, position), &payload)? {
            self.size.distributions += 1;
            self.size.listed += listed;
            self.size.bytes += bytes;
        }
        Ok(())
    }

    /// Adds a record unless it is there, and returns its size.
    fn add(&mut self, kind: Kind, payload: &[u8]) -> Result<Option<u64>, Error> {
        let State::Writing { output, end } = &mut self.state else { return Ok(None) };
        if self.offsets.contains_key(&kind.key()) {
            return Ok(None);
        }
        let written = write(output, kind.key(), payload);
        written.map_err(|error| unwritable(&partial(&self.path), error))?;
        self.offsets.insert(kind.key(), *end);
        let bytes = (HEAD + payload.len()) as u64;
        *end += bytes;
        Ok(Some(bytes))
    }

    /// Completes the file, which can be read from now on.
    pub fn finish(&mut self) -> Result<(), Error> {
        let State::Writing { output, .. } = &mut self.state else { return Ok(()) };
        let partial = partial(&self.path);
        let done = write(output, (END, END), &[]).and_then(|()| output.flush());
        done.map_err(|error| unwritable(&partial, error))?;
        fs::rename(&partial, &self.path).map_err(|error| unwritable(&self.path, error))?;
        let file = fs::File::open(&self.path).map_err(|error| Diagnostic::cannot_read(&self.path, error))?;
        self.state = State::Reading(BufReader::with_capacity(1 << 18, file));
        Ok(())
    }

    /// How large the distributions are.
    pub fn size(&self) -> StoreSize {
        self.size
    }

    /// The tokens of a request, and how many of them are scored; `None` if they are unknown.
    pub fn tokens(&mut self, request: u32) -> Result<Option<(Vec<u32>, usize)>, Error> {
        let Some(payload) = self.read(Kind::Tokens(request))? else { return Ok(None) };
        let mut numbers =
            payload.chunks_exact(4).map(|bytes| u32::from_le_bytes(std::array::from_fn(|i| bytes[i])));
        let scored = numbers.next().unwrap_or_default() as usize;
        Ok(Some((numbers.collect(), scored)))
    }

    /// The distribution at a position of a request; `None` if it is unknown.
    pub fn distribution(&mut self, request: u32, position: u32) -> Result<Option<Stored>, Error> {
        let Some(payload) = self.read(Kind::Distribution(request, position))? else { return Ok(None) };
        let stored = decode(&payload).ok_or_else(|| damaged(&self.path))?;
        Ok(Some(stored))
    }

    fn read(&mut self, kind: Kind) -> Result<Option<Vec<u8>>, Error> {
        let (Some(&offset), State::Reading(input)) = (self.offsets.get(&kind.key()), &mut self.state) else {
            return Ok(None);
        };
        let failed = |error| Diagnostic::cannot_read(&self.path, error);
        input.seek(SeekFrom::Start(offset)).map_err(failed)?;
        let mut head = [0; HEAD];
        input.read_exact(&mut head).map_err(failed)?;
        let mut payload = vec![0; number(&head, 8) as usize];
        input.read_exact(&mut payload).map_err(failed)?;
        Ok(Some(payload))
    }
}

/// Where a file is until it is complete.
fn partial(path: &Path) -> PathBuf {
    path.with_extension("part")
}

fn unwritable(path: &Path, error: std::io::Error) -> Diagnostic {
    Diagnostic::new(format!("Cannot write the distributions to `{}`", path.display()))
        .caused_by(error)
        .hint("They need much room; keep less of each with `--keep` or `--keep_most`, or ask about fewer documents with `--limit`")
}

fn damaged(path: &Path) -> Diagnostic {
    Diagnostic::new(format!("`{}` is damaged", path.display()))
        .hint("Delete it, and run the same command again")
}

fn write(
    output: &mut impl std::io::Write,
    (request, position): (u32, u32),
    payload: &[u8],
) -> std::io::Result<()> {
    for number in [request, position, payload.len() as u32] {
        output.write_all(&number.to_le_bytes())?;
    }
    output.write_all(payload)
}

pub(super) fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

type Index = (FxHashMap<(u32, u32), u64>, StoreSize);

/// Finds the records of a complete file with this label.
fn index(input: &mut BufReader<fs::File>, label: &str) -> Option<Index> {
    let mut head = [0; MAGIC.len() + 4];
    input.read_exact(&mut head).ok()?;
    let length = number(&head, MAGIC.len()) as usize;
    if !head.starts_with(MAGIC) || length != label.len() {
        return None;
    }
    let mut own = vec![0; length];
    input.read_exact(&mut own).ok()?;
    if own != label.as_bytes() {
        return None;
    }
    let mut offset = (head.len() + length) as u64;
    let mut offsets = FxHashMap::default();
    let mut size = StoreSize::default();
    loop {
        let mut head = [0; HEAD];
        input.read_exact(&mut head).ok()?;
        let (request, position, length) = (number(&head, 0), number(&head, 4), number(&head, 8));
        if request == END {
            return Some((offsets, size));
        }
        let length = length as usize;
        let mut read = 0;
        if position != TOKENS {
            let mut fixed = [0; FIXED];
            input.read_exact(&mut fixed).ok()?;
            read = FIXED;
            size.distributions += 1;
            size.listed += u64::from(number(&fixed, 24));
            size.bytes += (HEAD + length) as u64;
        }
        input.seek_relative(i64::try_from(length.checked_sub(read)?).ok()?).ok()?;
        offsets.insert((request, position), offset);
        offset += (HEAD + length) as u64;
    }
}

#[cfg(test)]
mod tests {
    use lmeval_core::Kept;

    use super::*;

    fn stored(shift: u16, share: f64) -> Stored {
        let logits: Vec<f32> = (0..3000_u16)
            .map(|index| (f32::from(index + shift) * 1.1).sin() * 7.0 - f32::from(index % 11))
            .collect();
        let distribution = Distribution::of_logits(&logits, Kept { share, most: usize::MAX, top: 0 });
        Stored { logprob: -1.5, distribution }
    }

    #[test]
    fn a_complete_file_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("of.distributions");
        let mut store = Store::create(&path, "label").unwrap();
        store.add_tokens(0, &[5, 6, 7], 2).unwrap();
        for position in [1, 0, 1] {
            store.add_distribution(0, position, &stored(position as u16, 0.99)).unwrap();
        }
        assert!(Store::open(&path, "label").unwrap().is_none(), "It is not complete");
        store.finish().unwrap();
        let mut again = Store::open(&path, "label").unwrap().unwrap();
        assert_eq!(again.size(), store.size());
        assert_eq!(again.size().distributions, 2);
        assert_eq!(fs::metadata(&path).unwrap().len(), again.size().bytes + 17 + 28 + 12);
        for store in [&mut store, &mut again] {
            assert_eq!(store.tokens(0).unwrap(), Some((vec![5, 6, 7], 2)));
            let found = store.distribution(0, 1).unwrap().unwrap();
            assert_eq!(found.distribution.best(), stored(1, 0.99).distribution.best());
            assert!(store.distribution(1, 0).unwrap().is_none());
        }
        assert!(Store::open(&path, "other").unwrap().is_none());
    }

    #[test]
    fn damaged_files_are_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("of.distributions");
        let mut store = Store::create(&path, "l").unwrap();
        store.add_distribution(0, 0, &stored(0, 0.5)).unwrap();
        store.finish().unwrap();
        let sound = fs::read(&path).unwrap();
        for length in 0..sound.len() {
            fs::write(&path, &sound[..length]).unwrap();
            assert!(Store::open(&path, "l").unwrap().is_none(), "{length}");
        }
    }
}
