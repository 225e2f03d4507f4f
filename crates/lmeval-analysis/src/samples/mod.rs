//! Looking at samples: streaming and random access, conditions, right and wrong, order.
//!
//! Nothing here keeps samples in memory. [`SampleReader`] reads one file line by line and decodes only the fields that are asked
//! for; [`find`] remembers where matching samples are, and [`SampleReader::read_at`] reads one of them again.
//!
//! ```
//! use std::io::Write as _;
//!
//! use lmeval_analysis::read::Run;
//! use lmeval_analysis::samples::{Expression, Outcome, Query, SampleReader, Sort, find};
//!
//! # fn main() -> Result<(), lmeval_analysis::Error> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("samples_quiz_2026-11-15T02-46-50.151442.jsonl");
//! # let mut file = fs_err::File::create(&path).unwrap();
//! # for (id, acc) in [(0, 1.0), (1, 0.0), (2, 0.0)] {
//! #     writeln!(file, r#"{{"doc_id": {id}, "doc": {{"size": {id}}}, "filter": "none", "metrics": ["acc"], "acc": {acc}}}"#).unwrap();
//! # }
//! let run = Run::open(&path)?;
//! let mut readers = vec![SampleReader::open(&run, &run.samples[0], None)?];
//! let query = Query {
//!     outcome: Some(Outcome::Wrong),
//!     conditions: vec![Expression::parse("doc.size > 0", "--where")?],
//!     ..Query::default()
//! };
//! let found = find(&mut readers, &query, Some(&Sort::parse("-doc.size")?), None)?;
//! let first = readers[0].read_at(found.positions[0].offset)?;
//! assert_eq!(first.doc_id(), Some(2));
//! # Ok(())
//! # }
//! ```

mod expression;
mod find;
mod outcome;
pub mod parts;
mod reader;
mod sample;

pub use expression::Expression;
pub use find::{Matches, Position, Query, Seen, Sort, find, visit};
pub use outcome::{Outcome, OutcomeRule};
pub use reader::SampleReader;
pub use sample::{DERIVED, Sample, metric_names};
