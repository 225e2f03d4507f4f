//! The hub: repositories of data sets and models, fetched over HTTP into the cache that Python's `huggingface_hub`
//! shares.
//!
//! Downloads are retried, resumed where they stopped, and locked against other processes. The token goes to the hub's
//! own origin and nowhere else.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use lmeval_hub::{Client, Kind, Repository, Settings};
//!
//! let client = Arc::new(Client::new(&Settings::from_environment(Kind::Model))?);
//! let repository = Repository::open(&client, Kind::Model, "gpt2", "main")?;
//! let config = repository.fetch("config.json")?;
//! # Ok::<(), lmeval_hub::Error>(())
//! ```

mod cache;
mod client;
mod download;
mod error;
mod repository;
mod settings;

pub use cache::{is_repository, is_safe};
pub use client::Client;
pub use download::fetch_address;
pub use error::Error;
pub use repository::{Kind, Repository, cached_snapshot};
pub use settings::Settings;

use std::fmt::Write as _;

/// Bytes as hexadecimal digits.
fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
