//! The journal.

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
use crate::medium::{Medium, read_up_to, write_up_to};
use crate::record::{self, Entry, Record, StoredEntry, StoredModel};
use crate::scan::Damage;
use crate::survey::{Survey, first_bytes, read_header, survey};
use crate::writer::{Pending, Subject, Waiter, Writer};

/// An open journal: the only one that writes to its file.
///
/// Answers are read from the file when they are asked for; only their places are held in memory.
pub struct Journal {
    path: PathBuf,
    writer: Writer,
    // Behind the writer: released when everything has been written.
    _lock: Option<Lock>,
}

/// What opening a journal found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Requests with an answer.
    pub answers: usize,
    /// Requests that failed and were not answered later.
    pub failures: usize,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// Bytes of an unfinished record that were cut off the end, where there were some.
    pub repaired_bytes: Option<u64>,
    /// Damaged parts with sound records behind them. They stay in the file until it is compacted.
    pub damage: Vec<Damage>,
    /// Whether nobody else can write: not on a file system without locks.
    pub is_exclusive: bool,
}

impl Journal {
    /// Opens a journal, and creates it with its folders where it is not there.
    ///
    /// An unfinished record at the end is cut off. Nothing else is changed: what is damaged is left out and reported.
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

    /// Opens a journal without what it held before.
    ///
    /// A file that is not a journal is left as it is, and an error.
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

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many requests have an answer, and how many only failures.
    pub fn counts(&self) -> (usize, usize) {
        self.writer.shared().index.read().unwrap_or_else(PoisonError::into_inner).counts()
    }

    /// How many requests to a model have an answer.
    pub fn answers_of(&self, model: Fingerprint) -> usize {
        self.writer.shared().index.read().unwrap_or_else(PoisonError::into_inner).answers_of(model)
    }

    /// Writes down which model is used, unless it is the one that was used last, and gives what its keys are made with.
    pub fn register_model(&self, identity: &ModelIdentity) -> Result<Fingerprint, Error> {
        self.register(StoredModel::from(identity))
    }

    /// Registers the model that was used last among those that differ from an identity at most by having one fact more, and
    /// gives that fact as well. `None` where there is no such model.
    pub fn register_last(
        &self,
        identity: &ModelIdentity,
        fact: &str,
    ) -> Result<Option<(Fingerprint, String)>, Error> {
        let index = self.writer.shared().index.read().unwrap_or_else(PoisonError::into_inner);
        let found = index.last_model_with(identity, fact).cloned();
        drop(index);
        let Some((value, model)) = found.and_then(|model| Some((model.fact(fact)?.to_owned(), model))) else {
            return Ok(None);
        };
        Ok(Some((self.register(model)?, value)))
    }

    fn register(&self, model: StoredModel) -> Result<Fingerprint, Error> {
        let fingerprint = model.fingerprint();
        let index = self.writer.shared().index.read().unwrap_or_else(PoisonError::into_inner);
        let is_last = index.last_model() == Some(&model);
        drop(index);
        if !is_last {
            self.write_blocking(model.encode()?, Subject::Model(model))?;
        }
        Ok(fingerprint)
    }

    /// Whether there is an answer, without reading it.
    pub fn is_answered(&self, key: &Key) -> bool {
        let index = self.writer.shared().index.read().unwrap_or_else(PoisonError::into_inner);
        index.get(key).is_some_and(|slot| slot.is_answered)
    }

    /// The answer to a request of the kind, if there is one.
    ///
    /// A record that has been damaged since the journal was opened is as good as none.
    pub fn get(&self, key: &Key, kind: RequestType) -> Result<Option<Answer>, Error> {
        let shared = self.writer.shared();
        let found = shared.index.read().unwrap_or_else(PoisonError::into_inner).get(key);
        let Some(slot) = found.filter(|slot| slot.is_answered) else { return Ok(None) };
        let mut bytes = vec![0; slot.size as usize];
        let read = read_up_to(shared.medium.as_ref(), &mut bytes, slot.offset);
        let read = read.map_err(|source| Error::io("read", &self.path, source))?;
        if read == bytes.len()
            && record::is_sound(&bytes)
            && let Some(Record::Entry(entry)) = Record::decode(&bytes)
            && entry.key == *key
        {
            return Ok(entry.into_answer(kind));
        }
        shared.index.write().unwrap_or_else(PoisonError::into_inner).remove(key, slot);
        Ok(None)
    }

    /// Appends an entry; done when it has been written to the file.
    ///
    /// What is appended at the same time goes into one write. A future that is dropped before it is done may or may not
    /// have appended its entry.
    pub async fn append(&self, entry: Entry) -> Result<(), Error> {
        let (sender, receiver) = oneshot::channel();
        self.send(&entry.into(), Waiter::Task(sender))?;
        receiver.await.unwrap_or_else(|_| Err(self.closed()))
    }

    /// Appends an entry and waits until it has been written to the file.
    pub fn append_blocking(&self, entry: Entry) -> Result<(), Error> {
        let (sender, receiver) = mpsc::channel();
        self.send(&entry.into(), Waiter::Thread(sender))?;
        receiver.recv().unwrap_or_else(|_| Err(self.closed()))
    }

    /// Appends entries that go into as few writes as possible.
    pub(crate) fn append_all(&self, entries: &[StoredEntry]) -> Result<(), Error> {
        let (sender, receiver) = mpsc::channel();
        for entry in entries {
            self.send(entry, Waiter::Thread(sender.clone()))?;
        }
        drop(sender);
        receiver.iter().collect()
    }

    fn send(&self, entry: &StoredEntry, waiter: Waiter) -> Result<(), Error> {
        let subject = Subject::Entry { key: entry.key, is_answered: entry.is_answered() };
        self.writer.send(Pending { record: entry.encode()?, subject, waiter });
        Ok(())
    }

    fn write_blocking(&self, record: Vec<u8>, subject: Subject) -> Result<(), Error> {
        let (sender, receiver) = mpsc::channel();
        self.writer.send(Pending { record, subject, waiter: Waiter::Thread(sender) });
        receiver.recv().unwrap_or_else(|_| Err(self.closed()))
    }

    /// Waits until everything that has been appended is on the disk. This happens every second by itself.
    pub fn sync(&self) -> Result<(), Error> {
        self.writer.sync()
    }

    /// Brings everything to the disk and lets go of the file.
    ///
    /// Dropping the journal does the same, but cannot say whether it worked.
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

/// The one name of a journal, whichever way leads to it, with its folder created.
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
    // What a killed `compact` has left. Nobody writes it while this lock is held.
    let _ = fs_err::remove_file(beside(path, ".compact"));
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    Ok((lock, file.map_err(|source| Error::io("write to", path, source))?))
}

/// Makes a file an empty journal.
fn write_header(file: &File, path: &Path) -> Result<(), Error> {
    let cannot = |source| ErrorKind::Write { path: path.to_owned(), source };
    file.set_len(0).map_err(cannot)?;
    let (_, result) = write_up_to(file, &header::encode(), 0);
    result.map_err(cannot)?;
    file.sync_data().map_err(cannot)?;
    sync_folder(path);
    Ok(())
}

/// Brings the name of a file to the disk, where the system can do that.
pub(crate) fn sync_folder(path: &Path) {
    if let Some(folder) = path.parent()
        && let Ok(folder) = File::open(folder)
    {
        let _ = folder.sync_all();
    }
}
