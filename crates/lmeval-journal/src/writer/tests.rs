//! Tests with a failing medium.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use lmeval_core::{Answer, RequestType, Response};

use lmeval_core::Diagnose as _;

use super::*;
use crate::journal::Journal;
use crate::record::{Entry, Outcome};
use crate::survey::Survey;

/// Storage in memory that runs full.
#[derive(Default)]
struct Flaky {
    bytes: Mutex<Vec<u8>>,
    room: AtomicUsize,
    cannot_cut: AtomicBool,
    cannot_sync: AtomicBool,
}

impl Flaky {
    fn with_room(room: usize) -> Arc<Self> {
        Arc::new(Self { room: AtomicUsize::new(room), ..Self::default() })
    }

    /// The records that a reader would find.
    fn survey(&self) -> Survey {
        Survey::of(self.bytes.lock().unwrap().as_slice()).unwrap()
    }
}

impl Medium for Flaky {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.bytes.lock().unwrap();
        let rest = bytes.get(offset as usize - crate::header::SIZE..).unwrap_or_default();
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn write_at(&self, new: &[u8], offset: u64) -> io::Result<usize> {
        let mut bytes = self.bytes.lock().unwrap();
        let offset = offset as usize - crate::header::SIZE;
        // Short writes, as on a disk that fills up.
        let written = new.len().min(7).min(self.room.load(Ordering::Relaxed).saturating_sub(offset));
        if written == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if bytes.len() < offset + written {
            bytes.resize(offset + written, 0);
        }
        bytes[offset..offset + written].copy_from_slice(&new[..written]);
        Ok(written)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        if self.cannot_cut.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.bytes.lock().unwrap().truncate(length as usize - crate::header::SIZE);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        if self.cannot_sync.load(Ordering::Relaxed) { Err(io::Error::other("broken disk")) } else { Ok(()) }
    }
}

const MODEL: crate::Fingerprint = crate::Fingerprint([1; 16]);

fn key(number: usize) -> Key {
    Key::new(MODEL, &[0; 32], number, None)
}

fn entry(number: usize) -> Entry {
    let response = Response::Text(format!("answer {number}").into());
    Entry {
        key: key(number),
        task: "task".into(),
        doc_id: number,
        idx: 0,
        repeat: number,
        kind: RequestType::GenerateUntil,
        outcome: Outcome::Answered(Answer::from(response)),
    }
}

fn start(medium: &Arc<Flaky>) -> Journal {
    let medium = Arc::clone(medium);
    Journal::on(Path::new("memory"), None, medium, Index::default(), crate::header::SIZE as u64).unwrap()
}

fn text(journal: &Journal, number: usize) -> Option<String> {
    let answer = journal.get(&key(number), RequestType::GenerateUntil).unwrap();
    answer.map(|answer| match answer.response {
        Response::Text(text) => text.to_string(),
        _ => panic!("not a generation"),
    })
}

#[test]
fn full_disk_loses_no_record_at_any_byte() {
    let whole = Flaky::with_room(usize::MAX);
    let journal = start(&whole);
    (0..4).for_each(|number| journal.append_blocking(entry(number)).unwrap());
    journal.close().unwrap();
    let size = whole.bytes.lock().unwrap().len();
    for cannot_cut in [false, true] {
        for room in 0..size {
            let medium = Flaky::with_room(room);
            medium.cannot_cut.store(cannot_cut, Ordering::Relaxed);
            let journal = start(&medium);
            let written: Vec<bool> =
                (0..4).map(|number| journal.append_blocking(entry(number)).is_ok()).collect();
            assert!(written.contains(&false));
            let survey = medium.survey();
            assert_eq!(survey.index.counts().0, written.iter().filter(|is_written| **is_written).count());
            assert!(survey.damage().is_empty());
            assert!(cannot_cut || survey.scanned.tail == 0, "{room}");
            // With free space again, the remaining entries are written.
            medium.room.store(usize::MAX, Ordering::Relaxed);
            medium.cannot_cut.store(false, Ordering::Relaxed);
            for (number, is_written) in written.iter().enumerate() {
                assert_eq!(text(&journal, number).is_some(), *is_written);
                if !is_written {
                    journal.append_blocking(entry(number)).unwrap();
                }
                assert_eq!(text(&journal, number), Some(format!("answer {number}")));
            }
            journal.close().unwrap();
            let survey = medium.survey();
            assert_eq!(survey.index.counts(), (4, 0));
            assert_eq!((survey.damage().len(), survey.scanned.tail), (0, 0));
        }
    }
}

