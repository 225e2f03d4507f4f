//! Reads requests and answers of samples files, in long pieces.

use std::sync::Arc;

use lmeval_core::recorded::{recorded_repeats, recorded_response};
use lmeval_core::{Answer, Diagnostic, Finish, ModelRequest, RequestType, Separator, Trace};
use lmeval_pycompat::json::Decoder;
use lmeval_pycompat::{Value, json};

use super::line::{Line, Stored, stored_requests};
use super::same::{Settings, is_same};
use super::{Place, StoredFile, changed};
use crate::Error;
use crate::read::{read_exact_at, unreadable};

/// Lines this close in a file are read together with what is between them.
const GAP: u64 = 64 << 10;

/// The most bytes that are read together, unless one line is longer.
const MOST: u64 = 1 << 20;

/// A piece of each file: its offset and its bytes.
pub(super) type Pieces = Vec<(u64, Vec<u8>)>;

/// Reads lines for a batch of requests.
pub(super) struct Reader<'a> {
    files: &'a [StoredFile],
    /// The last document of the batch: no line after it is read ahead.
    last: usize,
    pieces: Pieces,
    settings: Settings,
    decoder: Decoder,
    /// The file and the offset of the line whose answers were decoded last, and the answers.
    answers: Option<(usize, u64, Value)>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(files: &'a [StoredFile], last: usize, mut pieces: Pieces) -> Self {
        pieces.resize_with(files.len(), Default::default);
        Self { files, last, pieces, settings: Settings::default(), decoder: Decoder::new(), answers: None }
    }

    /// The pieces that were read last, for another reader.
    pub(super) fn into_pieces(self) -> Pieces {
        self.pieces
    }

    pub(super) fn settings(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// Reads a line, with those after it that the batch may need.
    fn read(&mut self, file: usize, index: usize) -> Result<(), Error> {
        let StoredFile { content, .. } = &self.files[file];
        let [start, end] = content.lines[index].range();
        let following = content.lines[index + 1..].iter();
        let mut whole = end;
        for line in following.take_while(|line| line.document as usize <= self.last) {
            let [next, end] = line.range();
            if next < start || next > whole + GAP || end - start > MOST {
                break;
            }
            whole = whole.max(end);
        }
        self.load(file, [start, end], whole)
    }

    /// Makes bytes of a file available; reads up to `whole` if they are not.
    fn load(&mut self, file: usize, [start, end]: [u64; 2], whole: u64) -> Result<(), Error> {
        let (at, bytes) = &mut self.pieces[file];
        if *at <= start && end <= *at + bytes.len() as u64 {
            return Ok(());
        }
        *at = start;
        bytes.resize((whole - start) as usize, 0);
        let StoredFile { file, path, .. } = &self.files[file];
        read_exact_at(file.file(), bytes, start).map_err(|error| unreadable(path, error).into())
    }

    /// A part of a line that was read.
    fn raw(&self, file: usize, line: Line, [start, length]: [u32; 2]) -> Result<&str, Error> {
        let (at, bytes) = &self.pieces[file];
        let from = (line.offset + u64::from(start) - at) as usize;
        let raw = &bytes[from..from + length as usize];
        std::str::from_utf8(raw).map_err(|_| changed(&self.files[file].path).into())
    }

    /// Whether the request at an index of a line is this one.
    pub(super) fn has(
        &mut self,
        file: usize,
        index: usize,
        position: usize,
        request: &ModelRequest,
    ) -> Result<bool, Error> {
        self.read(file, index)?;
        let line = self.files[file].content.lines[index];
        let mut settings = std::mem::take(&mut self.settings);
        let arguments = self.raw(file, line, line.arguments)?;
        let is_same = is_same(arguments, position, request, &mut settings);
        self.settings = settings;
        is_same.map_err(|wrong| self.files[file].problem(line, wrong).into())
    }

    /// The requests of a line, each as all types that it may have.
    pub(super) fn requests(&mut self, file: usize, index: usize) -> Result<Vec<Vec<Stored>>, Error> {
        self.read(file, index)?;
        let line = self.files[file].content.lines[index];
        let requests = stored_requests(self.raw(file, line, line.arguments)?);
        requests.map_err(|wrong| self.files[file].problem(line, wrong).into())
    }

    /// The index among the requests of a line of the first that is this one.
    pub(super) fn position(
        &mut self,
        file: usize,
        index: usize,
        request: &ModelRequest,
    ) -> Result<Option<usize>, Error> {
        for position in 0..self.requests(file, index)?.len() {
            if self.has(file, index, position, request)? {
                return Ok(Some(position));
            }
        }
        Ok(None)
    }

    /// All answers to a request; `None` if the line has too few.
    pub(super) fn answers(&mut self, place: Place) -> Result<Option<Value>, Error> {
        let decoded = self.decoded(place)?;
        Ok(decoded.as_list().and_then(|all| all.get(place.request)).cloned())
    }

    fn decoded(&mut self, Place { file, line, .. }: Place) -> Result<&Value, Error> {
        if self.answers.as_ref().is_none_or(|(of, at, _)| (*of, *at) != (file, line.offset)) {
            let [start, end] = line.range();
            self.load(file, [start, end], end)?;
            let mut decoder = std::mem::take(&mut self.decoder);
            let decoded = decoder.decode(self.raw(file, line, line.responses)?);
            self.decoder = decoder;
            let decoded = decoded.map_err(|_| self.files[file].problem(line, "its `resps` are not JSON"))?;
            self.answers = Some((file, line.offset, decoded));
        }
        Ok(self.answers.as_ref().map_or(&Value::None, |(.., answers)| answers))
    }

    /// The answer to one repeat of a request; `None` if it is not stored.
    pub(super) fn answer(
        &mut self,
        place: Place,
        kind: RequestType,
        repeat: usize,
    ) -> Result<Option<Answer>, Error> {
        let file = &self.files[place.file];
        let wrong = |wrong: String| file.problem(place.line, wrong);
        let all = self.decoded(place)?.as_list();
        let own = all.and_then(|all| all.get(place.request));
        let own = own.ok_or_else(|| wrong("it has too few `resps`".to_owned()))?;
        let repeats = recorded_repeats(kind, own).map_err(wrong)?;
        let answer = repeats.get(repeat).map(|answer| recorded_response(kind, answer)).transpose();
        let Some(response) = answer.map_err(wrong)? else { return Ok(None) };
        let reason = self.beside(place, repeat, place.line.finishes, "finish_reasons")?;
        let finish = reason.as_deref().map_or(Some(Finish::Complete), Finish::from_reason);
        let finish = finish.ok_or_else(|| misfit(file, place.line, "finish_reasons"))?;
        let reasoning = self.beside(place, repeat, place.line.reasoning, "reasoning")?;
        let trace =
            reasoning.map(|reasoning| Trace { reasoning, separator: Separator::Field, ..Trace::default() });
        let trace = trace.filter(|trace| !trace.is_empty()).map(Arc::new);
        Ok(Some(Answer { finish, trace, ..Answer::from(response) }))
    }

    /// What an optional field of a line says of an answer.
    fn beside(
        &self,
        Place { file, line, request }: Place,
        repeat: usize,
        range: [u32; 2],
        field: &str,
    ) -> Result<Option<Arc<str>>, Error> {
        if range[1] == 0 {
            return Ok(None);
        }
        let all = json::loads(self.raw(file, line, range)?).ok();
        let own = all.as_ref().and_then(|all| all.as_list()?.get(request)?.as_list()?.get(repeat)?.as_str());
        let own = own.ok_or_else(|| misfit(&self.files[file], line, field))?;
        Ok(Some(own.into()))
    }
}

fn misfit(file: &StoredFile, line: Line, field: &str) -> Diagnostic {
    file.problem(line, format!("its `{field}` do not fit its `resps`"))
}
