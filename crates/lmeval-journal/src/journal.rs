//! Opening, reading and appending to a journal.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, mpsc};

use lmeval_core::{Answer, ModelIdentity, RequestType};
use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind};
use crate::header::{self, Header};
use crate::index::Index;
use crate::key::{Fingerprint, Key};
use crate::lock::{Lock, beside};
use crate::medium::{Medium, write_up_to};
use crate::reader::{Located, read_answer};
use crate::record::{Entry, State, StoredData, StoredEntry, StoredModel};
use crate::scan::Damage;
use crate::survey::{Survey, first_bytes, read_header, survey};
use crate::writer::{Pending, Subject, Waiter, Writer};

/// An open journal, the only writer of its file.
///
/// Only the index is held in memory; answers are read from the file on demand.
pub struct Journal {
    path: PathBuf,
    writer: Writer,
    // Declared after the writer, so that the lock is released only after the last write.
    _lock: Option<Lock>,
}

/// The state of a journal when it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// The number of answered requests.
    pub answers: usize,
    /// The number of requests that failed and were never answered.
    pub failures: usize,
    /// The file size in bytes.
    pub bytes: u64,
    /// The size in bytes of an incomplete record truncated from the end, if any.
    pub repaired_bytes: Option<u64>,
    /// Damaged regions that are followed by valid records. They stay in the file until it is compacted.
    pub damage: Vec<Damage>,
    /// Whether the lock excludes other writers; false on file systems without locks.
    pub is_exclusive: bool,
}

impl Journal {
    /// Opens a journal; creates the file and its folders if they do not exist.
    ///
    /// An incomplete record at the end is truncated. Other damage is skipped and reported, but not removed.
    pub fn open(path: &Path) -> Result<(Self, Opened), Error> {
        let path = &resolve(path)?;
        let (lock, file) = open_locked(path)?;
        let survey = match read_header(&file, path)? {
            Header::Complete | Header::Damaged => survey(&file, path)?,
            Header::Unfinished => {
                let unfinished = first_bytes(&file, path)?.len() as u64;
                write_header(&file, path)?;
                let mut survey = Survey::default();
                (survey.scanned.end, survey.scanned.tail) = (header::SIZE as u64, unfinished);
                return Self::start(path, lock, file, survey);
            }
        };
        if survey.is_header_damaged {
            let (_, result) = write_up_to(&file, &header::encode(), 0);
            result.map_err(|source| Error::io("repair", path, source))?;
        }
        if survey.scanned.tail > 0 {
            file.set_len(survey.scanned.end).map_err(|source| Error::io("repair", path, source))?;
        }
        Self::start(path, lock, file, survey)
    }

    /// Opens a journal and discards its content.
    ///
    /// Fails without touching the file if it is not a journal.
    pub fn open_fresh(path: &Path) -> Result<(Self, Opened), Error> {
        let path = &resolve(path)?;
        let (lock, file) = open_locked(path)?;
        if !header::is_journal(&first_bytes(&file, path)?) {
            read_header(&file, path)?;
        }
        write_header(&file, path)?;
        let mut survey = Survey::default();
        survey.scanned.end = header::SIZE as u64;
        Self::start(path, lock, file, survey)
    }

    fn start(path: &Path, lock: Lock, file: File, survey: Survey) -> Result<(Self, Opened), Error> {
        let (answers, failures) = survey.index.counts();
        let opened = Opened {
            answers,
            failures,
            bytes: survey.scanned.end,
            repaired_bytes: Some(survey.scanned.tail).filter(|bytes| *bytes > 0),
            damage: survey.damage(),
            is_exclusive: lock.is_exclusive(),
        };
        let journal = Self::on(path, Some(lock), Arc::new(file), survey.index, survey.scanned.end)?;
        Ok((journal, opened))
    }

    pub(crate) fn on(
        path: &Path,
        lock: Option<Lock>,
        medium: Arc<dyn Medium>,
        index: Index,
        end: u64,
    ) -> Result<Self, Error> {
        let writer = Writer::start(path, medium, index, end)?;
        Ok(Self { path: path.to_owned(), writer, _lock: lock })
    }

