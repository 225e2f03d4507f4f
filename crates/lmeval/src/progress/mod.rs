//! What a run shows while it goes on.

mod board;
mod downloads;
mod ticker;
mod write_out;

pub(crate) use board::Board;
pub(crate) use downloads::Downloads;
pub(crate) use ticker::{Show, Ticker};
pub(crate) use write_out::describe_first;
