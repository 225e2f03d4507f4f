//! The index of a samples file, built in the background while rows are already served.

use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use fs_err as fs;
use lmeval_analysis::read::{read_exact_at, samples_change};
use lmeval_analysis::samples::OutcomeRule;
use lmeval_core::Diagnostic;
use lmeval_scoring::results::LinesChecksum;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

use crate::Error;
use crate::api::{BadLine, IndexState};
use crate::catalog::Version;
use crate::media::Previews;
use crate::scan::{Columns, is_complete, scan};

/// Bytes of the first block: its rows are on the page before the rest is read.
const FIRST_BLOCK: usize = 256 << 10;

/// Bytes of the others, of which several are in memory at a time.
const BLOCK: usize = 4 << 20;

/// Blocks that are parsed in parallel.
const BLOCKS: usize = 4;

/// Memory of all indexes together, above which those not used for longest are dropped.
const MEMORY: usize = 120 << 20;

/// Bytes of one line that are read for a page. A longer line is shown as unreadable instead of filling the memory.
const LONGEST_LINE: u64 = 256 << 20;

/// The part of a file that was read so far.
pub(crate) struct State {
    pub(crate) columns: Columns,
    /// The offset up to which the file was read.
    pub(crate) end: u64,
    pub(crate) is_complete: bool,
    /// Grows whenever rows are added: results computed from an earlier state are stale.
    pub(crate) generation: u64,
    /// The version of the file that is read.
    version: Version,
    /// The incomplete last line.
    unfinished: Option<String>,
    error: Option<String>,
    /// The checksum that the file had when the run wrote it, and its name.
    written: Option<(LinesChecksum, String)>,
}

/// The index of one file.
pub(crate) struct FileIndex {
    pub(crate) path: PathBuf,
    /// Distinguishes indexes, also those of earlier contents of the same file.
    pub(crate) id: u64,
    rule: OutcomeRule,
    state: Mutex<State>,
    changed: Condvar,
    previews: OnceLock<Previews>,
}

impl FileIndex {
    fn start(path: PathBuf, version: Version, rule: OutcomeRule) -> Arc<Self> {
        let state = State {
            columns: Columns::default(),
            end: 0,
            is_complete: false,
            generation: 0,
            version,
            unfinished: None,
            error: None,
            written: None,
        };
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let index = Arc::new(Self {
            path,
            id,
            rule,
            state: Mutex::new(state),
            changed: Condvar::new(),
            previews: OnceLock::new(),
        });
        index.spawn();
        index
    }

    /// The small versions of images and sounds beside the file; they are written when the task is complete.
    pub(crate) fn previews(&self) -> Option<&Previews> {
        if let Some(known) = self.previews.get() {
            return Some(known);
        }
        let found = Previews::beside(&self.path)?;
        Some(self.previews.get_or_init(|| found))
    }

    /// Reads what was appended to the file since it was read.
    fn extend(self: &Arc<Self>, version: Version) {
        let mut state = self.lock();
        state.version = version;
        state.is_complete = false;
        state.unfinished = None;
        state.error = None;
        drop(state);
        self.spawn();
    }

