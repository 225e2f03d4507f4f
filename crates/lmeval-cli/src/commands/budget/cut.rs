//! Stored answers as they would have been under a lower token limit.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lmeval_core::{
    Answer, Arguments, Finish, LocalModel, ModelError, ModelIdentity, ModelRequest, ModelTemplate,
    ModelTraits, RequestType, Response, Separator, TokenEnds, Trace,
};
use lmeval_pycompat::Value;
use lmeval_tokenizers::HuggingFaceTokenizer;

use crate::stored::SharedModel;
use crate::tokenizer::LazyTokenizer;

/// Tokens that a server counts but does not show: the end of the text and a stop string. An answer with more of them than
/// this has hidden reasoning.
const UNSHOWN: usize = 16;

/// What the answers to a task's documents used at one budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// The number of answers.
    pub(crate) answers: u64,
    /// Those that ended by themselves within the budget.
    pub(crate) finished: u64,
    /// The tokens of all answers.
    pub(crate) tokens: u64,
    /// The tokens of the longest answer.
    pub(crate) longest: u64,
    /// The tokens of the shortest answer that the run itself cut off, if it cut off any.
    pub(crate) run_limit: Option<u64>,
    /// Answers with their tokens as they were generated.
    pub(crate) exact: u64,
    /// Answers that were cut at an estimated position, because only the number of their tokens is known.
    pub(crate) estimated: u64,
    /// Answers after reasoning that is not stored.
    pub(crate) hidden: u64,
    /// Answers of which neither the text nor the server says how many tokens they have.
    pub(crate) uncounted: u64,
}

impl Spent {
    /// Adds what other answers used.
    pub(super) fn add(&mut self, other: &Self) {
        self.answers += other.answers;
        self.finished += other.finished;
        self.tokens += other.tokens;
        self.longest = self.longest.max(other.longest);
        self.run_limit = self.run_limit.into_iter().chain(other.run_limit).min();
        self.exact += other.exact;
        self.estimated += other.estimated;
        self.hidden += other.hidden;
        self.uncounted += other.uncounted;
    }
}

/// Where the tokens of an answer end, and how that is known.
#[derive(Clone, Debug, Default)]
struct Counted {
    tokens: TokenEnds,
    is_exact: bool,
    is_estimated: bool,
    is_hidden: bool,
}

type Key = (Arc<str>, usize, usize, usize);

/// A model that answers with stored answers up to a number of tokens.
#[derive(Debug)]
pub(crate) struct CutModel {
    stored: SharedModel,
    tokenizer: LazyTokenizer,
    /// The end of reasoning in the text of answers.
    think_end: Option<String>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The most tokens of an answer; `None` for whole answers.
    budget: Option<u64>,
    /// Strings at which answers end, besides those of the run.
    stops: Vec<Arc<str>>,
    spent: BTreeMap<Arc<str>, Spent>,
    /// The tokens of answers that are stored without them.
    counted: HashMap<Key, Counted>,
}

impl CutModel {
    pub(crate) fn new(stored: SharedModel, tokenizer: LazyTokenizer, think_end: Option<String>) -> Self {
        Self { stored, tokenizer, think_end, state: Mutex::default() }
    }

    /// The tokenizer that counts tokens in answers that are stored without them.
    pub(super) fn tokenizer(&self) -> &LazyTokenizer {
        &self.tokenizer
    }

    /// Starts over with another budget.
    pub(crate) fn set_budget(&self, budget: Option<u64>) {
        let mut state = self.state();
        state.budget = budget;
        state.spent.clear();
    }

    /// Starts over with other strings at which answers end.
    pub(crate) fn set_stops(&self, stops: Vec<Arc<str>>) {
        let mut state = self.state();
        state.stops = stops;
        state.spent.clear();
    }

