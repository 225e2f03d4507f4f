//! Delivery of answers.

use std::sync::{Mutex, PoisonError};

use crate::{Answer, AnswerSink, ModelError, ModelErrorKind};

/// Delivers at most one answer per request.
pub struct Sink(Mutex<State>);

struct State {
    sink: AnswerSink,
    is_done: Vec<bool>,
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sink").finish_non_exhaustive()
    }
}

impl State {
    fn deliver(&mut self, index: usize, answer: Result<Answer, ModelError>) {
        if let Some(is_done) = self.is_done.get_mut(index).filter(|is_done| !**is_done) {
            *is_done = true;
            (self.sink)(index, answer);
        }
    }
}

impl Sink {
    /// Creates a sink for the answers to `count` requests.
    pub fn new(sink: AnswerSink, count: usize) -> Self {
        Self(Mutex::new(State { sink, is_done: vec![false; count] }))
    }

    /// Delivers an answer, unless the request already has one.
    pub fn deliver(&self, index: usize, answer: Result<Answer, ModelError>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).deliver(index, answer);
    }

    /// Fails all unanswered requests.
    pub fn fail(&self, error: &ModelError) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for index in 0..state.is_done.len() {
            state.deliver(index, Err(error.clone()));
        }
    }
}

/// The error of requests that were never answered.
pub fn unanswered() -> ModelError {
    ModelError::new(ModelErrorKind::Unreachable, "The computation ended unexpectedly")
}
