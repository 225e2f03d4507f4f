//! Keys and passwords: which settings hold them, and text without them.
//!
//! [`mask_secrets`] hides what a setting is known to hold by its name. [`learn`] and its kin remember the values, and
//! [`mask`] takes them out of any text. Every way out of the program calls [`mask`]: the printer, the writers of results
//! and samples, and what a server says before it is cut for a message.

mod known;
mod names;
mod settings;

pub use known::{
    hide_secret_lines, learn, learn_environment, learn_from_text, mask, mask_keeping_length, remember,
};
pub use names::{is_open_header, is_secret};
pub use settings::{MASK, mask_secrets};
