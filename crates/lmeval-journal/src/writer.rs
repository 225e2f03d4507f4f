//! The one writer: everything that is pending goes to the file in one write.
//!
//! Whoever appends waits for the write alone. A second thread sees to it that what is written reaches the disk, by time
//! and by count, and nobody waits for that.

use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind};
use crate::index::{Index, Slot};
use crate::key::Key;
use crate::medium::{Medium, write_up_to};
use crate::record::StoredModel;

/// How long written records may wait for the disk.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// How many written records may wait for the disk.
const SYNC_RECORDS: usize = 1 << 16;

/// How many records of one write mean that more are on their way.
const BUSY: usize = 4;

/// How long the writer waits for them: a write of many costs little more than a write of one.
const GATHERING: Duration = Duration::from_micros(200);

/// The capacity that the buffer of a write keeps.
const KEPT_BUFFER: usize = 1 << 20;

/// What a record is entered into the index as.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    Model(StoredModel),
    Entry { key: Key, is_answered: bool },
}

/// Who is told that a record has been written, or why not.
pub(crate) enum Waiter {
    Task(oneshot::Sender<Result<(), Error>>),
    Thread(mpsc::Sender<Result<(), Error>>),
}

impl Waiter {
    fn tell(self, result: Result<(), Error>) {
        // Nobody waits any more for a task that has been cancelled.
        match self {
            Self::Task(sender) => drop(sender.send(result)),
            Self::Thread(sender) => drop(sender.send(result)),
        }
    }
}

/// A record that is to be written.
pub(crate) struct Pending {
    pub(crate) record: Vec<u8>,
    pub(crate) subject: Subject,
    pub(crate) waiter: Waiter,
}

#[derive(Default)]
struct Queue {
    pending: Vec<Pending>,
    is_closing: bool,
}

#[derive(Default)]
struct SyncState {
    records: usize,
    is_closing: bool,
    failure: Option<Error>,
}

/// What both threads and everyone who reads share.
pub(crate) struct Shared {
    pub(crate) path: PathBuf,
    pub(crate) medium: Arc<dyn Medium>,
    pub(crate) index: RwLock<Index>,
    queue: Mutex<Queue>,
    queue_changed: Condvar,
    unsynced: Mutex<SyncState>,
    unsynced_changed: Condvar,
}

/// The writer of a journal and its threads.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    threads: Option<[JoinHandle<()>; 2]>,
}

impl Writer {
    /// Starts a writer that appends at `end`.
    pub(crate) fn start(path: &Path, medium: Arc<dyn Medium>, index: Index, end: u64) -> Result<Self, Error> {
        let shared = Arc::new(Shared {
            path: path.to_owned(),
            medium,
            index: RwLock::new(index),
            queue: Mutex::default(),
            queue_changed: Condvar::new(),
            unsynced: Mutex::default(),
            unsynced_changed: Condvar::new(),
        });
        let mut writer = Self { shared: Arc::clone(&shared), threads: None };
        let (of_appends, of_syncs) = (Arc::clone(&shared), Arc::clone(&shared));
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            let builder = thread::Builder::new().name(name.to_owned());
            builder.spawn(run).map_err(|source| Error::io("start a writer for", path, source))
        };
        let appends = spawn("journal-write", Box::new(move || of_appends.append_all(end)))?;
        match spawn("journal-sync", Box::new(move || of_syncs.sync_all())) {
            Ok(syncs) => writer.threads = Some([appends, syncs]),
            Err(error) => {
                shared.close_queue();
                return Err(error);
            }
        }
        Ok(writer)
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Hands over a record.
    pub(crate) fn send(&self, pending: Pending) {
        let mut queue = hold(&self.shared.queue);
        if queue.is_closing {
            // Without its waiter, whoever waits learns that there is no writer.
            return;
        }
        queue.pending.push(pending);
        // The writer takes everything at once: only the first one has to wake it.
        if queue.pending.len() == 1 {
            self.shared.queue_changed.notify_one();
        }
    }

    /// Waits until everything that was written is on the disk.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.shared.sync_now();
        hold(&self.shared.unsynced).failure.clone().map_or(Ok(()), Err)
    }

    /// Writes what is pending, brings it to the disk, and ends the threads.
    pub(crate) fn close(&mut self) -> Result<(), Error> {
        let Some([appends, syncs]) = self.threads.take() else { return Ok(()) };
        self.shared.close_queue();
        let written = appends.join();
        hold(&self.shared.unsynced).is_closing = true;
        self.shared.unsynced_changed.notify_all();
        let synced = syncs.join();
        if written.is_err() || synced.is_err() {
            return Err(ErrorKind::Closed { path: self.shared.path.clone() }.into());
        }
        hold(&self.shared.unsynced).failure.clone().map_or(Ok(()), Err)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Whoever wants to know calls `close`.
        let _ = self.close();
    }
}

impl Shared {
    fn close_queue(&self) {
        hold(&self.queue).is_closing = true;
        self.queue_changed.notify_all();
    }

