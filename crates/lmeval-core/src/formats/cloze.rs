//! The format `cloze`: the options are not shown, and their texts are compared.

use super::{Format, mcqa};

/// The format.
pub(super) fn format() -> Format {
    Format { choice_labels: None, ..mcqa::format() }
}
