//! The building blocks of architectures.
//!
//! Layers work on a matrix `[rows, width]` with a row per token of any sequence. Only [`attend`] knows which rows attend to
//! which.

mod activation;
mod attention;
mod attention_cpu;
mod attention_padded;
mod experts;
mod latent;
mod linear;
mod mlp;
mod norm;
mod per_head;
mod rotary;
pub(crate) mod simd;
mod states;

pub(crate) use activation::Activation;
pub(crate) use attention::{AttentionOptions, Distances, SelfAttention, Temperature, attend};
pub(crate) use attention_padded::Padded;
pub(crate) use experts::{Experts, Groups, Normalise, Routing, Scoring};
pub(crate) use latent::{LatentAttention, LatentSizes, QueryProjection};
pub(crate) use linear::Linear;
pub(crate) use mlp::Mlp;
pub(crate) use norm::Norm;
pub(crate) use per_head::PerHead;
pub(crate) use rotary::{Angles, Rotary, RotaryParameters, RotaryStyle};
pub(crate) use states::{
    CausalConv, ChannelScan, DeltaInputs, HeadScan, HeadScanInputs, delta_rule, softplus,
};