#[test]
fn keeps_records_before_the_one_that_does_not_fit() {
    let medium = Flaky::with_room(250);
    let journal = start(&medium);
    let entries: Vec<_> = (0..10).map(|number| entry(number).into()).collect();
    let error = journal.append_all(&entries).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Write { .. }));
    assert_eq!(error.to_string(), "Cannot write to the journal `memory`");
    assert_eq!(error.hints(), ["Free some space and run again; all answers so far are saved"]);
    let (kept, _) = journal.counts();
    assert!((1..10).contains(&kept), "{kept}");
    for number in 0..10 {
        assert_eq!(text(&journal, number).is_some(), number < kept);
    }
    assert_eq!(medium.survey().scanned.tail, 0);
}

#[test]
fn failed_sync_is_permanent() {
    let medium = Flaky::with_room(usize::MAX);
    let journal = start(&medium);
    journal.append_blocking(entry(0)).unwrap();
    journal.sync().unwrap();
    medium.cannot_sync.store(true, Ordering::Relaxed);
    journal.append_blocking(entry(1)).unwrap();
    assert!(matches!(journal.sync().unwrap_err().kind(), ErrorKind::Sync { .. }));
    medium.cannot_sync.store(false, Ordering::Relaxed);
    assert!(matches!(journal.append_blocking(entry(2)).unwrap_err().kind(), ErrorKind::Sync { .. }));
    assert!(matches!(journal.close().unwrap_err().kind(), ErrorKind::Sync { .. }));
}

#[test]
fn close_reports_failed_sync() {
    let medium = Flaky::with_room(usize::MAX);
    let journal = start(&medium);
    journal.append_blocking(entry(0)).unwrap();
    medium.cannot_sync.store(true, Ordering::Relaxed);
    assert_eq!(journal.close().unwrap_err().to_string(), "Cannot save the journal `memory` to disk");
}

#[test]
fn ignores_record_damaged_after_open() {
    let medium = Flaky::with_room(usize::MAX);
    let journal = start(&medium);
    journal.append_blocking(entry(0)).unwrap();
    let middle = medium.bytes.lock().unwrap().len() / 2;
    medium.bytes.lock().unwrap()[middle] ^= 1;
    assert_eq!(text(&journal, 0), None);
    assert!(!journal.is_answered(&key(0)));
    journal.append_blocking(entry(0)).unwrap();
    assert_eq!(text(&journal, 0).as_deref(), Some("answer 0"));
}

#[test]
fn batches_pending_records() {
    let medium = Flaky::with_room(usize::MAX);
    let journal = start(&medium);
    thread::scope(|scope| {
        for thread in 0..16 {
            let journal = &journal;
            scope.spawn(move || {
                for number in 0..50 {
                    let number = thread * 1000 + number;
                    journal.append_blocking(entry(number)).unwrap();
                    assert_eq!(text(journal, number), Some(format!("answer {number}")));
                }
            });
        }
    });
    assert_eq!(journal.counts(), (800, 0));
    drop(journal);
    assert_eq!(medium.survey().index.counts(), (800, 0));
}

#[cfg(target_os = "linux")]
#[test]
fn full_device_is_an_error() {
    let device = std::fs::OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
    let journal = Journal::on(Path::new("/dev/full"), None, Arc::new(device), Index::default(), 16).unwrap();
    for _ in 0..3 {
        let error = journal.append_blocking(entry(0)).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Write { .. }));
    }
    assert_eq!(journal.counts(), (0, 0));
}
