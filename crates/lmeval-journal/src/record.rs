//! Records: content and framing.
//!
//! A record is a marker, the payload length, a checksum over length, kind and payload, the kind, and the payload.
//! The marker contains bytes that never occur in UTF-8, so that the next record after a damaged one can be found
//! and no model output can be mistaken for a record.

use std::fmt;
use std::sync::Arc;

use lmeval_core::{
    Answer, Finish, Letter, ModelIdentity, REPORTED_FACTS, RequestType, Response, Separator, TokenEnds,
    Trace, Usage,
};

use crate::codec::{Reader, put_bytes, put_number, put_string};
use crate::error::{Error, ErrorKind};
use crate::key::{Fingerprint, Key};

/// The first bytes of every record.
pub(crate) const MARKER: [u8; 4] = [0xf5, b'J', 0xff, 0xfa];

/// The number of bytes before the payload.
pub(crate) const HEAD: usize = 13;

/// The largest payload in bytes. Bounds the memory that a damaged length can make a reader allocate.
const MAX_PAYLOAD: usize = 256 << 20;

const KIND_MODEL: u8 = 1;
const KIND_ENTRY: u8 = 2;
const KIND_DATA: u8 = 3;

/// Precedes the beginning of an answer.
const BEGUN: u8 = 5;

/// One finished request.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Identifies the request across runs.
    pub key: Key,
    /// The task whose document sent the request first.
    pub task: Arc<str>,
    /// The document's index in its split.
    pub doc_id: usize,
    /// The index of the request within its document.
    pub idx: usize,
    /// The index of the repeat.
    pub repeat: usize,
    /// The type of the request.
    pub kind: RequestType,
    /// Its answer or its failure.
    pub outcome: Outcome,
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The model answered.
    Answered(Answer),
    /// The model failed to answer; a later run may send the request again.
    Failed {
        /// The error message.
        message: String,
    },
    /// The beginning of an answer that was still being generated; a later run may continue it.
    Begun(Answer),
}

/// What the current record of a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Answered,
    Failed,
    Begun,
}

/// The origin of a request; old caches do not record it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Origin {
    pub(crate) task: Arc<str>,
    pub(crate) doc_id: usize,
    pub(crate) idx: usize,
    pub(crate) repeat: usize,
    pub(crate) kind: RequestType,
}

/// An entry as stored in the file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredEntry {
    pub(crate) key: Key,
    pub(crate) origin: Option<Origin>,
    pub(crate) outcome: Outcome,
}

/// A model as stored in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredModel {
    backend: String,
    facts: Vec<(String, String)>,
}

/// The digest of the data that requests were built from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredData {
    /// The task, and the choice of its documents.
    pub(crate) subject: String,
    pub(crate) digest: String,
}

