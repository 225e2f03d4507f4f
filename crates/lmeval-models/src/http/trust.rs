//! TLS with certificates given by the user.

use std::path::Path;
use std::sync::Arc;

use lmeval_core::{ModelError, ModelErrorKind};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use rustls_platform_verifier::Verifier;

/// A TLS configuration that also trusts the certificates of a PEM file.
pub(crate) fn tls_with(path: &Path) -> Result<ClientConfig, ModelError> {
    let fail = |reason: String| {
        let message = format!("The certificates of `ca_cert_path` cannot be used: {reason}");
        ModelError::new(ModelErrorKind::Configuration, message)
    };
    let pem = fs_err::read(path).map_err(|error| fail(error.to_string()))?;
    let given: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| fail(format!("`{}`: {error}", path.display())))?;
    if given.is_empty() {
        return Err(fail(format!("`{}` contains no PEM certificate", path.display())));
    }
    let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
    let usual = Verifier::new_with_extra_roots(given.clone(), Arc::clone(&provider))
        .map_err(|error| fail(format!("`{}`: {error}", path.display())))?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| fail(error.to_string()))?;
    let trust = Arc::new(Trust { given, usual });
    let mut config = builder.dangerous().with_custom_certificate_verifier(trust).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Trusts what the system trusts, plus the user's certificates: a CA, or the certificate of the server
/// itself.
///
/// The usual verifier refuses a self-signed certificate marked as a CA, which `openssl req -x509` creates. A
/// server that presents exactly the given certificate is accepted nevertheless. Only the issuer check is
/// overridden: an expired certificate is still refused.
#[derive(Debug)]
struct Trust {
    given: Vec<CertificateDer<'static>>,
    usual: Verifier,
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let usual = self.usual.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        let is_named = || self.given.iter().any(|given| given.as_ref() == end_entity.as_ref());
        match &usual {
            Err(error) if is_about_issuer(error) && is_named() => {}
            _ => return usual,
        }
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

/// Whether a certificate was refused because of its issuer.
fn is_about_issuer(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => true,
        // The inner error's type belongs to a transitive dependency; a test notices when its name changes.
        Error::InvalidCertificate(CertificateError::Other(other)) => {
            other.to_string().contains("CaUsedAsEndEntity")
        }
        _ => false,
    }
}
