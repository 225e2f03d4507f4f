//! Readers of finished runs: results files, samples files, and folders of them.

mod blocks;
mod cache;
mod changes;
mod fields;
mod names;
mod number;
mod position;
mod run;
mod samples;

pub use cache::SampleCache;
pub use changes::{results_change, samples_change, written_samples};
pub use fields::{Fields, Malformed};
pub use names::TaskNames;
pub use number::number;
pub use position::read_exact_at;
pub use run::{
    Run, SEARCH_DEPTH, SamplesFile, file_name, has_extension, parent, split_stamp, stamp_of, task_of,
};
pub use samples::{Column, DocKey, NOT_SCORES, Pipeline, Row, Values, Wanted, read_line, read_samples};

pub(crate) use blocks::{lines, parse_blocks, unreadable};
pub(crate) use cache::SampleScores;
pub(crate) use names::listed;
pub(crate) use samples::{MetricNames, Wrong};