impl StoredData {
    /// The record, head included.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, Error> {
        frame(KIND_DATA, |out| {
            put_string(out, &self.subject);
            put_string(out, &self.digest);
        })
    }

    fn decode(payload: &[u8]) -> Option<Self> {
        let mut reader = Reader(payload);
        let (subject, digest) = (reader.string()?.to_owned(), reader.string()?.to_owned());
        reader.finish(Self { subject, digest })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Record {
    Model(StoredModel),
    Entry(StoredEntry),
    Data(StoredData),
}

impl From<Entry> for StoredEntry {
    fn from(entry: Entry) -> Self {
        let Entry { key, task, doc_id, idx, repeat, kind, outcome } = entry;
        Self { key, origin: Some(Origin { task, doc_id, idx, repeat, kind }), outcome }
    }
}

impl StoredEntry {
    pub(crate) fn state(&self) -> State {
        match self.outcome {
            Outcome::Answered(_) => State::Answered,
            Outcome::Failed { .. } => State::Failed,
            Outcome::Begun(_) => State::Begun,
        }
    }

    /// The answer, converted to the type `asked`, or `None` if it is a failure or of another type.
    pub(crate) fn into_answer(self, asked: RequestType) -> Option<Answer> {
        let (Outcome::Answered(answer) | Outcome::Begun(answer)) = self.outcome else { return None };
        match self.origin {
            Some(origin) => (origin.kind == asked).then_some(answer),
            None => {
                // Old caches store the same pair for log-likelihoods and rolling log-likelihoods.
                let response = match (answer.response, asked) {
                    (response @ Response::Loglikelihood { .. }, RequestType::Loglikelihood)
                    | (response @ Response::Rolling { .. }, RequestType::LoglikelihoodRolling)
                    | (response @ Response::Text(_), RequestType::GenerateUntil)
                    | (response @ Response::Letters(_), RequestType::ChoiceLetters) => response,
                    (Response::Loglikelihood { logprob, .. }, RequestType::LoglikelihoodRolling) => {
                        Response::Rolling { logprob }
                    }
                    _ => return None,
                };
                Some(Answer { response, ..answer })
            }
        }
    }

    /// The record, head included.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, Error> {
        frame(KIND_ENTRY, |out| {
            out.extend_from_slice(&self.key.digest);
            out.extend_from_slice(&self.key.model.0);
            match &self.origin {
                None => out.push(0),
                Some(Origin { task, doc_id, idx, repeat, kind }) => {
                    out.push(match kind {
                        RequestType::Loglikelihood => 1,
                        RequestType::LoglikelihoodRolling => 2,
                        RequestType::GenerateUntil => 3,
                        RequestType::ChoiceLetters => 4,
                    });
                    put_string(out, task);
                    for number in [doc_id, idx, repeat] {
                        put_number(out, *number as u64);
                    }
                }
            }
            match &self.outcome {
                Outcome::Failed { message } => {
                    out.push(0);
                    put_string(out, message);
                }
                Outcome::Answered(answer) | Outcome::Begun(answer) => {
                    if let Outcome::Begun(_) = self.outcome {
                        out.push(BEGUN);
                    }
                    let Answer { response, finish, usage, trace } = answer;
                    match response {
                        Response::Loglikelihood { logprob, is_greedy } => {
                            out.push(1);
                            out.extend_from_slice(&logprob.to_bits().to_le_bytes());
                            out.push(u8::from(*is_greedy));
                        }
                        Response::Rolling { logprob } => {
                            out.push(2);
                            out.extend_from_slice(&logprob.to_bits().to_le_bytes());
                        }
                        Response::Text(text) => {
                            out.push(3);
                            put_string(out, text);
                        }
                        Response::Letters(letters) => {
                            out.push(4);
                            put_number(out, letters.len() as u64);
                            letters.iter().for_each(|letter| put_letter(out, letter));
                        }
                    }
                    out.push(finish.code());
                    put_number(out, usage.prompt_tokens);
                    put_number(out, usage.completion_tokens);
                    if let Some(trace) = trace {
                        put_trace(out, trace);
                    }
                }
            }
        })
    }

    fn decode(payload: &[u8]) -> Option<Self> {
        let mut reader = Reader(payload);
        let digest = reader.array()?;
        let model = Fingerprint(reader.array()?);
        let kind = match reader.byte()? {
            0 => None,
            1 => Some(RequestType::Loglikelihood),
            2 => Some(RequestType::LoglikelihoodRolling),
            3 => Some(RequestType::GenerateUntil),
            4 => Some(RequestType::ChoiceLetters),
            _ => return None,
        };
        let origin = match kind {
            None => None,
            Some(kind) => Some(Origin {
                task: reader.string()?.into(),
                doc_id: reader.size()?,
                idx: reader.size()?,
                repeat: reader.size()?,
                kind,
            }),
        };
        let mut code = reader.byte()?;
        let is_begun = code == BEGUN;
        if is_begun {
            code = reader.byte()?;
        }
        let response = match code {
            0 => {
                let outcome = Outcome::Failed { message: reader.string()?.to_owned() };
                return reader.finish(Self { key: Key { digest, model }, origin, outcome });
            }
            1 => Response::Loglikelihood { logprob: reader.float()?, is_greedy: reader.flag()? },
            2 => Response::Rolling { logprob: reader.float()? },
            3 => Response::Text(reader.string()?.into()),
            4 => Response::Letters(letters(&mut reader)?),
            _ => return None,
        };
        let finish = Finish::from_code(reader.byte()?)?;
        let usage = Usage { prompt_tokens: reader.number()?, completion_tokens: reader.number()? };
        let trace = if reader.is_at_end() { None } else { Some(Arc::new(trace(&mut reader)?)) };
        let answer = Answer { response, finish, usage, trace };
        let outcome = if is_begun { Outcome::Begun(answer) } else { Outcome::Answered(answer) };
        reader.finish(Self { key: Key { digest, model }, origin, outcome })
    }
}

