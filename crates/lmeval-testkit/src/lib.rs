//! Helpers for tests: isolated runs of `lm-eval`, stand-in servers, and the reference to compare with.
//!
//! ```no_run
//! # let binary = "lm-eval";
//! let context = lmeval_testkit::TestContext::new(binary);
//! context.write("tasks/mine.yaml", "task: mine\n");
//! let output = context.command(&["ls", "tasks", "--include_path", "tasks"]).run();
//! assert_eq!(output.status, 0, "{output}");
//! ```

mod clock;
mod confirmed;
mod context;
mod dice;
#[cfg(feature = "hub")]
mod hub;
mod mutate;
mod oracle;
mod reference;
#[cfg(feature = "server")]
mod server;

pub use clock::thread_time;
pub use confirmed::Confirmed;
pub use context::{Output, TestCommand, TestContext};
pub use dice::{Dice, fuzz_cases, fuzz_seed, simulated};
#[cfg(feature = "hub")]
pub use hub::{HubFault, HubRequest, StandInHub};
pub use mutate::mutate;
pub use oracle::Oracle;
pub use reference::{is_ci, publish_environment, python, reference_library, skip, test_environment};
#[cfg(feature = "server")]
pub use server::{
    Counts, Fault, Faults, ScoringBehavior, ScoringCounts, ScoringModel, Script, Scripted, ServerOptions,
    StandInServer, TailRoute, TokenIds,
};
