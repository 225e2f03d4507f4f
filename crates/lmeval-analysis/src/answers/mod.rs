//! Answers of a finished run, looked up by request, and its scores.
//!
//! Only offsets and scores are held in memory, 32 bytes per document and 20 per document and pipeline; prompts and answers stay in the
//! samples files.

mod line;
mod moved;
mod reader;
mod same;
mod scores;

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fs_err as fs;
use lmeval_core::recorded::RequestContent;
use lmeval_core::{Answer, Diagnostic, ModelRequest};
use lmeval_pycompat::{Value, repr};
use lmeval_scoring::results::LinesChecksum;

use self::line::{Indexed, Line, Problem, stored_requests};
use self::moved::Contents;
use self::reader::{Pieces, Reader};
use crate::Error;
use crate::read::{Fields, SamplesFile, read_exact_at, read_line, unreadable};

pub use self::scores::StoredScores;

/// The answers in the samples files of a run, of ours or of the Python harness.
#[derive(Debug)]
pub struct StoredSamples {
    files: Vec<StoredFile>,
    /// The requests by content, read when a document does not have the one that it is looked up for.
    contents: Mutex<Option<Arc<Contents>>>,
    /// Buffers of lookups that have ended: fresh ones for each would cost more than reading into them.
    buffers: Mutex<Vec<Pieces>>,
}

#[derive(Debug)]
struct StoredFile {
    /// The task, as the results name it.
    task: String,
    path: PathBuf,
    file: fs::File,
    content: Indexed,
}

/// A request of a line.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The index of the file.
    file: usize,
    line: Line,
    /// The index among the requests of the document.
    request: usize,
}

impl StoredFile {
    fn open(SamplesFile { task, path }: &SamplesFile) -> Result<Self, Error> {
        let file = fs::File::open(path).map_err(|error| unreadable(path, error))?;
        Ok(Self { task: task.clone(), path: path.clone(), file, content: Indexed::read(path)? })
    }

    /// Whether requests of a task, named without its group and format, may be in the file.
    fn is_of(&self, task: &str) -> bool {
        let own = self.task.rsplit_once("::").map_or(self.task.as_str(), |(_, own)| own);
        own == task || own.split_once('@').is_some_and(|(own, _)| own == task) || self.task == task
    }

    /// The indices of the lines of a document.
    fn lines_of(&self, document: usize) -> std::ops::Range<usize> {
        let lines = &self.content.lines;
        let is_own = |line: &Line| line.document as usize == document;
        // In a complete file without duplicates, the document is at its own index.
        let is_alone = lines.get(document).is_some_and(is_own)
            && !lines.get(document + 1).is_some_and(is_own)
            && !document.checked_sub(1).is_some_and(|before| is_own(&lines[before]));
        if is_alone {
            return document..document + 1;
        }
        let start = lines.partition_point(|line| (line.document as usize) < document);
        start..start + lines[start..].iter().take_while(|line| is_own(line)).count()
    }

    /// The error for a line.
    fn problem(&self, line: Line, wrong: impl Into<String>) -> Diagnostic {
        let count = || -> std::io::Result<usize> {
            use std::io::Read as _;
            let mut before = fs::File::open(&self.path)?.take(line.offset);
            let (mut lines, mut buffer) = (1, vec![0; 1 << 16]);
            loop {
                match before.read(&mut buffer)? {
                    0 => return Ok(lines),
                    read => lines += memchr::memchr_iter(b'\n', &buffer[..read]).count(),
                }
            }
        };
        match count() {
            Ok(index) => Problem::new(wrong).diagnostic(&self.path, index),
            Err(error) => unreadable(&self.path, error),
        }
    }
}

impl StoredSamples {
    /// Reads samples files. Of several lines of a document, one per filter pipeline, the first pipeline's is used.
    pub fn open(samples: &[SamplesFile]) -> Result<Self, Error> {
        let files = samples.iter().map(StoredFile::open).collect::<Result<_, _>>()?;
        Ok(Self { files, contents: Mutex::default(), buffers: Mutex::default() })
    }

    /// Whether a prompt is a list of chat messages.
    pub fn is_chat(&self) -> bool {
        self.files.iter().any(|file| file.content.is_chat)
    }

    /// The documents of a task, in order; those of the only file, whatever its name. `None` without a file of the task.
    pub fn documents(&self, task: &str) -> Option<Vec<i64>> {
        let only = self.files.first().filter(|_| self.files.len() == 1);
        let file = self.files.iter().find(|file| file.task == task).or(only)?;
        let mut documents: Vec<i64> =
            file.content.lines.iter().map(|line| i64::from(line.document)).collect();
        documents.dedup();
        Some(documents)
    }

    /// The checksum of the lines of a file.
    pub fn checksum(&self, path: &Path) -> Option<LinesChecksum> {
        self.files.iter().find(|file| file.path == path).map(|file| file.content.checksum)
    }

    /// The scores of a file, by pipeline.
    pub fn scores(&self, path: &Path) -> Option<&[StoredScores]> {
        self.files.iter().find(|file| file.path == path).map(|file| &file.content.scores[..])
    }

