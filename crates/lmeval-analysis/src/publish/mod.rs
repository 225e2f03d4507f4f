//! Finished runs in the formats of other programs: one file and one line of [`TARGETS`] each.
//!
//! Everything that is written follows from the files of the run, also names and times: publishing a run twice writes the same bytes.

mod card;
mod eee;
mod hub;
mod inspect;
mod instances;
mod output;
mod parts;
mod record;

pub use output::Output;
pub use record::{Benchmark, Choice, Record, is_hub_name};

use crate::Error;

/// A format that runs can be published in.
pub struct Target {
    /// The name on the command line.
    pub name: &'static str,
    /// What it is, in a few words.
    pub summary: &'static str,
    /// Writes the files of a run.
    pub write: fn(&Record, &mut Output) -> Result<(), Error>,
}

/// All formats.
pub const TARGETS: &[Target] = &[
    Target { name: "card", summary: "A Markdown table with settings, for a model card", write: card::write },
    Target { name: "hub", summary: "`.eval_results` of a model on the Hugging Face hub", write: hub::write },
    Target { name: "eee", summary: "Every Eval Ever 0.3: scores and documents", write: eee::write },
    Target { name: "inspect", summary: "Logs of Inspect in their JSON form", write: inspect::write },
];

/// The format with a name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
