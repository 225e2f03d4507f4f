//! Checks of filter steps.

use super::Checker;
use crate::config::filter::FilterStep;
use crate::config::path::Named;
use crate::error::ErrorKind;

impl Checker<'_> {
    pub(super) fn filter(&mut self, step: &FilterStep) {
        let Named::Name(name) = &step.function else { return };
        let entry = match self.registry.filters.find(name) {
            Ok(entry) => entry.clone(),
            Err(unknown) => {
                return self.unknown(ErrorKind::UnknownName, &step.path.then("function"), &unknown);
            }
        };
        let subject = format!("The filter `{name}`");
        self.options(&subject, &step.path, &entry.options, &step.kwargs);
    }
}