    /// The thread that writes.
    fn append_all(&self, end: u64) {
        let _closing = CloseOnEnd(self);
        let mut tail = Tail { end, is_clean: true };
        let mut buffer = Vec::new();
        loop {
            let mut queue = hold(&self.queue);
            while queue.pending.is_empty() && !queue.is_closing {
                queue = self.queue_changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            let batch = mem::take(&mut queue.pending);
            drop(queue);
            if batch.is_empty() {
                return;
            }
            let is_busy = batch.len() >= BUSY;
            let failure = hold(&self.unsynced).failure.clone();
            match failure {
                Some(error) => batch.into_iter().for_each(|pending| pending.waiter.tell(Err(error.clone()))),
                None => self.append_batch(batch, &mut tail, &mut buffer),
            }
            buffer.clear();
            buffer.shrink_to(KEPT_BUFFER);
            if is_busy {
                thread::sleep(GATHERING);
            }
        }
    }

    fn append_batch(&self, batch: Vec<Pending>, tail: &mut Tail, buffer: &mut Vec<u8>) {
        for pending in &batch {
            buffer.extend_from_slice(&pending.record);
        }
        let start = tail.end;
        let sizes = batch.iter().map(|pending| pending.record.len());
        let (complete, result) = tail.append(self.medium.as_ref(), buffer, sizes);
        let mut offset = start;
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        for pending in &batch[..complete] {
            let size = pending.record.len() as u32;
            match &pending.subject {
                Subject::Model(model) => index.insert_model(model.clone(), offset),
                Subject::Entry { key, is_answered } => {
                    index.insert(key, Slot { offset, size, is_answered: *is_answered });
                }
            }
            offset += u64::from(size);
        }
        drop(index);
        self.count_unsynced(complete);
        let failure =
            result.err().map(|source| Error::from(ErrorKind::Write { path: self.path.clone(), source }));
        for (position, pending) in batch.into_iter().enumerate() {
            let result = match &failure {
                Some(error) if position >= complete => Err(error.clone()),
                _ => Ok(()),
            };
            pending.waiter.tell(result);
        }
    }

    fn count_unsynced(&self, records: usize) {
        let mut unsynced = hold(&self.unsynced);
        let before = unsynced.records;
        unsynced.records += records;
        let is_first = before == 0 && records > 0;
        if is_first || (before < SYNC_RECORDS && unsynced.records >= SYNC_RECORDS) {
            self.unsynced_changed.notify_all();
        }
    }

    /// The thread that brings what is written to the disk.
    fn sync_all(&self) {
        let mut unsynced = hold(&self.unsynced);
        loop {
            while unsynced.records == 0 && !unsynced.is_closing {
                unsynced = self.unsynced_changed.wait(unsynced).unwrap_or_else(PoisonError::into_inner);
            }
            let deadline = Instant::now() + SYNC_INTERVAL;
            while !unsynced.is_closing && unsynced.records < SYNC_RECORDS {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                let waited = self.unsynced_changed.wait_timeout(unsynced, left);
                unsynced = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            let (is_last, is_needed) = (unsynced.is_closing, unsynced.records > 0);
            drop(unsynced);
            if is_needed {
                self.sync_now();
            }
            if is_last {
                return;
            }
            unsynced = hold(&self.unsynced);
        }
    }

    fn sync_now(&self) {
        hold(&self.unsynced).records = 0;
        if let Err(source) = self.medium.sync() {
            // After a failure the system may have dropped what was written, and a second attempt would not notice.
            let error = ErrorKind::Sync { path: self.path.clone(), source }.into();
            hold(&self.unsynced).failure.get_or_insert(error);
        }
    }
}

/// Lets nobody wait for a writer that has ended, however it did.
struct CloseOnEnd<'a>(&'a Shared);

impl Drop for CloseOnEnd<'_> {
    fn drop(&mut self) {
        let mut queue = hold(&self.0.queue);
        queue.is_closing = true;
        queue.pending.clear();
    }
}

/// Where the next record goes.
struct Tail {
    end: u64,
    /// Whether nothing stands behind the end.
    is_clean: bool,
}

impl Tail {
    /// Appends records, and says how many of them are in the file as a whole. What stands behind those is cut off.
    fn append(
        &mut self,
        medium: &dyn Medium,
        records: &[u8],
        sizes: impl Iterator<Item = usize>,
    ) -> (usize, io::Result<()>) {
        if !self.is_clean
            && let Err(error) = medium.set_len(self.end)
        {
            return (0, Err(error));
        }
        let (written, result) = write_up_to(medium, records, self.end);
        let mut kept = 0;
        let mut complete = 0;
        for size in sizes {
            if kept + size > written {
                break;
            }
            kept += size;
            complete += 1;
        }
        self.end += kept as u64;
        // Where cutting off fails too, the next append tries it again, or else the next open.
        self.is_clean = result.is_ok() || medium.set_len(self.end).is_ok();
        (complete, result)
    }
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
