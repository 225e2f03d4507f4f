//! A program and its outcome.

use crate::interpreter::Interpreter;
use crate::limits::Limits;
use crate::report::Report;

/// A program, its interpreter and its limits.
#[derive(Clone, Debug)]
pub struct Program {
    /// The source code.
    pub text: String,
    /// The Python that runs it.
    pub interpreter: Interpreter,
    /// The resources that it may use.
    pub limits: Limits,
}

/// The outcome of running a program.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// `passed`, `timed out`, or `failed: ` followed by the exception. By the rules of the metric, a process that ended
    /// in another way has timed out.
    pub result: String,
    /// How the process ended, for people to read.
    pub ended: String,
    /// The limits that were in force.
    pub report: Report,
}

impl Outcome {
    /// The outcome as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({"result": self.result, "ended": self.ended, "limits": self.report.to_json()})
    }
}
