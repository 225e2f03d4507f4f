//! Answers of a finished run, looked up by request.
//!
//! Only an index is held in memory, about 40 bytes per answer; prompts and answers stay in the samples files.

mod index;

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fs_err as fs;
use lmeval_core::recorded::{RequestContent, recorded_arguments, recorded_repeats, recorded_response};
use lmeval_core::{Answer, Diagnostic, ModelRequest};
use lmeval_pycompat::{Value, json, repr};

use self::index::{Entry, hash};
use crate::Error;
use crate::read::{Fields, SamplesFile};

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

    /// The line of an entry.
    fn line(&self, entry: Entry) -> Result<String, Error> {
        let mut bytes = vec![0; entry.length as usize];
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let read = file.seek(SeekFrom::Start(entry.offset)).and_then(|_| file.read_exact(&mut bytes));
        drop(file);
        read.map_err(|error| unreadable(&self.path, error))?;
        String::from_utf8(bytes).map_err(|_| changed(&self.path).into())
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
        let mut last: Option<(u32, u64, Value)> = None;
        let mut answers = Vec::with_capacity(requests.len());
        for request in requests {
            let Some(entry) = self.entry(request)? else {
                answers.push(None);
                continue;
            };
            let file = &self.files[entry.file as usize];
            let is_read = last
                .as_ref()
                .is_some_and(|(number, offset, _)| (*number, *offset) == (entry.file, entry.offset));
            if !is_read {
                last = Some((entry.file, entry.offset, responses(file, entry)?));
            }
            let responses = last.as_ref().and_then(|(.., responses)| responses.as_list()).unwrap_or_default();
            let kind = request.request_type();
            let own = responses
                .get(usize::from(entry.request))
                .ok_or_else(|| malformed(file, entry, "it has too few `resps`"))?;
            let repeats = recorded_repeats(kind, own).map_err(|wrong| malformed(file, entry, &wrong))?;
            let answer = match repeats.get(request.repeat) {
                Some(answer) => {
                    Some(recorded_response(kind, answer).map_err(|wrong| malformed(file, entry, &wrong))?)
                }
                None => None,
            };
            answers.push(answer.map(Answer::from));
        }
        Ok(answers)
    }

    /// The entry of a request: that of its own document, or else one with the same content if all of them are alike.
    fn entry(&self, request: &ModelRequest) -> Result<Option<Entry>, Error> {
        if request.additional_args.is_some() {
            // Samples files hold hashes of images and sounds, which cannot be compared.
            return Ok(None);
        }
        let (content, kwargs) = RequestContent::of_request(request);
        let hash = hash(&content, kwargs.map(|kwargs| &**kwargs));
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
            let responses = responses(&self.files[entry.file as usize], entry)?;
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

/// The `resps` of a line.
fn responses(file: &StoredFile, entry: Entry) -> Result<Value, Error> {
    let line = file.line(entry)?;
    let fields = Fields::parse(line.trim_end()).map_err(|_| changed(&file.path))?;
    let raw = fields.raw("resps").ok_or_else(|| malformed(file, entry, "it has no `resps`"))?;
    json::loads(raw).map_err(|_| malformed(file, entry, "its `resps` are not JSON").into())
}

fn malformed(file: &StoredFile, entry: Entry, wrong: &str) -> Diagnostic {
    let message =
        format!("The sample of document {} in `{}` cannot be used", entry.document, file.path.display());
    Diagnostic::new(format!("{message}: {wrong}"))
}
