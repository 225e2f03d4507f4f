//! What `lm-eval run` is asked to do: flags, a file of settings, and what both come to.

pub(crate) mod arguments;
pub(crate) mod config_file;
pub(crate) mod dict_option;
pub(crate) mod events;
pub(crate) mod fields;
pub(crate) mod given;
pub(crate) mod interrupt;
pub(crate) mod layers;
pub(crate) mod model;
pub(crate) mod no_effect;
pub(crate) mod output;
pub(crate) mod samples;
pub(crate) mod seed;
pub(crate) mod settings;
