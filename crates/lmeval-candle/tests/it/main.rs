//! Tests of in-process models.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adapters;
mod architectures;
mod checkpoints;
mod encoders;
mod generation;
mod gguf;
mod hub;
mod model;
mod mutations;
mod quantised;
mod tokens;
mod torch;
