//! The building blocks of architectures.
//!
//! Layers work on a matrix `[rows, width]` with a row per token of any sequence. Only [`attend`] knows which rows attend to
//! which.

mod activation;
mod attention;
mod attention_cpu;
mod attention_padded;
mod linear;
mod mlp;
mod norm;
mod rotary;
pub(crate) mod simd;

pub use activation::Activation;
pub use attention::{AttentionOptions, SelfAttention, attend};
pub(crate) use attention_padded::Padded;
pub use linear::Linear;
pub use mlp::{Experts, Mlp};
pub use norm::Norm;
pub use rotary::{Angles, Rotary, RotaryParameters, RotaryStyle};
