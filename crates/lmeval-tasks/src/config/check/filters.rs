//! Checks of filter steps.

use lmeval_core::registry::{OptionKind, Provider};
use lmeval_pycompat::Value;
use lmeval_pycompat::re::{Flags, Regex};

use super::Checker;
use crate::config::filter::FilterStep;
use crate::config::path::Named;
use crate::error::{Error, ErrorKind};

impl Checker<'_> {
    pub(super) fn filter(&mut self, step: &FilterStep) {
        let Named::Name(name) = &step.function else { return };
        let entry = match self.registries.filters.find(name) {
            Ok(entry) => entry.clone(),
            Err(unknown) => {
                return self.unknown(ErrorKind::UnknownName, &step.path.then("function"), &unknown);
            }
        };
        if entry.provider == Provider::TaskCode {
            let message = format!("The filter `{name}` is Python code of the task");
            self.note(&step.path.then("function"), message);
        }
        let subject = format!("The filter `{name}`");
        self.options(&subject, &step.path, &entry.options, &step.kwargs);
        for option in entry.options.known.iter() {
            let Some(value) = step.kwargs.get_str(&option.name) else {
                continue;
            };
            match (option.kind, value) {
                (OptionKind::Pattern, Value::Str(pattern)) => self.pattern(step, &option.name, pattern),
                (OptionKind::Patterns, Value::List(patterns)) => {
                    for pattern in patterns.iter().filter_map(Value::as_str) {
                        self.pattern(step, &option.name, pattern);
                    }
                }
                _ => {}
            }
        }
    }

    fn pattern(&mut self, step: &FilterStep, option: &str, pattern: &str) {
        if let Err(problem) = Regex::new(pattern, Flags::default()) {
            let path = self.option_path(&step.path, option);
            let message = format!("`{path}` is not a regular expression: {problem}");
            self.error(&path, Error::new(ErrorKind::Value, message));
        }
    }
}