    /// The canonical path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The numbers of answered requests and of requests with failures only.
    pub fn counts(&self) -> (usize, usize) {
        self.writer.shared().index.read().unwrap_or_else(PoisonError::into_inner).counts()
    }

    /// The number of answered requests of a model.
    pub fn answers_of(&self, model: Fingerprint) -> usize {
        self.writer.shared().index.read().unwrap_or_else(PoisonError::into_inner).answers_of(model)
    }

    /// Records the model in use, unless it was also the last one used, and returns its fingerprint.
    pub fn register_model(&self, identity: &ModelIdentity) -> Result<Fingerprint, Error> {
        self.register(StoredModel::from(identity))
    }

    /// The most recently used model that has the facts of `identity`, and besides them only
    /// [facts that a server reports](lmeval_core::REPORTED_FACTS).
    pub fn last_model(&self, identity: &ModelIdentity) -> Option<StoredModel> {
        self.last_model_where(identity, |_| true)
    }

    /// [`last_model`](Self::last_model) among those that fulfil a condition.
    pub fn last_model_where(
        &self,
        identity: &ModelIdentity,
        condition: impl Fn(&StoredModel) -> bool,
    ) -> Option<StoredModel> {
        let index = self.writer.shared().index.read().unwrap_or_else(PoisonError::into_inner);
        index.models().rev().find(|model| model.extends(identity) && condition(model)).cloned()
    }

    /// Records a model of this journal as the one in use, and returns its fingerprint.
    pub fn register(&self, model: StoredModel) -> Result<Fingerprint, Error> {
        let fingerprint = model.fingerprint();
        let index = self.writer.shared().index.read().unwrap_or_else(PoisonError::into_inner);
        let is_last = index.last_model() == Some(&model);
        drop(index);
        if !is_last {
            self.write_blocking(model.encode()?, Subject::Model(model))?;
        }
        Ok(fingerprint)
    }

    /// Records the digest of the data that the requests of a subject are built from: a task with the choice of its
    /// documents. Returns the digest that the journal had before, if it is another one.
    pub fn register_data(&self, subject: &str, digest: &str) -> Result<Option<String>, Error> {
        let index = self.writer.shared().index.read().unwrap_or_else(PoisonError::into_inner);
        let before = index.digest_of(subject).map(str::to_owned);
        drop(index);
        if before.as_deref() == Some(digest) {
            return Ok(None);
        }
        let data = StoredData { subject: subject.to_owned(), digest: digest.to_owned() };
        self.write_blocking(data.encode()?, Subject::Data(data))?;
        Ok(before)
    }

    /// Whether the request has an answer. Does not read it.
    pub fn is_answered(&self, key: &Key) -> bool {
        let index = self.writer.shared().index.read().unwrap_or_else(PoisonError::into_inner);
        index.get(key).is_some_and(|location| location.is_answered())
    }

    /// Reads the answer to a request of the given type.
    ///
    /// Returns `None` if the record was damaged after the journal was opened.
    pub fn get(&self, key: &Key, kind: RequestType) -> Result<Option<Answer>, Error> {
        self.read(key, kind, State::Answered)
    }

    /// Reads the beginning of the answer to a request of the given type that has no complete one.
    pub fn begun(&self, key: &Key, kind: RequestType) -> Result<Option<Answer>, Error> {
        self.read(key, kind, State::Begun)
    }

    fn read(&self, key: &Key, kind: RequestType, state: State) -> Result<Option<Answer>, Error> {
        let shared = self.writer.shared();
        let found = shared.index.read().unwrap_or_else(PoisonError::into_inner).get(key);
        let Some(location) = found.filter(|location| location.state == state) else { return Ok(None) };
        match read_answer(shared.medium.as_ref(), &self.path, key, location, kind)? {
            Located::Answer(answer) => return Ok(Some(*answer)),
            Located::Nothing => return Ok(None),
            Located::Damaged => {}
        }
        shared.index.write().unwrap_or_else(PoisonError::into_inner).remove(key, location);
        Ok(None)
    }

