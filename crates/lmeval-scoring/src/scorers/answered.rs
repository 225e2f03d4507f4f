//! Documents with the model's answers.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};

use crate::judge::Judgement;
use lmeval_core::{Answer, DocId, Finish, Instance};

/// A request with its answers.
#[derive(Clone, Debug)]
pub struct AnsweredInstance {
    /// The request that was sent.
    pub instance: Instance,
    /// One answer per repeat: a string, or a tuple of log-likelihood and greedy flag.
    pub responses: Vec<Value>,
    /// How each answer ended; empty if all are complete.
    finishes: Vec<Finish>,
    /// The reasoning before each answer; empty if there was none.
    reasoning: Vec<Option<Arc<str>>>,
}

impl AnsweredInstance {
    /// A request whose answers are all complete, without reasoning.
    pub fn new(instance: Instance, responses: Vec<Value>) -> Self {
        Self { instance, responses, finishes: Vec::new(), reasoning: Vec::new() }
    }

    /// A request with its answers, in the order of the repeats.
    pub fn of(instance: Instance, answers: &[Answer]) -> Self {
        Self::new(instance, answers.iter().map(|answer| answer.response.to_value()).collect())
            .finished(answers.iter().map(|answer| answer.finish))
            .reasoned(answers.iter().map(|answer| answer.reasoning().cloned()))
    }

    /// The same request, whose answers ended like this, in their order.
    pub fn finished(mut self, finishes: impl IntoIterator<Item = Finish>) -> Self {
        self.finishes = finishes.into_iter().collect();
        if self.finishes.iter().all(|finish| *finish == Finish::Complete) {
            self.finishes = Vec::new();
        }
        self
    }

    /// The same request, before whose answers the model reasoned like this, in their order.
    pub fn reasoned(mut self, reasoning: impl IntoIterator<Item = Option<Arc<str>>>) -> Self {
        self.reasoning = reasoning.into_iter().collect();
        if self.reasoning.iter().all(Option::is_none) {
            self.reasoning = Vec::new();
        }
        self
    }

    /// The reasoning before each answer; empty if there was none.
    pub fn reasoning(&self) -> &[Option<Arc<str>>] {
        &self.reasoning
    }

    /// How each answer ended; empty if all are complete.
    pub fn finishes(&self) -> &[Finish] {
        &self.finishes
    }

    /// The same request with as many answers as it has repeats: those that there are, in turn.
    #[must_use]
    pub fn cycled(&self) -> Self {
        let count = self.instance.repeats;
        // Nothing comes from an empty iterator, however often it starts again.
        Self {
            instance: self.instance.clone(),
            responses: self.responses.iter().cloned().cycle().take(count).collect(),
            finishes: self.finishes.iter().copied().cycle().take(count).collect(),
            reasoning: self.reasoning.iter().cloned().cycle().take(count).collect(),
        }
    }

    /// The number of answers that ended like this, other than complete ones.
    pub fn count(&self, finish: Finish) -> usize {
        self.finishes.iter().filter(|own| **own == finish).count()
    }
}

/// A document with its requests and their answers.
#[derive(Clone, Debug)]
pub struct AnsweredDocument {
    /// The index of the document in its split.
    pub doc_id: DocId,
    /// The document; empty if nothing needs it, see [`TaskScorer::needs`].
    ///
    /// [`TaskScorer::needs`]: super::TaskScorer::needs
    pub document: Arc<Dict>,
    /// The options, without the target delimiter that requests prepend.
    pub choices: Option<Arc<Vec<Value>>>,
    /// The requests with their answers, at least one, ordered by `idx`.
    pub answers: Vec<AnsweredInstance>,
    /// Judgements of the answers, in the order of the calls.
    pub judgements: Vec<Judgement>,
}

impl AnsweredDocument {
    /// The judgements of the answers that a pipeline filtered.
    pub fn judgements_of<'a>(&'a self, pipeline: &'a str) -> impl Iterator<Item = &'a Judgement> {
        self.judgements.iter().filter(move |judgement| *judgement.pipeline == *pipeline)
    }
}

/// Encodes a log-likelihood answer.
pub fn loglikelihood_response(logprob: f64, is_greedy: bool) -> Value {
    Value::tuple([Value::Float(logprob), Value::Bool(is_greedy)])
}
