//! Keys and passwords: recognising settings with secret values, and masking them in output.
//!
//! [`mask_secrets`] hides the values of settings that are named like secrets. [`learn`] and its siblings register the
//! values, and all output is masked: messages by [`mask`], and documents, prompts, answers and results by
//! [`mask_data`], which [`mask_strings`] applies to the strings inside a value. `policy.rs` decides which values are
//! masked where.

mod known;
mod names;
mod policy;
mod settings;

pub use known::{
    hide_secret_lines, learn, learn_environment, learn_from_text, mask, mask_data, mask_keeping_length,
    mask_strings, remember,
};
pub use names::{is_public_header, is_secret};
pub use policy::{is_credential, is_hidden_in_responses};
pub use settings::{MASK, mask_secrets};
