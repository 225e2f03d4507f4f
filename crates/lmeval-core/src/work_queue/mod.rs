//! A queue of requests for workers that may die, and the delivery of their answers.

mod queue;
mod sink;

pub use queue::{Item, Queue, Taken};
pub use sink::{Sink, unanswered};
