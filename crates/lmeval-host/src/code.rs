//! Host functions for programs written by models.

use lmeval_pycompat::{Dict, Value};

use crate::host::PythonHost;

/// Queries and resets the counters of a worker.
const QUESTION: &str = "{\"op\":\"code_limits\"}";

impl PythonHost {
    /// The number of sandboxed programs since the last call, and the limits they ran under: for each limit the
    /// weakest.
    ///
    /// Queries idle workers only, so call it while no others are busy.
    pub fn take_code_limits(&self) -> (usize, Dict) {
        let mut programs = 0;
        let mut limits = Dict::new();
        for answer in self.pool.ask_idle(QUESTION) {
            let Value::Dict(answer) = answer else { continue };
            programs += answer.get_str("programs").and_then(Value::as_i64).unwrap_or(0);
            let Some(Value::Dict(found)) = answer.get_str("limits") else { continue };
            for (name, state) in found.iter() {
                let is_in_force = |state: &Value| {
                    state.as_dict().and_then(|state| state.get_str("in_force")) == Some(&Value::Bool(true))
                };
                if !limits.contains_str(name.as_str().unwrap_or_default()) || !is_in_force(state) {
                    limits.insert(name.clone(), state.clone());
                }
            }
        }
        (usize::try_from(programs).unwrap_or(0), limits)
    }
}
