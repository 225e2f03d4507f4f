//! Behaviour of the crate through its public functions.

mod hub;
mod stand_in;
mod support;
mod vectors;
