//! Results of tasks, groups and single documents.
//!
//! A [`TaskResult`] holds the scores of one task, a [`SampleRecord`] those of one document; [`RunResults::collect`]
//! combines tasks and groups, and [`RunResults::sections`] gives them the form of a results file.

mod audit;
mod checksum;
mod hash;
mod run;
mod sample;
mod sections;
mod task;

pub use audit::{Audit, LetterAudit};
pub use checksum::{
    CHECKSUMS, LinesChecksum, changed_sections, checksums, samples_checksums, value_checksum,
};

pub use hash::{hash_of_hashes, hash_text, hash_values, replace_foreign};
pub use run::{GroupResult, RunResults, Score};
pub use sample::{DocumentHashes, SampleRecord, sample_records, task_file_name};
pub use sections::Sections;
pub use task::{TaskEntry, TaskResult};
