//! The command from outside: what it prints and how it ends.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod chaos;
mod chaos_long;
mod class_tasks;
mod code;
mod columns;
mod command_line;
mod differential;
mod documentation;
mod documents;
mod examples;
mod groups_side_by_side;
mod hf;
mod hostile;
mod hub;
mod interrupted;
mod journal;
mod journal_faults;
mod killed;
mod long_run;
mod ls;
mod messages;
mod preview;
mod python;
mod python_models;
mod python_places;
mod recorded_runs;
mod registry;
mod run;
mod run_settings;
mod same_name;
mod sandbox;
mod secrets;
mod server;
mod show;
mod side_by_side;
mod snapshots;
mod tasks_command;
#[cfg(target_os = "linux")]
mod terminal;
mod validate;

use lmeval_testkit::TestContext;

/// A fresh folder and home.
fn context() -> TestContext {
    TestContext::new(env!("CARGO_BIN_EXE_lm-eval"))
}
