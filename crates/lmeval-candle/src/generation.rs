//! Generation settings of requests and models, and what ends a text.

mod fields;
mod names;
mod settings;
mod stop;

pub(crate) use fields::Defaults;
pub(crate) use settings::{GenerationSettings, Surroundings};
pub(crate) use stop::{StopCheck, answer_text};