    /// What was used since, by the name of the task without its group.
    pub(crate) fn spent(&self) -> BTreeMap<Arc<str>, Spent> {
        self.state().spent.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer within the budget.
    fn cut(&self, request: &ModelRequest, mut answer: Answer) -> Result<Answer, ModelError> {
        let (Response::Text(text), Arguments::Generate { kwargs, .. }) =
            (&answer.response, &request.arguments)
        else {
            return Ok(answer);
        };
        let trace = self.trace(&answer);
        let counted = self.counted(request, text, &trace, answer.usage.completion_tokens)?;
        let trace = Trace { tokens: counted.tokens, ..trace };
        let count = trace.tokens.len() as u64;
        let mut state = self.state();
        let limit = state.budget.filter(|budget| count > *budget);
        let mut spent = Spent {
            answers: 1,
            tokens: limit.unwrap_or(count),
            longest: count,
            run_limit: Some(count).filter(|_| answer.finish == Finish::CutOff),
            exact: u64::from(counted.is_exact),
            estimated: u64::from(counted.is_estimated && limit.is_some()),
            hidden: u64::from(counted.is_hidden),
            uncounted: u64::from(count == 0 && !text.is_empty()),
            finished: 0,
        };
        let end = state.stops.iter().filter_map(|stop| text.find(&**stop)).min();
        if let Some(limit) = limit {
            let stops = match kwargs.get_str("until") {
                Some(Value::Str(stop)) => vec![Arc::clone(stop)],
                Some(Value::List(stops)) => stops.iter().filter_map(Value::as_str).map(Arc::from).collect(),
                _ => Vec::new(),
            };
            let cut = trace.cut(text, usize::try_from(limit).unwrap_or(usize::MAX), &stops);
            answer.response = Response::Text(cut.unwrap_or_default().into());
            answer.finish = Finish::CutOff;
        } else if let Some(end) = end {
            answer.response = Response::Text(text[..end].into());
            answer.finish = Finish::Complete;
        }
        spent.finished = u64::from(answer.finish == Finish::Complete);
        state.spent.entry(Arc::clone(&request.task_name)).or_default().add(&spent);
        Ok(answer)
    }

    /// What was generated besides the answer. Samples files do not say how its reasoning ended.
    fn trace(&self, answer: &Answer) -> Trace {
        let mut trace = answer.trace.as_deref().cloned().unwrap_or_default();
        let is_marked = |marker: &String| trace.reasoning.trim_end().ends_with(marker.trim_end());
        if self.think_end.as_ref().is_some_and(is_marked) {
            trace.separator = Separator::Marker;
        }
        trace
    }

    /// The tokens of an answer of which the server reported `reported`, 0 if it did not.
    fn counted(
        &self,
        request: &ModelRequest,
        text: &str,
        trace: &Trace,
        reported: u64,
    ) -> Result<Counted, ModelError> {
        if !trace.tokens.is_empty() {
            return Ok(Counted { tokens: trace.tokens.clone(), is_exact: true, ..Counted::default() });
        }
        let key = (Arc::clone(&request.task_name), request.doc_id.0, request.idx, request.repeat);
        if let Some(counted) = self.state().counted.get(&key) {
            return Ok(counted.clone());
        }
        let reported = usize::try_from(reported).unwrap_or(usize::MAX);
        let counted = match self.tokenizer.get() {
            Some(tokenizer) => tokenized(tokenizer, text, trace, reported)?,
            None => {
                let length = trace.reasoning.len() + text.len();
                Counted { tokens: evenly(length, reported), is_estimated: true, ..Counted::default() }
            }
        };
        self.state().counted.insert(key, counted.clone());
        Ok(counted)
    }
}

/// The tokens that a tokenizer finds in reasoning and answer. If the server reported more of them, the others come first if
/// they are many, because they must be reasoning that it does not show, and else last.
fn tokenized(
    tokenizer: &HuggingFaceTokenizer,
    text: &str,
    trace: &Trace,
    reported: usize,
) -> Result<Counted, ModelError> {
    let mut lengths = tokenizer.lengths(&trace.reasoning)?;
    lengths.extend(tokenizer.lengths(text)?);
    let more = reported.saturating_sub(lengths.len());
    let is_hidden = more > UNSHOWN;
    let unshown = std::iter::repeat_n(0, more);
    let lengths: Vec<usize> = if is_hidden {
        unshown.chain(lengths).collect()
    } else {
        lengths.into_iter().chain(unshown).collect()
    };
    let tokens = TokenEnds::new(lengths.into_iter().map(|length| (length, 0)));
    Ok(Counted { tokens, is_hidden, ..Counted::default() })
}

/// A number of tokens of about the same length.
fn evenly(length: usize, count: usize) -> TokenEnds {
    let end = |index: usize| (index as u128 * length as u128 / count.max(1) as u128) as usize;
    TokenEnds::new((0..count).map(|index| (end(index + 1) - end(index), 0)))
}

/// The model as the engine uses it.
#[derive(Clone, Debug)]
pub(crate) struct SharedCut(pub(crate) Arc<CutModel>);

impl LocalModel for SharedCut {
    fn traits(&self) -> ModelTraits {
        self.0.stored.traits()
    }

    fn identity(&self) -> ModelIdentity {
        self.0.stored.identity()
    }

    fn supports(&self, kind: RequestType) -> Result<(), ModelError> {
        self.0.stored.supports(kind)
    }

    fn chat_template(&self, name: Option<&str>) -> Result<ModelTemplate, ModelError> {
        self.0.stored.chat_template(name)
    }

    fn answer(&self, request: &ModelRequest) -> Result<Response, ModelError> {
        self.0.stored.answer(request)
    }

    fn answer_batch(&self, requests: &[ModelRequest]) -> Vec<Result<Answer, ModelError>> {
        let answers = self.0.stored.answer_batch(requests);
        requests.iter().zip(answers).map(|(request, answer)| self.0.cut(request, answer?)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_unknown_length_are_about_equally_long() {
        let trace = Trace { tokens: evenly(10, 4), ..Trace::default() };
        let cut: Vec<_> = (0..=4).map(|count| trace.cut("0123456789", count, &[])).collect();
        let cut: Vec<_> = cut.iter().map(Option::as_deref).collect();
        assert_eq!(cut, [Some(""), Some("01"), Some("01234"), Some("0123456"), None]);
        assert!(evenly(10, 0).is_empty());
        assert_eq!(evenly(0, 3).len(), 3);
    }
}
