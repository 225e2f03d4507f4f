//! A queue of requests for workers that may die, and the delivery of their answers.

mod batch;
mod queue;
mod sink;

pub use batch::in_order;
pub use queue::{Item, Queue, Taken};
pub use sink::{Sink, unanswered};
