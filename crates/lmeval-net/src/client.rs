//! The HTTP client of the process.

use rustls::crypto::ring;

/// A builder of HTTP clients, with TLS by ring unless another provider is installed.
///
/// Use it instead of [`reqwest::Client::builder`]: this workspace builds reqwest without a TLS provider, and a client
/// without one panics.
pub fn http_client() -> reqwest::ClientBuilder {
    // Fails only if a provider is already installed.
    let _ = ring::default_provider().install_default();
    reqwest::Client::builder()
}
