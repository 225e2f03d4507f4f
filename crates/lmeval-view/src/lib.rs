//! Look at evaluation runs in a browser: a read-only server over folders of results, and reports as one HTML file.
//!
//! [`Viewer`] answers requests from files: it finds runs, indexes samples, searches and compares. [`Server`] puts it on a
//! socket together with the front end, which is built from `web/`. [`write_report`] puts the same answers and the same
//! front end into one file.
//!
//! ```
//! use std::path::PathBuf;
//!
//! use lmeval_view::Viewer;
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let folder: PathBuf = folder.path().to_owned();
//! # std::fs::create_dir_all(&folder).unwrap();
//! let viewer = Viewer::new(&[folder]).unwrap();
//! let runs = viewer.answer("api/runs", &[]).unwrap();
//! assert!(runs.contains("\"runs\":[]"));
//! ```

mod address;
mod answers;
mod api;
mod assets;
mod catalog;
mod comparisons;
mod curves;
mod index;
mod media;
mod peer;
mod prompt;
mod query;
mod record;
mod report;
mod results;
mod samples;
mod scan;
mod search;
mod server;
mod stats;
#[cfg(test)]
mod typescript;
mod viewer;
mod wire;

pub use api::{LiveAnswer, LiveLevel, LiveMessage, LiveRequests, LiveState, LiveTask, Score, Text};
pub use catalog::run_id;
pub use report::{Contents, SAMPLES, write_report};
pub use server::{Listen, Server};
pub use viewer::{Live, Refusal, Viewer};
pub use wire::Num;

/// Why something cannot be shown, with advice.
pub use lmeval_analysis::Error;
