//! What all network connections share: the HTTP client of the process, and trust in certificates that the user gives.
//!
//! ```
//! let client = lmeval_net::http_client().no_proxy().build()?;
//! # Ok::<(), reqwest::Error>(())
//! ```

mod client;
mod trust;

pub use client::http_client;
pub use trust::{CertificatesError, Exemption, GivenCertificates, certificates, provider};
