//! Runs model-generated programs under limits enforced by the kernel.
//!
//! Each program runs in its own process with limited time and memory. It cannot start processes or reach the network,
//! and can only access a temporary folder and the files of its interpreter. If the kernel cannot enforce a limit, that
//! is reported: every outcome has a [`Report`] of the limits in force.
//!
//! The process limits itself before it executes the interpreter. [`run`] therefore starts the current executable again,
//! which must then call [`enter`].
//!
//! ```no_run
//! use lmeval_sandbox::{Interpreter, Limits, Program, run};
//!
//! let interpreter = Interpreter::query("python3".as_ref())?;
//! let program = Program { text: "assert 1 + 1 == 2".to_owned(), interpreter, limits: Limits::default() };
//! let outcome = run(&program, &["inside".as_ref()])?;
//! assert_eq!(outcome.result, "passed");
//! # Ok::<(), lmeval_sandbox::Error>(())
//! ```

#![cfg_attr(not(unix), allow(dead_code, reason = "there are no limits to enforce"))]

#[cfg(unix)]
mod enter;
mod error;
mod interpreter;
mod limits;
#[cfg(unix)]
mod lines;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(all(unix, not(target_os = "linux")))]
#[path = "other_unix.rs"]
mod linux;
#[cfg(unix)]
mod plan;
mod program;
mod report;
#[cfg(unix)]
mod supervisor;
#[cfg(not(unix))]
mod unsupported;

#[cfg(unix)]
pub use enter::enter;
pub use error::Error;
pub use interpreter::Interpreter;
pub use limits::Limits;
pub use program::{Outcome, Program};
pub use report::{Limit, Report};
#[cfg(unix)]
pub use supervisor::run;
#[cfg(not(unix))]
pub use unsupported::{enter, run};
