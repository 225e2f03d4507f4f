//! Runs programs that a model wrote, under limits of the kernel.
//!
//! A program gets a process of its own that may use little time and memory, can make no other process, reaches no
//! network, and reads and writes nothing but a temporary folder and the files of its interpreter. What the kernel at hand
//! can not enforce is not silently left out: every outcome comes with a [`Report`] of what was in force.
//!
//! The process limits itself before it becomes the interpreter, so the program that uses this crate is started again by
//! [`run`] and must call [`enter`] when it is.
//!
//! ```no_run
//! use lmeval_sandbox::{Interpreter, Limits, Program, run};
//!
//! let interpreter = Interpreter::ask("python3".as_ref())?;
//! let program = Program { text: "assert 1 + 1 == 2".to_owned(), interpreter, limits: Limits::default() };
//! let outcome = run(&program, &["inside".as_ref()])?;
//! assert_eq!(outcome.result, "passed");
//! # Ok::<(), lmeval_sandbox::Error>(())
//! ```

#![cfg_attr(not(unix), allow(dead_code, reason = "nothing can be limited"))]

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
#[path = "elsewhere.rs"]
mod linux;
#[cfg(not(unix))]
mod nowhere;
#[cfg(unix)]
mod plan;
mod program;
mod report;
#[cfg(unix)]
mod supervisor;

#[cfg(unix)]
pub use enter::enter;
pub use error::Error;
pub use interpreter::Interpreter;
pub use limits::Limits;
#[cfg(not(unix))]
pub use nowhere::{enter, run};
pub use program::{Outcome, Program};
pub use report::{Limit, Report};
#[cfg(unix)]
pub use supervisor::run;
