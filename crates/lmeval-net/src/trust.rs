//! Certificates that the user gives, besides those that a usual verifier trusts.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use thiserror::Error as ThisError;

/// The implementation of cryptography.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Why a file of certificates cannot be read.
#[derive(Debug, ThisError)]
pub enum CertificatesError {
    /// No such file, or no permission; the message has the path.
    #[error(transparent)]
    Unreadable(#[from] io::Error),
    /// The file is damaged.
    #[error("`{}` is not a valid PEM file: {source}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: pem::Error,
    },
    /// The file has other things, or nothing.
    #[error("`{}` contains no PEM certificate", .0.display())]
    Empty(PathBuf),
}

/// The certificates of a PEM file, of which there is at least one.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificatesError> {
    let pem = fs_err::read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|source| CertificatesError::Invalid { path: path.to_owned(), source })?;
    if found.is_empty() {
        return Err(CertificatesError::Empty(path.to_owned()));
    }
    Ok(found)
}

/// What is forgiven to a server that presents exactly a given certificate. An expired one is always refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exemption {
    /// That its issuer is unknown. The usual verifier refuses a self-signed certificate marked as a CA, which
    /// `openssl req -x509` creates. The name must be that of the server.
    Issuer,
    /// Everything but its dates: whoever has its key is the server, under any name.
    AnyName,
}

/// Trusts what a usual verifier trusts, and servers that present one of the given certificates themselves.
#[derive(Debug)]
pub struct GivenCertificates {
    given: Vec<CertificateDer<'static>>,
    usual: Arc<dyn ServerCertVerifier>,
    exemption: Exemption,
}

impl GivenCertificates {
    /// A verifier that asks the usual one first.
    pub fn new(
        given: Vec<CertificateDer<'static>>,
        usual: Arc<dyn ServerCertVerifier>,
        exemption: Exemption,
    ) -> Self {
        Self { given, usual, exemption }
    }
}

impl ServerCertVerifier for GivenCertificates {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let usual = self.usual.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        let Err(error) = &usual else { return usual };
        if !self.given.iter().any(|given| given.as_ref() == end_entity.as_ref()) {
            return usual;
        }
        // Dates are checked before everything else.
        match self.exemption {
            Exemption::Issuer if is_about_issuer(error) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
            }
            Exemption::AnyName if !is_about_dates(error) => {}
            _ => return usual,
        }
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

fn is_about_dates(error: &Error) -> bool {
    use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    let Error::InvalidCertificate(error) = error else { return false };
    matches!(error, Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. })
}
