//! The requests of a finished run whose tokens are compared.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use anyhow::Result;
use lmeval_analysis::read::Run;
use lmeval_analysis::samples::{Sample, SampleReader, parts};
use lmeval_core::{Arguments, ChatMessage, Context, DocId, ModelRequest, RequestType};
use lmeval_pycompat::Value;

/// A request of a run.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// The index of the task among those of the run.
    pub(super) task: usize,
    pub(super) doc_id: i64,
    /// The index among the requests of the document.
    pub(super) index: usize,
    pub(super) arguments: Arguments,
    /// The log-likelihood that the run got for it.
    pub(super) answer: Option<f64>,
    /// Where the line of the document starts in the samples file.
    pub(super) offset: u64,
}

/// A document with options, by the indices of its requests among all.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) task: usize,
    pub(super) options: Vec<usize>,
    /// The index of the right option.
    pub(super) gold: usize,
}

/// Continuations by task, document and request.
type Texts<'a> = HashMap<(&'a str, i64, usize), Arc<str>>;

/// The requests of a run.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pub(super) tasks: Vec<String>,
    /// For each task, the filter pipeline of the lines that the requests are from.
    pub(super) filters: Vec<String>,
    pub(super) all: Vec<Asked>,
    pub(super) questions: Vec<Question>,
    /// Requests that have no tokens to compare: with images or sounds, or for the letters of options.
    pub(super) left_out: usize,
}

impl Requests {
    /// Reads the requests of a run. Generations are compared along the answers that `texts` has for them, by task, document and
    /// request; without it, along their own.
    pub(super) fn read(run: &Run, texts: Option<&Requests>) -> Result<Self> {
        let own = texts.map(Self::generations);
        let mut requests = Self::default();
        for (task, file) in run.samples.iter().enumerate() {
            requests.tasks.push(file.task.clone());
            requests.filters.push(String::new());
            let is_rolling = is_rolling(run, &file.task);
            let mut reader = SampleReader::open(run, file, None)?;
            // Each filter pipeline has a line for each document.
            let mut seen = HashSet::new();
            while let Some(sample) = reader.read_next()? {
                let Some(doc_id) = sample.doc_id().filter(|doc_id| seen.insert(*doc_id)) else { continue };
                requests.filters[task] = sample.filter().into_owned();
                requests.add(task, doc_id, (&sample, is_rolling), own.as_ref())?;
            }
        }
        Ok(requests)
    }

