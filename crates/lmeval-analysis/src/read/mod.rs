//! Readers of finished runs: results files, samples files, and folders of them.

mod fields;
mod names;
mod number;
mod run;
mod samples;

pub use fields::{Fields, Malformed};
pub use names::TaskNames;
pub use run::{Run, SamplesFile, split_stamp};
pub(crate) use samples::read_blocks;
pub use samples::{Column, DocKey, Pipeline, Row, Values, Wanted, read_line, read_samples};

pub(crate) use names::listed;
pub(crate) use number::number;
pub(crate) use samples::{NOT_SCORES, Wrong};
