//! The format `cloze`: options are hidden, and the model scores their text.

use super::{Format, mcqa};

/// The definition of the format.
pub(super) fn format() -> Format {
    Format { choice_labels: None, ..mcqa::format() }
}