    /// The stored answers of requests, `None` where there is none.
    pub fn find(&self, requests: &[ModelRequest]) -> Result<Vec<Option<Answer>>, Error> {
        let last = requests.iter().map(|request| request.doc_id.0).max().unwrap_or_default();
        let buffers = || self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let pieces = buffers().pop().unwrap_or_default();
        let mut reader = Reader::new(&self.files, last, pieces);
        let mut of_task: Option<(&Arc<str>, Vec<usize>)> = None;
        let mut answers = Vec::with_capacity(requests.len());
        for request in requests {
            if request.additional_args.is_some() {
                // Samples files hold hashes of images and sounds, which cannot be compared.
                answers.push(None);
                continue;
            }
            if of_task.as_ref().is_none_or(|(task, _)| **task != request.task_name) {
                of_task = Some((&request.task_name, self.files_of(&request.task_name)));
            }
            let files = of_task.as_ref().map_or(&[][..], |(_, files)| files);
            let place = match self.own(request, files, &mut reader)? {
                Some(place) => Some(place),
                None => self.moved(request, files, &mut reader)?,
            };
            answers.push(match place {
                Some(place) => reader.answer(place, request.request_type(), request.repeat)?,
                None => None,
            });
        }
        buffers().push(reader.into_pieces());
        Ok(answers)
    }

    /// The files that may have requests of a task.
    fn files_of(&self, task: &str) -> Vec<usize> {
        let files = self.files.iter().enumerate();
        files.filter(|(_, file)| file.is_of(task)).map(|(index, _)| index).collect()
    }

    /// The request among those of its own document: at its own index, or else the first that is the same.
    fn own(
        &self,
        request: &ModelRequest,
        files: &[usize],
        reader: &mut Reader<'_>,
    ) -> Result<Option<Place>, Error> {
        let mut other = None;
        for &file in files {
            for index in self.files[file].lines_of(request.doc_id.0) {
                let line = self.files[file].content.lines[index];
                if reader.has(file, index, request.idx, request)? {
                    return Ok(Some(Place { file, line, request: request.idx }));
                }
                if other.is_none() {
                    let found = reader.position(file, index, request)?;
                    other = found.map(|request| Place { file, line, request });
                }
            }
        }
        Ok(other)
    }

    /// A request with the same content of another document, if all of them have the same answers.
    fn moved(
        &self,
        request: &ModelRequest,
        files: &[usize],
        reader: &mut Reader<'_>,
    ) -> Result<Option<Place>, Error> {
        let contents = {
            let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
            if contents.is_none() {
                *contents = Some(Arc::new(Contents::read(&self.files)?));
            }
            contents.clone().unwrap_or_default()
        };
        let mut others: Vec<Place> = contents.find(request, &self.files, reader.settings());
        if others.iter().any(|place| files.contains(&place.file)) {
            others.retain(|place| files.contains(&place.file));
        }
        let Some((first, rest)) = others.split_first() else { return Ok(None) };
        // The document was moved. Answers to one prompt can differ, and there is no telling which is this document's.
        let answer = if rest.is_empty() { None } else { reader.answers(*first)? };
        for other in rest {
            if reader.answers(*other)? != answer {
                return Ok(None);
            }
        }
        Ok(Some(*first))
    }

    /// The different prompts of a document, shortest first.
    pub fn prompts(&self, task: &str, document: usize) -> Result<Vec<Arc<str>>, Error> {
        let mut prompts = Vec::new();
        for file in self.files_of(task).into_iter().map(|index| &self.files[index]) {
            for index in file.lines_of(document) {
                let line = file.content.lines[index];
                let [start, length] = line.arguments;
                let mut bytes = vec![0; length as usize];
                read_exact_at(file.file.file(), &mut bytes, line.offset + u64::from(start))
                    .map_err(|error| unreadable(&file.path, error))?;
                let arguments = String::from_utf8(bytes).map_err(|_| changed(&file.path))?;
                let requests = stored_requests(&arguments).map_err(|wrong| file.problem(line, wrong))?;
                prompts.extend(requests.into_iter().flatten().map(|(content, _)| content.context));
            }
        }
        prompts.sort_by(|one, other| (one.len(), one).cmp(&(other.len(), other)));
        prompts.dedup();
        Ok(prompts)
    }

    /// Explains why a request has no answer, for messages.
    pub fn explain(&self, request: &ModelRequest) -> Option<String> {
        if request.additional_args.is_some() {
            return Some(
                "samples files do not hold images and sounds; name the journal of the run instead".to_owned(),
            );
        }
        let of_file = |index: usize| {
            let file = &self.files[index];
            file.lines_of(request.doc_id.0).next().map(|line| (file, file.content.lines[line]))
        };
        let Some((file, line)) = self.files_of(&request.task_name).into_iter().find_map(of_file) else {
            return Some("the run has no such document".to_owned());
        };
        let opened = fs::File::open(&file.path).ok()?;
        let line = read_line(&mut BufReader::new(opened), line.offset).ok()?;
        let stored = stored_requests(Fields::parse(line.trim_end()).ok()?.raw("arguments")?).ok()?;
        let (content, kwargs) = RequestContent::of_request(request);
        let of_type =
            |types: &Vec<line::Stored>| types.iter().find(|(stored, _)| stored.kind == content.kind).cloned();
        // The request at the same index, or the one that is closest to it.
        let mut indices: Vec<usize> = (0..stored.len()).collect();
        indices.sort_by_key(|index| index.abs_diff(request.idx));
        let (stored, stored_kwargs) = indices.into_iter().find_map(|index| of_type(&stored[index]))?;
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

fn changed(path: &Path) -> Diagnostic {
    Diagnostic::new(format!("`{}` changed while it was read", path.display()))
}