/// Follows the answer, which has none in records of older versions and of other request types.
fn put_trace(out: &mut Vec<u8>, Trace { reasoning, separator, rest, tokens, ids }: &Trace) {
    out.push(separator.code());
    put_string(out, reasoning);
    put_string(out, rest);
    put_bytes(out, tokens.as_bytes());
    put_number(out, ids.len() as u64);
    ids.iter().for_each(|id| put_number(out, (*id).into()));
}

fn trace(reader: &mut Reader<'_>) -> Option<Trace> {
    Some(Trace {
        separator: Separator::from_code(reader.byte()?)?,
        reasoning: reader.string()?.into(),
        rest: reader.string()?.into(),
        tokens: TokenEnds::from_bytes(reader.bytes()?)?,
        // A damaged count must not allocate.
        ids: (0..reader.number()?).map(|_| u32::try_from(reader.number()?).ok()).collect::<Option<_>>()?,
    })
}

fn put_letter(out: &mut Vec<u8>, letter: &Letter) {
    out.push(u8::from(letter.logprob.is_some()));
    for number in letter.logprob.into_iter().chain([letter.upper]) {
        out.extend_from_slice(&number.to_bits().to_le_bytes());
    }
    out.push(u8::from(letter.is_greedy));
}

fn letters(reader: &mut Reader<'_>) -> Option<Arc<[Letter]>> {
    // A damaged count must not allocate: letters are read until the record ends.
    let letters = (0..reader.number()?).map(|_| {
        let logprob = if reader.flag()? { Some(reader.float()?) } else { None };
        Some(Letter { logprob, upper: reader.float()?, is_greedy: reader.flag()? })
    });
    letters.collect()
}

impl From<&ModelIdentity> for StoredModel {
    fn from(identity: &ModelIdentity) -> Self {
        let facts = identity.facts.iter().map(|(name, fact)| ((*name).to_owned(), fact.clone())).collect();
        Self { backend: identity.backend.clone(), facts }
    }
}

impl StoredModel {
    /// Whether the model has all facts of `identity`, in the same order, and besides them only facts that a server
    /// reports.
    pub(crate) fn extends(&self, identity: &ModelIdentity) -> bool {
        let is_known = |name: &str| identity.fact(name).is_some() || !REPORTED_FACTS.contains(&name);
        let own = self.facts.iter().filter(|(name, _)| is_known(name));
        let own = own.map(|(name, value)| (name.as_str(), value));
        self.backend == identity.backend && own.eq(identity.facts.iter().map(|(name, value)| (*name, value)))
    }

    /// A fact by its name.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.facts.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The same model with another fact, or without it.
    pub fn with(&self, name: &str, fact: Option<&str>) -> Self {
        let mut model = self.clone();
        model.facts.retain(|(known, _)| known != name);
        model.facts.extend(fact.map(|fact| (name.to_owned(), fact.to_owned())));
        model
    }

    /// The part of the keys that identifies the model.
    pub fn fingerprint(&self) -> Fingerprint {
        let facts = self.facts.iter().map(|(name, fact)| (name.as_str(), fact.as_str()));
        Fingerprint::of_parts(&self.backend, facts)
    }

