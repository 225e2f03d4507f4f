//! Where answers go.

use std::sync::{Mutex, PoisonError};

use lmeval_core::{Answer, AnswerSink, ModelError, ModelErrorKind};

/// Hands answers over, each request once.
pub(super) struct Sink(Mutex<State>);

struct State {
    sink: AnswerSink,
    is_done: Vec<bool>,
}

impl State {
    fn give(&mut self, place: usize, answer: Result<Answer, ModelError>) {
        if let Some(is_done) = self.is_done.get_mut(place).filter(|is_done| !**is_done) {
            *is_done = true;
            (self.sink)(place, answer);
        }
    }
}

impl Sink {
    /// Hands over the answers to `count` requests.
    pub(super) fn new(sink: AnswerSink, count: usize) -> Self {
        Self(Mutex::new(State { sink, is_done: vec![false; count] }))
    }

    /// Hands over what came of a request, where nothing came before.
    pub(super) fn give(&self, place: usize, answer: Result<Answer, ModelError>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).give(place, answer);
    }

    /// Answers all requests that have no answer yet with an error.
    pub(super) fn fail(&self, error: &ModelError) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for place in 0..state.is_done.len() {
            state.give(place, Err(error.clone()));
        }
    }
}

/// The error of requests that nothing came of.
pub(super) fn lost() -> ModelError {
    ModelError::new(ModelErrorKind::Unreachable, "The computation ended unexpectedly")
}