    /// Appends an entry. Resolves once the entry has been written to the file.
    ///
    /// Concurrent appends share one write. If the future is dropped early, the entry may or may not be written.
    pub async fn append(&self, entry: Entry) -> Result<(), Error> {
        let (sender, receiver) = oneshot::channel();
        self.send(&entry.into(), Waiter::Task(sender))?;
        receiver.await.unwrap_or_else(|_| Err(self.closed()))
    }

    /// Appends an entry and blocks until it has been written to the file.
    pub fn append_blocking(&self, entry: Entry) -> Result<(), Error> {
        let (sender, receiver) = mpsc::channel();
        self.send(&entry.into(), Waiter::Thread(sender))?;
        receiver.recv().unwrap_or_else(|_| Err(self.closed()))
    }

    /// Appends many entries in as few writes as possible.
    pub(crate) fn append_all(&self, entries: &[StoredEntry]) -> Result<(), Error> {
        let (sender, receiver) = mpsc::channel();
        for entry in entries {
            self.send(entry, Waiter::Thread(sender.clone()))?;
        }
        drop(sender);
        receiver.iter().collect()
    }

    fn send(&self, entry: &StoredEntry, waiter: Waiter) -> Result<(), Error> {
        let subject = Subject::Entry { key: entry.key, state: entry.state() };
        self.writer.send(Pending { record: entry.encode()?, subject, waiter });
        Ok(())
    }

    fn write_blocking(&self, record: Vec<u8>, subject: Subject) -> Result<(), Error> {
        let (sender, receiver) = mpsc::channel();
        self.writer.send(Pending { record, subject, waiter: Waiter::Thread(sender) });
        receiver.recv().unwrap_or_else(|_| Err(self.closed()))
    }

    /// Blocks until all appended entries are on disk. Happens every second by itself.
    pub fn sync(&self) -> Result<(), Error> {
        self.writer.sync()
    }

    /// Flushes everything to disk and releases the file.
    ///
    /// Dropping the journal does the same but cannot report failures.
    pub fn close(mut self) -> Result<(), Error> {
        self.writer.close()
    }

    fn closed(&self) -> Error {
        ErrorKind::Closed { path: self.path.clone() }.into()
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The canonical path of a journal, so that links share one lock. Creates its folder.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf, Error> {
    if let Ok(path) = fs_err::canonicalize(path) {
        return Ok(path);
    }
    let Some(name) = path.file_name() else { return Ok(path.to_owned()) };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let cannot = |source| Error::io("create the folder", folder, source);
    std::fs::DirBuilder::new().recursive(true).create(folder).map_err(cannot)?;
    Ok(std::path::absolute(folder).map_err(cannot)?.join(name))
}

fn open_locked(path: &Path) -> Result<(Lock, File), Error> {
    let lock = Lock::acquire(path)?;
    // Left over from a killed `compact`. Nobody else writes it while the lock is held.
    let _ = fs_err::remove_file(beside(path, ".compact"));
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    Ok((lock, file.map_err(|source| Error::io("write to", path, source))?))
}

/// Truncates a file to an empty journal.
fn write_header(file: &File, path: &Path) -> Result<(), Error> {
    let cannot = |source| ErrorKind::Write { path: path.to_owned(), source };
    file.set_len(0).map_err(cannot)?;
    let (_, result) = write_up_to(file, &header::encode(), 0);
    result.map_err(cannot)?;
    file.sync_data().map_err(cannot)?;
    sync_folder(path);
    Ok(())
}

/// Flushes a folder entry to disk, on systems that support it.
pub(crate) fn sync_folder(path: &Path) {
    if let Some(folder) = path.parent()
        && let Ok(folder) = File::open(folder)
    {
        let _ = folder.sync_all();
    }
}
