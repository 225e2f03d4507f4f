//! Answers of a finished run, looked up by request.
//!
//! Only an index is held in memory, 48 bytes per request; prompts and answers stay in the samples files.

mod index;

use std::io::{BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fs_err as fs;
use lmeval_core::recorded::{RequestContent, recorded_arguments, recorded_repeats, recorded_response};
use lmeval_core::{Answer, Diagnostic, ModelRequest};
use lmeval_pycompat::{Dict, Value, json, repr};

use self::index::{Entry, canonical, hash};
use crate::Error;
use crate::read::{Fields, SamplesFile, read_line};

/// Answers this close in a file are read together with what is between them.
const GAP: u64 = 64 << 10;

/// The most bytes that are read together, unless one answer is longer.
const MOST: u64 = 8 << 20;

/// The answers in the samples files of a run, of ours or of the Python harness.
#[derive(Debug)]
pub struct StoredSamples {
    files: Vec<StoredFile>,
    /// Sorted by hash.
    entries: Vec<Entry>,
    is_chat: bool,
}

#[derive(Debug)]
struct StoredFile {
    /// The task, as the results name it.
    task: String,
    path: PathBuf,
    file: Mutex<fs::File>,
}

impl StoredFile {
    fn open(SamplesFile { task, path }: &SamplesFile) -> Result<Self, Error> {
        let file = fs::File::open(path).map_err(|error| unreadable(path, error))?;
        Ok(Self { task: task.clone(), path: path.clone(), file: Mutex::new(file) })
    }

    /// Whether requests of a task, named without its group and format, may be in the file.
    fn is_of(&self, task: &str) -> bool {
        let own = self.task.rsplit_once("::").map_or(self.task.as_str(), |(_, own)| own);
        own == task || own.split_once('@').is_some_and(|(own, _)| own == task) || self.task == task
    }

    /// Bytes of the file.
    fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; length as usize];
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let read = file.seek(SeekFrom::Start(offset)).and_then(|_| file.read_exact(&mut bytes));
        drop(file);
        read.map_err(|error| unreadable(&self.path, error))?;
        Ok(bytes)
    }

    /// The `resps` of an entry.
    fn responses(&self, entry: Entry) -> Result<Value, Error> {
        self.decode(entry, &self.read(entry.offset, u64::from(entry.length))?)
    }

    fn decode(&self, entry: Entry, raw: &[u8]) -> Result<Value, Error> {
        let text = std::str::from_utf8(raw).map_err(|_| changed(&self.path))?;
        json::loads(text).map_err(|_| malformed(self, entry, "its `resps` are not JSON").into())
    }

    /// The line of an entry.
    fn line(&self, entry: Entry) -> Result<String, Error> {
        let read = fs::File::open(&self.path)
            .and_then(|file| read_line(&mut BufReader::new(file), entry.offset - u64::from(entry.indent)));
        read.map_err(|error| unreadable(&self.path, error).into())
    }
}

fn unreadable(path: &Path, error: std::io::Error) -> Diagnostic {
    Diagnostic::new(format!("Cannot read `{}`", path.display())).caused_by(error)
}

fn changed(path: &Path) -> Diagnostic {
    Diagnostic::new(format!("`{}` changed while it was read", path.display()))
}

impl StoredSamples {
    /// Reads samples files. Of several lines of a document, one per filter pipeline, the first pipeline's is used.
    pub fn open(samples: &[SamplesFile]) -> Result<Self, Error> {
        let mut files = Vec::with_capacity(samples.len());
        let mut entries = Vec::new();
        let mut is_chat = false;
        for (number, sample) in samples.iter().enumerate() {
            files.push(StoredFile::open(sample)?);
            is_chat |= index::read(&sample.path, number as u32, &mut entries)?;
        }
        entries.sort_unstable();
        Ok(Self { files, entries, is_chat })
    }

    /// The number of requests.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether a prompt is a list of chat messages.
    pub fn is_chat(&self) -> bool {
        self.is_chat
    }

