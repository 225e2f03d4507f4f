//! One sample, decoded.

use std::sync::Arc;

use lmeval_analysis::read::{Fields, number};
use lmeval_analysis::samples::parts::{requests, target_option};
use lmeval_core::Letter;
use lmeval_pycompat::{Value, json, literal};

use crate::wire;

/// One request of a document.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) context: Value,
    /// The continuation of a log-likelihood request.
    pub(crate) continuation: Option<Arc<str>>,
    /// The settings of a generation.
    pub(crate) settings: Option<Value>,
    /// The labels of a request that compares options by their letters.
    labels: Option<Arc<Vec<Value>>>,
    /// Images and sounds.
    pub(crate) media: Option<Value>,
}

/// A line of a samples file.
pub(crate) struct Record<'a> {
    pub(crate) fields: Fields<'a>,
    pub(crate) requests: Vec<Request>,
    /// For each request its answers.
    pub(crate) answers: Vec<Vec<Value>>,
}

/// The log-likelihood of a continuation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Likelihood {
    pub(crate) logprob: f64,
    pub(crate) is_greedy: bool,
}

impl<'a> Record<'a> {
    /// Decodes a line. Parts that are missing or have another shape are empty.
    pub(crate) fn parse(line: &'a str) -> Option<Self> {
        let fields = Fields::parse(line).ok()?;
        let arguments = fields.value("arguments").unwrap_or_default();
        let requests = requests(&arguments).into_iter().map(request).collect();
        let answers = match fields.value("resps") {
            Some(Value::List(items)) => items
                .iter()
                .map(|answers| match answers {
                    Value::List(answers) => answers.to_vec(),
                    other => vec![other.clone()],
                })
                .collect(),
            _ => Vec::new(),
        };
        let (requests, answers) = labels_as_choices(requests, answers);
        Some(Self { fields, requests, answers })
    }

    pub(crate) fn doc_id(&self) -> i64 {
        self.fields.raw("doc_id").and_then(|raw| raw.parse().ok()).unwrap_or(-1)
    }

    pub(crate) fn filter(&self) -> String {
        self.fields.text("filter").map_or_else(|| "none".to_owned(), std::borrow::Cow::into_owned)
    }

    /// The first prompt.
    pub(crate) fn prompt(&self) -> String {
        self.requests.first().map(|request| context_text(&request.context)).unwrap_or_default()
    }

    pub(crate) fn target(&self) -> String {
        let Some(target) = self.fields.value("target") else { return String::new() };
        let choices = if self.likelihoods().is_empty() { 0 } else { self.choice_count() };
        // The index of a choice stands for the choice.
        target_option(&target, choices)
            .map_or_else(|| wire::plain(&target), |option| self.choice_text(option))
    }

    /// The answer that a list shows: the generated one, or the most likely choice.
    pub(crate) fn answer(&self) -> String {
        let likelihoods = self.likelihoods();
        if likelihoods.len() == self.requests.len() && likelihoods.len() > 1 {
            let choices = self.choice_count();
            let best = argmax(likelihoods[..choices].iter().map(|found| found.logprob));
            return best.map(|best| self.choice_text(best)).unwrap_or_default();
        }
        match self.answers.first().and_then(|answers| answers.first()) {
            Some(Value::List(pair)) => pair.iter().map(wire::plain).collect::<Vec<_>>().join(", "),
            Some(answer) => wire::plain(answer),
            None => String::new(),
        }
    }

    /// The output of the filter pipeline: one string per request, or per repeat where it keeps several.
    pub(crate) fn filtered(&self) -> Vec<String> {
        let Some(Value::List(items)) = self.fields.value("filtered_resps") else { return Vec::new() };
        let of_request = |item: &Value| match item {
            Value::List(repeats) => repeats.iter().map(wire::plain).collect(),
            other => vec![wire::plain(other)],
        };
        items.iter().flat_map(of_request).collect()
    }

    /// The log-likelihoods of the requests, if that is what they are.
    pub(crate) fn likelihoods(&self) -> Vec<Likelihood> {
        let found: Option<Vec<Likelihood>> = self
            .requests
            .iter()
            .zip(&self.answers)
            .map(|(request, answers)| {
                request.continuation.as_ref()?;
                likelihood(answers)
            })
            .collect();
        found.unwrap_or_default()
    }

    /// The number of requests that are choices. Mutual information asks for each continuation again without the context.
    pub(crate) fn choice_count(&self) -> usize {
        let half = self.requests.len() / 2;
        let texts = |range: std::ops::Range<usize>| {
            self.requests[range].iter().map(|request| request.continuation.clone()).collect::<Vec<_>>()
        };
        let is_doubled = self.requests.len().is_multiple_of(2)
            && half > 1
            && texts(0..half) == texts(half..2 * half)
            && self.requests[..half].iter().all(|request| request.context == self.requests[0].context)
            && self.requests[half].context != self.requests[0].context;
        if is_doubled { half } else { self.requests.len() }
    }

    /// Whether the choices are contexts, as in Winogrande, and the continuation is the same.
    pub(crate) fn has_own_contexts(&self) -> bool {
        self.requests.iter().any(|request| request.context != self.requests[0].context)
    }

    /// A choice as a list shows it.
    pub(crate) fn choice_text(&self, index: usize) -> String {
        let Some(request) = self.requests.get(index) else { return String::new() };
        let continuation = request.continuation.as_deref().unwrap_or_default();
        if self.choice_count() == self.requests.len() && self.has_own_contexts() {
            let context = context_text(&request.context);
            return format!("{context}{continuation}");
        }
        continuation.trim().to_owned()
    }

