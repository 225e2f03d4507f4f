//! The command from outside: what it prints and how it ends.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod command_line;
mod documentation;
mod documents;
mod ls;
mod preview;
mod show;
mod tasks_command;
mod validate;

use lmeval_testkit::TestContext;

/// A fresh folder and home.
fn context() -> TestContext {
    TestContext::new(env!("CARGO_BIN_EXE_lm-eval"))
}