    /// The continuations that stand for generations.
    fn generations(&self) -> Texts<'_> {
        let texts = self.all.iter().filter_map(|asked| match &asked.arguments {
            Arguments::Loglikelihood { continuation, .. } => {
                Some(((self.tasks[asked.task].as_str(), asked.doc_id, asked.index), Arc::clone(continuation)))
            }
            _ => None,
        });
        texts.collect()
    }

    fn add(
        &mut self,
        task: usize,
        doc_id: i64,
        (sample, is_rolling): (&Sample<'_>, bool),
        texts: Option<&Texts<'_>>,
    ) -> Result<()> {
        let of_requests = parts::requests(&sample.value("arguments")?.unwrap_or_default());
        let answers = sample.value("resps")?.unwrap_or_default();
        let mut options = Vec::new();
        for (index, arguments) in of_requests.iter().enumerate() {
            let answer = answers.as_list().and_then(|answers| first(answers.get(index)?));
            let other = texts.and_then(|texts| texts.get(&(self.tasks[task].as_str(), doc_id, index)));
            let Some((arguments, answer)) = read(arguments, is_rolling, answer.as_ref(), other) else {
                self.left_out += 1;
                continue;
            };
            options.push(self.all.len());
            let offset = sample.offset();
            self.all.push(Asked { task, doc_id, index, arguments, answer, offset });
        }
        let gold = parts::target_option(&sample.value("target")?.unwrap_or_default(), options.len());
        if let Some(gold) = gold.filter(|_| options.len() > 1 && options.len() == of_requests.len()) {
            self.questions.push(Question { task, options, gold });
        }
        Ok(())
    }

    /// For each request, the index of the same one of the base run.
    pub(super) fn matched(&self, base: &Self) -> Vec<Option<usize>> {
        let key =
            |requests: &Self, asked: &Asked| (requests.tasks[asked.task].clone(), asked.doc_id, asked.index);
        let known: HashMap<_, usize> =
            base.all.iter().enumerate().map(|(index, asked)| (key(base, asked), index)).collect();
        self.all.iter().map(|asked| known.get(&key(self, asked)).copied()).collect()
    }

    /// The requests as a model gets them.
    pub(super) fn to_model(&self) -> Vec<ModelRequest> {
        let names: Vec<Arc<str>> = self.tasks.iter().map(|task| Arc::from(task.as_str())).collect();
        let request = |asked: &Asked| ModelRequest {
            task_name: Arc::clone(&names[asked.task]),
            doc_id: DocId(usize::try_from(asked.doc_id).unwrap_or_default()),
            idx: asked.index,
            repeat: 0,
            arguments: asked.arguments.clone(),
            additional_args: None,
            document: None,
            progress: None,
        };
        self.all.iter().map(request).collect()
    }

    /// A request as messages name it.
    pub(super) fn name(&self, index: usize) -> String {
        let asked = &self.all[index];
        format!("request {} of document {} of `{}`", asked.index, asked.doc_id, self.tasks[asked.task])
    }
}

/// The first repeat of an answer.
fn first(answers: &Value) -> Option<Value> {
    answers.as_list()?.first().cloned()
}

/// Whether the requests of a task are rolling ones. Some are logged with an empty prompt.
fn is_rolling(run: &Run, task: &str) -> bool {
    let kind = || run.section("configs")?.get_str(task)?.as_dict()?.get_str("output_type")?.as_str();
    kind() == Some(RequestType::LoglikelihoodRolling.name())
}

/// A log-likelihood as it is logged: a number or its text, alone or before other parts of the answer.
fn number(answer: &Value) -> Option<f64> {
    match answer {
        Value::List(parts) => number(parts.first()?),
        Value::Str(text) => text.parse().ok(),
        other => other.to_f64(),
    }
}

/// Reads the logged arguments of a request; `None` if its tokens cannot be compared.
fn read(
    arguments: &[Value],
    is_rolling: bool,
    answer: Option<&Value>,
    other: Option<&Arc<str>>,
) -> Option<(Arguments, Option<f64>)> {
    let text = |value: &Value| value.as_str().map(Arc::<str>::from);
    let logprob = || number(answer?);
    match arguments {
        [.., whole] if is_rolling => Some((Arguments::Rolling { text: text(whole)? }, logprob())),
        [prompt, Value::Str(continuation)] => {
            let (context, continuation) = (context(prompt)?, Arc::clone(continuation));
            Some((Arguments::Loglikelihood { context, continuation }, logprob()))
        }
        [prompt, Value::Dict(_)] => {
            let continuation = other.cloned().or_else(|| text(answer?))?;
            let context = context(prompt)?;
            (!continuation.is_empty()).then_some((Arguments::Loglikelihood { context, continuation }, None))
        }
        _ => None,
    }
}

/// A logged prompt. A list with one string is a conversation for a server.
fn context(prompt: &Value) -> Option<Context> {
    match prompt {
        Value::Str(text) => Some(Context::Text(Arc::clone(text))),
        Value::List(items) => match items.as_slice() {
            [Value::Str(text)] => Some(Context::Json(Arc::clone(text))),
            messages => {
                let messages: Option<Vec<ChatMessage>> =
                    messages.iter().map(ChatMessage::from_value).collect();
                messages.map(|messages| Context::Messages(Arc::from(messages)))
            }
        },
        _ => None,
    }
}