    /// The right choices: the target is an index, a list of indices, or the text of a choice. Where it could be both, `acc` decides.
    pub(crate) fn gold(&self, count: usize) -> Option<Vec<usize>> {
        let target = self.target();
        let target = target.trim();
        let index = |value: &Value| {
            value.as_i64().and_then(|index| usize::try_from(index).ok()).filter(|index| *index < count)
        };
        let by_index = match literal::literal_eval(target).ok() {
            Some(Value::List(items)) => {
                let gold: Vec<usize> = items.iter().filter_map(index).collect();
                (!gold.is_empty()).then_some(gold)
            }
            Some(value) => index(&value).map(|index| vec![index]),
            None => None,
        };
        let by_text = (0..count).find(|index| self.choice_text(*index) == target).map(|index| vec![index]);
        let (Some(first), Some(second)) = (&by_index, &by_text) else { return by_index.or(by_text) };
        let best = argmax(self.likelihoods().iter().take(count).map(|found| found.logprob));
        let agrees = |gold: &[usize]| {
            let is_best = best.is_some_and(|best| gold.contains(&best));
            self.score("acc").is_none_or(|acc| (acc == 1.0) == is_best)
        };
        if !agrees(first) && agrees(second) { by_text } else { by_index }
    }

    /// The value of a metric, if it is a number.
    pub(crate) fn score(&self, metric: &str) -> Option<f64> {
        self.fields.raw(metric).and_then(number)
    }
}

/// A request that compares the letters of options as one request per option, with the log-probability of its letter.
fn labels_as_choices(requests: Vec<Request>, answers: Vec<Vec<Value>>) -> (Vec<Request>, Vec<Vec<Value>>) {
    let ([Request { context, labels: Some(labels), media, .. }], [answer]) =
        (requests.as_slice(), answers.as_slice())
    else {
        return (requests, answers);
    };
    let letters = answer.first().and_then(Letter::all_from_value).unwrap_or_default();
    if letters.len() != labels.len() {
        return (requests, answers);
    }
    let choice = |label: &Value| Request {
        context: context.clone(),
        continuation: Some(wire::plain(label).into()),
        settings: None,
        labels: None,
        media: media.clone(),
    };
    let pair =
        |letter: &Letter| vec![Value::list([Value::Float(letter.lower()), Value::Bool(letter.is_greedy)])];
    (labels.iter().map(choice).collect(), letters.iter().map(pair).collect())
}

/// The index of the largest number; `None` if there is none. Of equal ones the first.
pub(crate) fn argmax(values: impl Iterator<Item = f64>) -> Option<usize> {
    let mut best: Option<(usize, f64)> = None;
    for (index, value) in values.enumerate() {
        if !value.is_nan() && best.is_none_or(|(_, known)| value > known) {
            best = Some((index, value));
        }
    }
    best.map(|(index, _)| index)
}

/// A prompt as one string; chat messages as JSON.
pub(crate) fn context_text(context: &Value) -> String {
    match context {
        Value::Str(text) => text.to_string(),
        Value::None => String::new(),
        other => {
            let options = json::Options { ensure_ascii: false, ..json::Options::default() };
            json::dumps(other, &options).unwrap_or_else(|_| wire::plain(other))
        }
    }
}

fn request(arguments: Vec<Value>) -> Request {
    let mut parts = arguments.into_iter();
    let context = parts.next().unwrap_or_default();
    let argument = parts.next();
    let media = parts.next().filter(|media| matches!(media, Value::Dict(_)));
    let bare = Request { context, continuation: None, settings: None, labels: None, media };
    match argument {
        Some(Value::Str(text)) => Request { continuation: Some(text), ..bare },
        Some(settings @ Value::Dict(_)) => Request { settings: Some(settings), ..bare },
        Some(Value::List(labels)) => Request { labels: Some(labels), ..bare },
        _ => bare,
    }
}

/// `["-1.5", "False"]`, as numbers or as strings, in a list or not.
fn likelihood(answers: &[Value]) -> Option<Likelihood> {
    let pair = match answers {
        [Value::List(pair), ..] => pair.as_slice(),
        pair => pair,
    };
    let [logprob, greedy, ..] = pair else { return None };
    let is_greedy = match greedy {
        Value::Bool(greedy) => *greedy,
        Value::Str(text) if matches!(text.as_ref(), "True" | "true") => true,
        Value::Str(text) if matches!(text.as_ref(), "False" | "false") => false,
        _ => return None,
    };
    Some(Likelihood { logprob: real(logprob)?, is_greedy })
}

/// A number, or a string of one.
pub(crate) fn real(value: &Value) -> Option<f64> {
    match value {
        Value::Str(text) => text.parse().ok(),
        other => other.to_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_shown_as_choices() {
        let line = r#"{"doc_id": 3, "target": "1", "arguments": {"gen_args_0": {"arg_0": "Q", "arg_1": ["A", "B", "C"]}}, "resps": [[[["-0.5", "-0.5", "True"], ["-1.5", "-1.4", "False"], ["None", "-4.0", "False"]]]], "filter": "none", "metrics": ["acc"], "acc": 0.0}"#;
        let record = Record::parse(line).unwrap();
        assert_eq!((record.requests.len(), record.answer()), (3, "A".to_owned()));
        let logprobs: Vec<f64> = record.likelihoods().iter().map(|found| found.logprob).collect();
        assert_eq!(logprobs, [-0.5, -1.5, f64::NEG_INFINITY]);
        assert_eq!(record.gold(3), Some(vec![1]));
        let other = line.replace(r#"["A", "B", "C"]"#, r#"["A", "B"]"#);
        assert_eq!(Record::parse(&other).unwrap().requests.len(), 1);
    }
}