    /// The documents of a task, in order; those of the only file, whatever its name. `None` without a file of the task.
    pub fn documents(&self, task: &str) -> Option<Vec<i64>> {
        let only = (self.files.len() == 1).then_some(0);
        let number = self.files.iter().position(|file| file.task == task).or(only)? as u32;
        let own = self.entries.iter().filter(|entry| entry.file == number);
        let mut documents: Vec<i64> = own.map(|entry| i64::from(entry.document)).collect();
        documents.sort_unstable();
        documents.dedup();
        Some(documents)
    }

    /// The stored answers of requests, `None` where there is none.
    pub fn find(&self, requests: &[ModelRequest]) -> Result<Vec<Option<Answer>>, Error> {
        let mut settings = Settings::default();
        let entries = requests.iter().map(|request| self.entry(request, &mut settings));
        let entries = entries.collect::<Result<Vec<Option<Entry>>, Error>>()?;
        let mut stored = Stored::default();
        let mut answers = Vec::with_capacity(requests.len());
        for (index, request) in requests.iter().enumerate() {
            let Some(entry) = entries[index] else {
                answers.push(None);
                continue;
            };
            let file = &self.files[entry.file as usize];
            let kind = request.request_type();
            let own = stored
                .responses(file, entry, &entries[index..])?
                .as_list()
                .and_then(|responses| responses.get(usize::from(entry.request)))
                .ok_or_else(|| malformed(file, entry, "it has too few `resps`"))?;
            let repeats = recorded_repeats(kind, own).map_err(|wrong| malformed(file, entry, &wrong))?;
            let answer =
                repeats.get(request.repeat).map(|answer| recorded_response(kind, answer)).transpose();
            answers.push(answer.map_err(|wrong| malformed(file, entry, &wrong))?.map(Answer::from));
        }
        Ok(answers)
    }

    /// The entry of a request: that of its own document, or else one with the same content if all of them are alike.
    fn entry(&self, request: &ModelRequest, settings: &mut Settings) -> Result<Option<Entry>, Error> {
        if request.additional_args.is_some() {
            // Samples files hold hashes of images and sounds, which cannot be compared.
            return Ok(None);
        }
        let (content, kwargs) = RequestContent::of_request(request);
        let hash = hash(&content, settings.canonical(kwargs));
        let start = self.entries.partition_point(|entry| entry.hash < hash);
        let same: &[Entry] = &self.entries[start..];
        let same = &same[..same.partition_point(|entry| entry.hash == hash)];
        let of_task = |entry: &&Entry| self.files[entry.file as usize].is_of(&request.task_name);
        let of_document = |entry: &&Entry| of_task(entry) && entry.document as usize == request.doc_id.0;
        let mut own = same.iter().filter(of_document);
        let exact = same.iter().filter(of_document).find(|entry| usize::from(entry.request) == request.idx);
        if let Some(entry) = exact.or_else(|| own.next()) {
            return Ok(Some(*entry));
        }
        let mut others: Vec<Entry> = same.iter().filter(of_task).copied().collect();
        if others.is_empty() {
            others = same.to_vec();
        }
        let Some((first, rest)) = others.split_first() else { return Ok(None) };
        // The document was moved. Answers to one prompt can differ, and there is no telling which is this document's.
        let of = |entry: Entry| -> Result<Option<Value>, Error> {
            let responses = self.files[entry.file as usize].responses(entry)?;
            Ok(responses.as_list().and_then(|all| all.get(usize::from(entry.request)).cloned()))
        };
        let answer = if rest.is_empty() { None } else { of(*first)? };
        for other in rest {
            if of(*other)? != answer {
                return Ok(None);
            }
        }
        Ok(Some(*first))
    }

