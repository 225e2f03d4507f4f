//! The writer thread: all pending records go to the file in one write.
//!
//! Callers wait for the write only. A second thread flushes written records to disk, by time and by count.

use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind};
use crate::index::{Index, RecordLocation};
use crate::key::Key;
use crate::medium::{Medium, write_up_to};
use crate::record::{State, StoredData, StoredModel};

/// How long a written record may stay unflushed.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// How many written records may stay unflushed.
const SYNC_RECORDS: usize = 1 << 16;

/// A batch of this size means that more records are about to arrive.
const BUSY: usize = 4;

/// How long the writer then waits for them: a write of many costs little more than a write of one.
const GATHERING: Duration = Duration::from_micros(200);

/// The buffer capacity retained between writes.
const KEPT_BUFFER: usize = 1 << 20;

/// The index entry of a record.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    Model(StoredModel),
    Data(StoredData),
    Entry { key: Key, state: State },
}

/// The caller waiting for a record to be written.
pub(crate) enum Waiter {
    Task(oneshot::Sender<Result<(), Error>>),
    Thread(mpsc::Sender<Result<(), Error>>),
}

impl Waiter {
    fn notify(self, result: Result<(), Error>) {
        // A cancelled task has dropped its receiver.
        match self {
            Self::Task(sender) => drop(sender.send(result)),
            Self::Thread(sender) => drop(sender.send(result)),
        }
    }
}

/// A record queued for writing.
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

/// The state shared by both threads and all readers.
pub(crate) struct JournalState {
    pub(crate) path: PathBuf,
    pub(crate) medium: Arc<dyn Medium>,
    pub(crate) index: RwLock<Index>,
    queue: Mutex<Queue>,
    queue_changed: Condvar,
    unsynced: Mutex<SyncState>,
    unsynced_changed: Condvar,
}

/// The writer of a journal with its two threads.
pub(crate) struct Writer {
    shared: Arc<JournalState>,
    threads: Option<[JoinHandle<()>; 2]>,
}

impl Writer {
    /// Starts a writer that appends at offset `end`.
    pub(crate) fn start(path: &Path, medium: Arc<dyn Medium>, index: Index, end: u64) -> Result<Self, Error> {
        let shared = Arc::new(JournalState {
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

    pub(crate) fn shared(&self) -> &JournalState {
        &self.shared
    }

    /// Queues a record.
    pub(crate) fn send(&self, pending: Pending) {
        let mut queue = lock(&self.shared.queue);
        if queue.is_closing {
            // Dropping the waiter tells the caller that the journal is closed.
            return;
        }
        queue.pending.push(pending);
        // The writer takes the whole queue, so only the first record has to wake it.
        if queue.pending.len() == 1 {
            self.shared.queue_changed.notify_one();
        }
    }

    /// Blocks until all written records are on disk.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.shared.sync_now();
        lock(&self.shared.unsynced).failure.clone().map_or(Ok(()), Err)
    }

    /// Writes the pending records, flushes them to disk and joins the threads.
    pub(crate) fn close(&mut self) -> Result<(), Error> {
        let Some([appends, syncs]) = self.threads.take() else { return Ok(()) };
        self.shared.close_queue();
        let written = appends.join();
        lock(&self.shared.unsynced).is_closing = true;
        self.shared.unsynced_changed.notify_all();
        let synced = syncs.join();
        if written.is_err() || synced.is_err() {
            return Err(ErrorKind::Closed { path: self.shared.path.clone() }.into());
        }
        lock(&self.shared.unsynced).failure.clone().map_or(Ok(()), Err)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Callers that need the result call `close`.
        let _ = self.close();
    }
}

impl JournalState {
    fn close_queue(&self) {
        lock(&self.queue).is_closing = true;
        self.queue_changed.notify_all();
    }

    /// The body of the writer thread.
    fn append_all(&self, end: u64) {
        let _closing = CloseOnEnd(self);
        let mut tail = Tail { end, is_clean: true };
        let mut buffer = Vec::new();
        loop {
            let mut queue = lock(&self.queue);
            while queue.pending.is_empty() && !queue.is_closing {
                queue = self.queue_changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            let batch = mem::take(&mut queue.pending);
            drop(queue);
            if batch.is_empty() {
                return;
            }
            let is_busy = batch.len() >= BUSY;
            let failure = lock(&self.unsynced).failure.clone();
            match failure {
                Some(error) => {
                    for pending in batch {
                        pending.waiter.notify(Err(error.clone()));
                    }
                }
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
                Subject::Data(data) => index.insert_data(data.clone(), offset),
                Subject::Entry { key, state } => {
                    index.insert(key, RecordLocation { offset, size, state: *state });
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
            pending.waiter.notify(result);
        }
    }

    fn count_unsynced(&self, records: usize) {
        let mut unsynced = lock(&self.unsynced);
        let before = unsynced.records;
        unsynced.records += records;
        let is_first = before == 0 && records > 0;
        if is_first || (before < SYNC_RECORDS && unsynced.records >= SYNC_RECORDS) {
            self.unsynced_changed.notify_all();
        }
    }

    /// The body of the sync thread.
    fn sync_all(&self) {
        let mut unsynced = lock(&self.unsynced);
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
            unsynced = lock(&self.unsynced);
        }
    }

    fn sync_now(&self) {
        lock(&self.unsynced).records = 0;
        if let Err(source) = self.medium.sync() {
            // After a failed sync the system may have dropped dirty pages, and a retry would succeed without
            // writing them.
            let error = ErrorKind::Sync { path: self.path.clone(), source }.into();
            lock(&self.unsynced).failure.get_or_insert(error);
        }
    }
}

/// Closes the queue when the writer thread ends, even by a panic, so that no caller waits forever.
struct CloseOnEnd<'a>(&'a JournalState);

impl Drop for CloseOnEnd<'_> {
    fn drop(&mut self) {
        let mut queue = lock(&self.0.queue);
        queue.is_closing = true;
        queue.pending.clear();
    }
}

/// The position of the next record.
struct Tail {
    end: u64,
    /// Whether the file ends at `end`.
    is_clean: bool,
}

impl Tail {
    /// Appends records. Returns how many of them are complete in the file; an incomplete one is truncated.
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
        let mut complete_bytes = 0;
        let mut complete = 0;
        for size in sizes {
            if complete_bytes + size > written {
                break;
            }
            complete_bytes += size;
            complete += 1;
        }
        self.end += complete_bytes as u64;
        // If truncating fails too, the next append retries it, or else the next open.
        self.is_clean = result.is_ok() || medium.set_len(self.end).is_ok();
        (complete, result)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
