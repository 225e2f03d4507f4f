//! Generations that are not complete yet.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::Answer;

/// How far the generation of a request has got. The model writes it while the answer arrives, and the run saves it, so that
/// a later run can continue where this one was interrupted.
#[derive(Debug, Default)]
pub struct Progress {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    begun: Option<Answer>,
    is_new: bool,
}

impl Progress {
    /// The progress of a request whose generation was interrupted, or that is new.
    pub fn resuming(begun: Option<Answer>) -> Self {
        Self { state: Mutex::new(State { begun, is_new: false }) }
    }

    /// The beginning of the answer.
    pub fn begun(&self) -> Option<Answer> {
        self.lock().begun.clone()
    }

    /// Replaces the beginning of the answer by a longer one; `None` if generation starts over.
    pub fn set(&self, begun: Option<Answer>) {
        *self.lock() = State { is_new: begun.is_some(), begun };
    }

    /// The beginning of the answer, if it has been set since the last call.
    pub fn take_new(&self) -> Option<Answer> {
        let mut state = self.lock();
        if !std::mem::take(&mut state.is_new) {
            return None;
        }
        state.begun.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Two requests are the same however far each has got.
impl PartialEq for Progress {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
