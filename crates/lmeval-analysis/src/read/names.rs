//! Choosing tasks by their names.

use lmeval_core::{Diagnostic, nearest};
use lmeval_pycompat::fnmatch::Pattern;

use crate::Error;

/// Names and patterns of tasks. `arc_*` also stands for `group::arc_easy`.
pub struct TaskNames {
    patterns: Vec<(String, Pattern)>,
}

impl TaskNames {
    /// Compiles names and patterns; an empty list stands for all tasks.
    ///
    /// ```
    /// use lmeval_analysis::read::TaskNames;
    ///
    /// let names = TaskNames::new(&["mmlu_*".to_owned()]);
    /// assert!(names.accepts("mmlu_law") && names.accepts("mmlu::mmlu_law"));
    /// assert!(!names.accepts("arc_easy"));
    /// ```
    pub fn new(texts: &[String]) -> Self {
        Self { patterns: texts.iter().map(|text| (text.clone(), Pattern::new(text))).collect() }
    }

    /// Whether a task is one of them.
    pub fn accepts(&self, task: &str) -> bool {
        self.patterns.is_empty() || self.patterns.iter().any(|(_, pattern)| is_named(pattern, task))
    }

    /// Fails if one of them stands for no task of `known`.
    pub fn check(&self, known: &[&str]) -> Result<(), Error> {
        let is_unknown = |pattern: &Pattern| !known.iter().any(|task| is_named(pattern, task));
        let Some((text, _)) = self.patterns.iter().find(|(_, pattern)| is_unknown(pattern)) else {
            return Ok(());
        };
        let own = known.iter().flat_map(|task| [*task, own_name(task)]);
        Err(Diagnostic::new(format!("There is no task `{text}`"))
            .did_you_mean(&nearest(text, own))
            .hint(format!("There are {}", listed(known)))
            .into())
    }
}

fn is_named(pattern: &Pattern, task: &str) -> bool {
    pattern.matches(task) || pattern.matches(own_name(task))
}

/// A task without the groups in front of it.
fn own_name(task: &str) -> &str {
    task.rsplit("::").next().unwrap_or(task)
}

/// Names in backticks; the number of the rest if there are many.
pub(crate) fn listed(names: &[&str]) -> String {
    const SHOWN: usize = 40;
    let mut shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    if names.len() > SHOWN {
        shown.push(format!("and {} more", names.len() - SHOWN));
    }
    shown.join(", ")
}