    /// Explains why a request has no answer, for messages.
    pub fn explain(&self, request: &ModelRequest) -> Option<String> {
        if request.additional_args.is_some() {
            return Some(
                "samples files do not hold images and sounds; name the journal of the run instead".to_owned(),
            );
        }
        let is_own = |entry: &&Entry| {
            entry.document as usize == request.doc_id.0
                && self.files[entry.file as usize].is_of(&request.task_name)
        };
        let mut own: Vec<Entry> = self.entries.iter().filter(is_own).copied().collect();
        own.sort_unstable_by_key(|entry| usize::from(entry.request).abs_diff(request.idx));
        let Some(entry) = own.first().copied() else {
            return Some("the run has no such document".to_owned());
        };
        let line = self.files[entry.file as usize].line(entry).ok()?;
        let arguments =
            recorded_arguments(Fields::parse(line.trim_end()).ok()?.value("arguments").as_ref()).ok()?;
        let stored = arguments.get(usize::from(entry.request))?;
        let (content, kwargs) = RequestContent::of_request(request);
        let (stored, stored_kwargs) = RequestContent::of_arguments(content.kind, stored).ok()?;
        let (one, other) = (
            format!("{}{}", content.context, content.continuation),
            format!("{}{}", stored.context, stored.continuation),
        );
        let at = one.chars().zip(other.chars()).take_while(|(left, right)| left == right).count();
        if one != other {
            let near = |text: &str| {
                let part: String = text.chars().skip(at.saturating_sub(10)).take(50).collect();
                part.replace('\n', "\\n")
            };
            return Some(format!(
                "its prompt differs from character {at} on: `{}` now, `{}` stored",
                near(&one),
                near(&other)
            ));
        }
        let shown = |kwargs: Value| repr::repr(&kwargs);
        match (kwargs, stored_kwargs) {
            (Some(now), Some(stored)) if now != &stored => Some(format!(
                "its generation settings differ: {} now, {} stored",
                shown(Value::Dict(Arc::clone(now))),
                shown(Value::Dict(stored))
            )),
            _ => Some(format!("repeat {} is not stored", request.repeat)),
        }
    }
}

/// Generation settings in canonical form, kept from one request to the next of a task.
#[derive(Default)]
struct Settings(Option<(Arc<Dict>, String)>);

impl Settings {
    fn canonical(&mut self, kwargs: Option<&Arc<Dict>>) -> &str {
        let Some(kwargs) = kwargs else { return "" };
        if !self.0.as_ref().is_some_and(|(last, _)| Arc::ptr_eq(last, kwargs)) {
            self.0 = Some((Arc::clone(kwargs), canonical(Some(kwargs))));
        }
        self.0.as_ref().map_or("", |(_, text)| text)
    }
}

/// The bytes and the value that were read last.
#[derive(Default)]
struct Stored {
    /// The index of a file, an offset and the bytes from there on.
    bytes: (u32, u64, Vec<u8>),
    /// The entry and the value of its `resps`.
    last: Option<(Entry, Value)>,
}

impl Stored {
    /// The `resps` of the first of these entries. Those of the next ones are read with it if they are close.
    fn responses(
        &mut self,
        file: &StoredFile,
        entry: Entry,
        next: &[Option<Entry>],
    ) -> Result<&Value, Error> {
        let place = |entry: &Entry| (entry.file, entry.offset, entry.length);
        if self.last.as_ref().is_none_or(|(last, _)| place(last) != place(&entry)) {
            let end = entry.offset + u64::from(entry.length);
            let (number, start, bytes) = &self.bytes;
            let is_read =
                *number == entry.file && *start <= entry.offset && end <= start + bytes.len() as u64;
            if !is_read {
                let mut last = end;
                for next in next.iter().flatten() {
                    let end = next.offset + u64::from(next.length);
                    let is_close =
                        next.file == entry.file && next.offset >= entry.offset && next.offset <= last + GAP;
                    if !is_close || end - entry.offset > MOST {
                        break;
                    }
                    last = last.max(end);
                }
                self.bytes = (entry.file, entry.offset, file.read(entry.offset, last - entry.offset)?);
            }
            let (_, start, bytes) = &self.bytes;
            let start = (entry.offset - start) as usize;
            self.last = Some((entry, file.decode(entry, &bytes[start..start + entry.length as usize])?));
        }
        Ok(self.last.as_ref().map_or(&Value::None, |(_, responses)| responses))
    }
}

fn malformed(file: &StoredFile, entry: Entry, wrong: &str) -> Diagnostic {
    let message =
        format!("The sample of document {} in `{}` cannot be used", entry.document, file.path.display());
    Diagnostic::new(format!("{message}: {wrong}"))
}