    /// The record, head included.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, Error> {
        frame(KIND_MODEL, |out| {
            put_string(out, &self.backend);
            put_number(out, self.facts.len() as u64);
            for (name, fact) in &self.facts {
                put_string(out, name);
                put_string(out, fact);
            }
        })
    }

    fn decode(payload: &[u8]) -> Option<Self> {
        let mut reader = Reader(payload);
        let backend = reader.string()?.to_owned();
        let mut facts = Vec::new();
        for _ in 0..reader.number()? {
            facts.push((reader.string()?.to_owned(), reader.string()?.to_owned()));
        }
        reader.finish(Self { backend, facts })
    }
}

impl fmt::Display for StoredModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.backend)?;
        self.facts.iter().try_for_each(|(name, fact)| write!(f, ", {name} {fact}"))
    }
}

impl Record {
    /// Decodes a complete record; `None` if its kind or payload is unknown.
    pub(crate) fn decode(record: &[u8]) -> Option<Self> {
        let payload = record.get(HEAD..)?;
        match record[HEAD - 1] {
            KIND_MODEL => StoredModel::decode(payload).map(Self::Model),
            KIND_ENTRY => StoredEntry::decode(payload).map(Self::Entry),
            KIND_DATA => StoredData::decode(payload).map(Self::Data),
            _ => None,
        }
    }
}

/// Frames a payload as a record.
fn frame(kind: u8, write: impl FnOnce(&mut Vec<u8>)) -> Result<Vec<u8>, Error> {
    let mut record = vec![0; HEAD];
    write(&mut record);
    let length = record.len() - HEAD;
    if length > MAX_PAYLOAD {
        return Err(ErrorKind::TooLarge { bytes: length, limit: MAX_PAYLOAD }.into());
    }
    record[..4].copy_from_slice(&MARKER);
    record[4..8].copy_from_slice(&(length as u32).to_le_bytes());
    record[HEAD - 1] = kind;
    let checksum = checksum(&record);
    record[8..12].copy_from_slice(&checksum.to_le_bytes());
    Ok(record)
}

/// The size of the record that starts here; `None` if none does. `start` must have at least [`HEAD`] bytes.
pub(crate) fn size(start: &[u8]) -> Option<usize> {
    let [m0, m1, m2, m3, l0, l1, l2, l3, ..] = *start else { return None };
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    (start.len() >= HEAD && [m0, m1, m2, m3] == MARKER && length <= MAX_PAYLOAD).then_some(HEAD + length)
}

/// Whether `record` is exactly one record with a valid checksum.
pub(crate) fn is_sound(record: &[u8]) -> bool {
    size(record) == Some(record.len()) && record[8..12] == checksum(record).to_le_bytes()
}

