//! Keys and passwords: which settings hold them, and text without them.
//!
//! [`mask_secrets`] hides what a setting is known to hold by its name. [`learn`] and its kin remember the values, and
//! every way out of the program masks them: [`mask`] for messages, [`mask_data`] for documents, prompts, answers and
//! results, which [`mask_strings`] applies to the strings of a value. `worth.rs` says which values are masked where.

mod known;
mod names;
mod settings;
mod worth;

pub use known::{
    hide_secret_lines, learn, learn_environment, learn_from_text, mask, mask_data, mask_keeping_length,
    mask_strings, remember,
};
pub use names::{is_open_header, is_secret};
pub use settings::{MASK, mask_secrets};
pub use worth::{is_credential, is_echo};
