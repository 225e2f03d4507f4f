//! A program, and how it went.

use crate::interpreter::Interpreter;
use crate::limits::Limits;
use crate::report::Report;

/// A program with what it runs under.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program.
    pub text: String,
    /// What runs it.
    pub interpreter: Interpreter,
    /// How much it may take.
    pub limits: Limits,
}

/// How a program went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// `passed`, `timed out`, or `failed: ` with what the program raised. A process that ended in another way has, by
    /// the rules of the metric, timed out.
    pub result: String,
    /// How the process ended.
    pub ended: String,
    /// The limits that were in force.
    pub report: Report,
}

impl Outcome {
    /// The outcome as an object of JSON.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({"result": self.result, "ended": self.ended, "limits": self.report.to_json()})
    }
}
