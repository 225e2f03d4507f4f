//! Tests of the whole module.

mod properties;
mod rules;
mod vectors;
