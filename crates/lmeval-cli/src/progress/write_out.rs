//! `--write_out`: the first prompt of each task.

use std::fmt::Write;

use lmeval_core::{Arguments, Context, Dialect};
use lmeval_pycompat::{Value, repr};
use lmeval_tasks::Task;
use lmeval_tasks::prompt::DocumentRequests;

use crate::words::counted;

/// Describes the first request of a document.
pub(crate) fn describe_first(task: &Task, requests: &DocumentRequests, dialect: &Dialect) -> Option<String> {
    let first = requests.instances.first()?;
    let mut text = format!("Task `{}`, document {}:\n", task.name(), requests.doc_id);
    match &first.arguments {
        Arguments::Loglikelihood { context, .. }
        | Arguments::Generate { context, .. }
        | Arguments::Letters { context, .. } => match context {
            Context::Text(prompt) | Context::Json(prompt) => {
                let _ = writeln!(text, "--- prompt\n{prompt}");
            }
            Context::Messages(messages) => {
                for message in messages.iter() {
                    let _ = writeln!(text, "--- {}\n{}", message.role, message.content);
                }
            }
        },
        Arguments::Rolling { text: scored } => {
            let _ = writeln!(text, "--- text\n{scored}");
        }
    }
    let _ = writeln!(text, "--- target\n{}", repr::str(&first.target));
    let _ = write!(
        text,
        "--- first of {}\n{} {}",
        counted(requests.instances.len(), "request"),
        first.request_type,
        repr::repr(&Value::list(first.args(dialect)))
    );
    Some(text)
}
