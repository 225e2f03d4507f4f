//! Generation settings of requests and models, and stop conditions.

mod fields;
mod names;
mod settings;
mod stop;

pub(crate) use fields::Defaults;
pub(crate) use settings::{GenerationSettings, ModelDefaults};
pub(crate) use stop::{Decoded, StopCheck, decode};
