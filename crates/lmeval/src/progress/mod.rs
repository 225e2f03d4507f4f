//! What a run shows while it goes on.

mod board;
mod downloads;
mod line;
mod rate;
mod ticker;
mod waiting;
mod write_out;

pub(crate) use board::Board;
pub(crate) use downloads::Downloads;
pub(crate) use ticker::{Show, Ticker};
pub(crate) use waiting::Waiting;
pub(crate) use write_out::describe_first;
