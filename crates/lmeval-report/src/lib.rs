//! Results files, samples files and tables.
//!
//! All formats match the reference, so that its readers accept our files: [`file_object`] builds the results,
//! [`write_results`] and [`SamplesWriter`] write them to the paths of a [`Layout`], and [`make_table`] renders
//! them.

mod clock;
mod environment;
mod error;
mod files;
mod names;
mod object;
mod previews;
mod samples;
mod summary;
mod table;
mod zone;

pub use clock::Moment;
pub use environment::{Environment, lm_eval_version};
pub use error::ReportError;
pub use files::{Layout, add_checksums, to_json, write_atomically, write_results};
pub use lmeval_scoring::results::task_file_name;
pub use names::{ModelName, sanitize_model_name};
pub use object::{RunFacts, Seeds, file_object, result_object};
pub use samples::{SampleOptions, SamplesWriter, WrittenSamples, parse_hash_media, task_hashes};
pub use summary::Summary;
pub use table::{Column, bound_notes, make_latex_table, make_table};
pub use zone::TimeZone;
