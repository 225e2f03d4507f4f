//! Behaviour of the public API on real folders.

mod broken;
mod include;
mod index;
mod library;
mod manager;
mod support;
mod validate;
