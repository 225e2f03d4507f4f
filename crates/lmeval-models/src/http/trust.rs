//! TLS with certificates given by the user.

use std::path::Path;
use std::sync::Arc;

use lmeval_core::{ModelError, ModelErrorKind};
use lmeval_net::{Exemption, GivenCertificates, certificates, provider};
use rustls::ClientConfig;
use rustls_platform_verifier::Verifier;

/// A TLS configuration that also trusts the certificates of a PEM file: that of a CA, or that of the server itself.
pub(crate) fn tls_with(path: &Path) -> Result<ClientConfig, ModelError> {
    let fail = |reason: String| {
        let message = format!("The certificates of `ca_cert_path` cannot be used: {reason}");
        ModelError::new(ModelErrorKind::Configuration, message)
    };
    let given = certificates(path).map_err(|error| fail(error.to_string()))?;
    let usual = Verifier::new_with_extra_roots(given.clone(), provider())
        .map_err(|error| fail(format!("`{}`: {error}", path.display())))?;
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| fail(error.to_string()))?;
    let trust = Arc::new(GivenCertificates::new(given, Arc::new(usual), Exemption::Issuer));
    let mut config = builder.dangerous().with_custom_certificate_verifier(trust).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