fn checksum(record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&record[4..8]);
    hasher.update(&record[HEAD - 1..]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key { digest: [7; 16], model: Fingerprint([9; 16]) }
    }

    fn answered(response: Response, origin: Option<Origin>) -> StoredEntry {
        let usage = Usage { prompt_tokens: 300, completion_tokens: 1 << 40 };
        let answer = Answer { finish: Finish::CutOff, ..Answer::new(response, usage) };
        StoredEntry { key: key(), origin, outcome: Outcome::Answered(answer) }
    }

    fn origin(kind: RequestType) -> Origin {
        Origin { task: "täsk".into(), doc_id: usize::MAX, idx: 0, repeat: 129, kind }
    }

    #[test]
    fn entries_round_trip() {
        let text = Response::Text("line\nline\u{0}\u{10ffff}".into());
        let traced = Trace {
            reasoning: "hm</t> ".into(),
            separator: Separator::Field,
            rest: "\n".into(),
            tokens: TokenEnds::new([(1, 0), (200, 2)]),
            ids: [7, u32::MAX].into(),
        };
        let traced = Answer { trace: Some(traced.into()), ..Answer::from(text.clone()) };
        let entries = [
            StoredEntry { key: key(), origin: None, outcome: Outcome::Begun(traced.clone()) },
            StoredEntry { key: key(), origin: None, outcome: Outcome::Answered(traced) },
            answered(text, Some(origin(RequestType::GenerateUntil))),
            answered(Response::Text("".into()), None),
            answered(
                Response::Rolling { logprob: f64::NEG_INFINITY },
                Some(origin(RequestType::LoglikelihoodRolling)),
            ),
            answered(
                Response::Letters(Arc::from([
                    Letter { logprob: Some(-0.5), upper: -0.25, is_greedy: true },
                    Letter { logprob: None, upper: f64::NEG_INFINITY, is_greedy: false },
                ])),
                Some(origin(RequestType::ChoiceLetters)),
            ),
            StoredEntry { key: key(), origin: None, outcome: Outcome::Failed { message: "no".into() } },
        ];
        for entry in entries {
            let record = entry.encode().unwrap();
            assert!(is_sound(&record));
            assert_eq!(Record::decode(&record), Some(Record::Entry(entry)));
        }
    }

    #[test]
    fn floats_are_bit_exact() {
        let bits =
            [0x7ff8_0000_0000_0001, 0xfff4_dead_beef_0000, f64::INFINITY.to_bits(), (-0.0_f64).to_bits(), 1];
        for bits in bits {
            let response = Response::Loglikelihood { logprob: f64::from_bits(bits), is_greedy: false };
            let record = answered(response, Some(origin(RequestType::Loglikelihood))).encode().unwrap();
            let Some(Record::Entry(entry)) = Record::decode(&record) else { panic!("no entry") };
            let Some(Answer { response: Response::Loglikelihood { logprob, .. }, .. }) =
                entry.into_answer(RequestType::Loglikelihood)
            else {
                panic!("no answer")
            };
            assert_eq!(logprob.to_bits(), bits);
        }
    }

    #[test]
    fn models_round_trip() {
        let identity =
            ModelIdentity { backend: "hf".into(), facts: vec![("model", "a".into()), ("b", String::new())] };
        let model = StoredModel::from(&identity);
        assert_eq!(model.fingerprint(), Fingerprint::of(&identity));
        assert_eq!(model.to_string(), identity.to_string());
        assert_eq!(Record::decode(&model.encode().unwrap()), Some(Record::Model(model)));
    }

    #[test]
    fn digests_round_trip() {
        let data = StoredData { subject: "täsk".to_owned(), digest: "0f".to_owned() };
        let record = data.encode().unwrap();
        assert!(is_sound(&record));
        assert_eq!(Record::decode(&record), Some(Record::Data(data)));
    }

    #[test]
    fn converts_answer_to_requested_type() {
        use RequestType::{GenerateUntil, Loglikelihood, LoglikelihoodRolling};
        let pair = Response::Loglikelihood { logprob: -1.0, is_greedy: true };
        let rolling = Response::Rolling { logprob: -1.0 };
        let give = |response: &Response, kind: Option<RequestType>, asked| {
            let entry = answered(response.clone(), kind.map(origin));
            entry.into_answer(asked).map(|answer| answer.response)
        };
        assert_eq!(give(&pair, Some(Loglikelihood), Loglikelihood), Some(pair.clone()));
        assert_eq!(give(&pair, Some(Loglikelihood), LoglikelihoodRolling), None);
        assert_eq!(give(&pair, None, Loglikelihood), Some(pair.clone()));
        assert_eq!(give(&pair, None, LoglikelihoodRolling), Some(rolling.clone()));
        assert_eq!(give(&pair, None, GenerateUntil), None);
        assert_eq!(give(&rolling, None, LoglikelihoodRolling), Some(rolling.clone()));
        assert_eq!(give(&rolling, None, Loglikelihood), None);
    }

    #[test]
    fn detects_every_cut_and_flipped_bit() {
        let record = answered(Response::Text("answer".into()), None).encode().unwrap();
        for length in 0..record.len() {
            assert!(!is_sound(&record[..length]), "{length}");
            Record::decode(&record[..length]);
        }
        for bit in 0..record.len() * 8 {
            let mut damaged = record.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_sound(&damaged), "{bit}");
            Record::decode(&damaged);
        }
    }
}
