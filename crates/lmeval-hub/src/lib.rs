//! A Hugging Face hub client: fetches datasets and models over HTTP into the cache shared with Python's
//! `huggingface_hub`.
//!
//! Downloads are retried, resumed, and locked against other processes. The token is sent to the hub's origin only.
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
mod commit;
mod download;
mod error;
mod fingerprint;
mod locate;
mod repository;
mod settings;

pub use cache::is_safe;
pub use client::Client;
pub use commit::Commit;
pub use download::fetch_address;
pub use error::Error;
pub use fingerprint::{hash_contents, hash_portable_weights, hash_small_files, hash_weights};
pub use locate::{Wanted, locate};
pub use repository::{Kind, Repository, Revision, cached_snapshot, revisions};
pub use settings::Settings;

use std::fmt::Write as _;

/// Lowercase hexadecimal.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