    fn spawn(self: &Arc<Self>) {
        let own = Arc::clone(self);
        let finish = |index: &Self, error: Option<String>| {
            let mut state = index.lock();
            state.error = error;
            state.is_complete = true;
            state.generation += 1;
            index.changed.notify_all();
        };
        let build = move || {
            // Readers wait for the end, also if a line makes a parser panic.
            let built = catch_unwind(AssertUnwindSafe(|| own.build()));
            let error = match built {
                Ok(built) => built.err().map(|error| error.to_string()),
                Err(_) => Some("reading the file failed because of a bug in lm-eval".to_owned()),
            };
            finish(&own, error);
        };
        if let Err(error) = std::thread::Builder::new().name("index".to_owned()).spawn(build) {
            finish(self, Some(error.to_string()));
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `enough`, the file is read, or the time is over.
    pub(crate) fn wait(&self, limit: Duration, enough: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let deadline = Instant::now() + limit;
        let mut state = self.lock();
        while !state.is_complete && !enough(&state) {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { break };
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }

    fn build(&self) -> std::io::Result<()> {
        let mut file = fs::File::open(&self.path)?;
        let (mut offset, total) = {
            let state = self.lock();
            (state.end, state.version.size)
        };
        // Lines appended meanwhile are read next time.
        file.seek(SeekFrom::Start(offset))?;
        let mut reader = BufReader::with_capacity(1 << 18, file.take(total.saturating_sub(offset)));
        let mut size = FIRST_BLOCK;
        loop {
            let blocks = read_blocks(&mut reader, size)?;
            size = BLOCK;
            let Some(last) = blocks.last() else { break };
            let mut starts = Vec::with_capacity(blocks.len());
            let mut at = offset;
            for block in &blocks {
                starts.push(at);
                at += block.lines.len() as u64 + block.skipped;
            }
            let rest = unfinished(&last.lines).map(|line| (line.len() as u64, line.len()));
            let parts: Vec<Columns> = blocks
                .par_iter()
                .zip(&starts)
                .map(|(Block { lines, skipped }, start)| {
                    let whole = if at == start + lines.len() as u64 + skipped {
                        &lines[..lines.len() - rest.map_or(0, |(_, length)| length)]
                    } else {
                        &lines[..]
                    };
                    scan(whole, *start, *start == 0, &self.rule)
                })
                .collect();
            let mut state = self.lock();
            for part in parts {
                state.columns.append(part);
            }
            offset = at - rest.map_or(0, |(bytes, _)| bytes);
            state.end = offset;
            state.unfinished =
                rest.map(|(bytes, _)| format!("ends in the middle of a sample, after {bytes} bytes"));
            state.generation += 1;
            self.changed.notify_all();
            if rest.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// How much of the file was read, and what was wrong with it.
    pub(crate) fn progress(state: &State) -> IndexState {
        let next = state.columns.lines;
        let bad = state.columns.bad.iter().map(|(line, error)| (*line, error));
        let bad = bad.chain(state.unfinished.iter().chain(&state.error).map(|error| (next, error)));
        IndexState {
            complete: state.is_complete,
            bytes: state.end,
            total_bytes: state.version.size,
            bad_lines: bad.map(|(line, error)| BadLine { line: line + 1, error: error.clone() }).collect(),
            changed: Self::change(state),
        }
    }

    /// Changes of the file since the run wrote it, once it is read.
    pub(crate) fn change(state: &State) -> Option<String> {
        let (written, name) = state.written.as_ref().filter(|_| state.is_complete)?;
        samples_change(name, *written, state.columns.checksum)
    }

    /// The line at an offset.
    pub(crate) fn line(&self, offset: u64, length: u32) -> Result<String, Error> {
        let file = fs::File::open(&self.path).map_err(|error| Diagnostic::new(error.to_string()))?;
        read_line(&file, offset, length)
    }
}

/// Reads a line by its offset and length.
pub(crate) fn read_line(file: &fs::File, offset: u64, length: u32) -> Result<String, Error> {
    let bytes = read_bytes(file, offset, u64::from(length))?;
    String::from_utf8(bytes).map_err(|_| changed().into())
}

/// Reads a part of a file.
pub(crate) fn read_bytes(file: &fs::File, offset: u64, length: u64) -> Result<Vec<u8>, Error> {
    if length > LONGEST_LINE {
        return Err(Diagnostic::new(format!("The line has {length} bytes, too many to show")).into());
    }
    let mut bytes = vec![0; length as usize];
    read_exact_at(file.file(), &mut bytes, offset).map_err(|_| changed())?;
    Ok(bytes)
}

fn changed() -> Diagnostic {
    Diagnostic::new("The file changed while it was read").hint("Reload the page to read it again")
}

/// A last line without a line feed that is not a whole sample: it is still being written.
fn unfinished(block: &[u8]) -> Option<&[u8]> {
    let start = memchr::memrchr(b'\n', block).map_or(0, |position| position + 1);
    let line = &block[start..];
    (!line.trim_ascii().is_empty() && !is_complete(line.trim_ascii())).then_some(line)
}

/// Whole lines, of which the last may be cut.
struct Block {
    lines: Vec<u8>,
    /// Bytes of the last line that are not in memory.
    skipped: u64,
}

/// The next blocks of whole lines.
fn read_blocks(reader: &mut impl std::io::BufRead, size: usize) -> std::io::Result<Vec<Block>> {
    let mut blocks = Vec::with_capacity(BLOCKS);
    let count = if size == FIRST_BLOCK { 1 } else { BLOCKS };
    for _ in 0..count {
        let mut block = Vec::with_capacity(size + (1 << 16));
        reader.take(size as u64).read_to_end(&mut block)?;
        if block.is_empty() {
            break;
        }
        let mut skipped = 0;
        if block.last() != Some(&b'\n') {
            reader.take(LONGEST_LINE).read_until(b'\n', &mut block)?;
            if block.last() != Some(&b'\n') && block.len() as u64 > LONGEST_LINE {
                // The rest of a line that nobody could be shown. Its beginning counts as a line that cannot be read.
                skipped = reader.skip_until(b'\n')? as u64;
                block.push(b'\n');
                skipped = skipped.saturating_sub(1);
            }
        }
        blocks.push(Block { lines: block, skipped });
    }
    Ok(blocks)
}

/// Indexes by file, with the count at which they were used last.
type Known = FxHashMap<PathBuf, (u64, Arc<FileIndex>)>;

/// The indexes in memory, with a counter that says which were used last.
#[derive(Default)]
pub(crate) struct Indexes {
    known: Mutex<(u64, Known)>,
}

impl Indexes {
    /// The index of a file, started or continued if the file is new or has grown.
    ///
    /// `path` has to be checked already. `rule` decides outcomes; `written` is the checksum that the file had
    /// when the run wrote it.
    pub(crate) fn get(
        &self,
        path: &Path,
        rule: &OutcomeRule,
        written: Option<LinesChecksum>,
    ) -> Result<Arc<FileIndex>, Error> {
        let index = self.find(path, rule)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        index.lock().written = written.map(|written| (written, name));
        Ok(index)
    }

    fn find(&self, path: &Path, rule: &OutcomeRule) -> Result<Arc<FileIndex>, Error> {
        let version = Version::of(path)
            .map_err(|error| Diagnostic::new(format!("Cannot read `{}`", path.display())).caused_by(error))?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.0 += 1;
        let now = known.0;
        if let Some((used, index)) = known.1.get_mut(path) {
            *used = now;
            let (before, is_complete) = {
                let state = index.lock();
                (state.version, state.is_complete)
            };
            if before == version || (version.continues(before) && !is_complete) {
                return Ok(Arc::clone(index));
            }
            if version.continues(before) {
                index.extend(version);
                return Ok(Arc::clone(index));
            }
        }
        let index = FileIndex::start(path.to_owned(), version, rule.clone());
        known.1.insert(path.to_owned(), (now, Arc::clone(&index)));
        evict(&mut known.1, path);
        Ok(index)
    }
}

/// Drops the indexes that were not used for longest while all of them take too much memory.
fn evict(known: &mut Known, newest: &Path) {
    loop {
        let total: usize = known.values().map(|(_, index)| index.lock().columns.bytes()).sum();
        let oldest =
            known.iter().filter(|(path, _)| path.as_path() != newest).min_by_key(|(_, (used, _))| *used);
        match oldest.map(|(path, _)| path.clone()) {
            Some(path) if total > MEMORY => drop(known.remove(&path)),
            _ => return,
        }
    }
}
