//! TLS between a run and its workers.
//!
//! The run has a certificate, which workers check. Workers have none: they prove that they know the token, inside the
//! encrypted connection and bound to it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use lmeval_core::{ModelError, ModelErrorKind};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, Connection, DigitallySignedStruct,
    Error, RootCertStore, ServerConfig, ServerConnection, SignatureScheme,
};

use super::channel::{HandshakeError, read_private};

/// The certificate of a run and its key.
#[derive(Clone)]
pub struct RunTls(Arc<ServerConfig>);

impl fmt::Debug for RunTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunTls")
    }
}

impl RunTls {
    /// Reads the certificate, with intermediate ones after it, and the key, which only its owner can read: PEM files.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, ModelError> {
        let chain = certificates(certificate, "tls_cert")?;
        let text = read_private(key, "key", "Create a certificate and its key as docs/scale.md says")?;
        let parsed = PrivateKeyDer::from_pem_slice(text.as_bytes());
        let parsed =
            parsed.map_err(|_| wrong(format!("`{}` contains no private key in PEM", key.display())))?;
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, parsed));
        let mut config = config.map_err(|error| {
            let (certificate, key) = (certificate.display(), key.display());
            match error {
                Error::InconsistentKeys(_) => wrong(format!("`{key}` is not the key of `{certificate}`")),
                error => wrong(format!("`{certificate}` and `{key}` cannot be used: {error}")),
            }
        })?;
        config.send_tls13_tickets = 0;
        Ok(Self(Arc::new(config)))
    }

    /// The run's side of a new connection.
    pub(super) fn connection(&self) -> Result<Connection, HandshakeError> {
        let connection = ServerConnection::new(Arc::clone(&self.0));
        connection.map(Connection::Server).map_err(|error| HandshakeError::Tls(error.to_string()))
    }
}

/// The certificates that a worker trusts.
#[derive(Clone)]
pub struct WorkerTls(Arc<ClientConfig>);

impl fmt::Debug for WorkerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WorkerTls")
    }
}

impl WorkerTls {
    /// Reads a PEM file with the certificate of an authority, or that of the run itself.
    pub fn read(path: &Path) -> Result<Self, ModelError> {
        let given = certificates(path, "tls_ca")?;
        let unusable =
            |error: &dyn fmt::Display| wrong(format!("`{}` cannot be used: {error}", path.display()));
        let mut roots = RootCertStore::empty();
        for certificate in &given {
            roots.add(certificate.clone()).map_err(|error| unusable(&error))?;
        }
        let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider());
        let usual = usual.build().map_err(|error| unusable(&error))?;
        let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]);
        let trust = Arc::new(Trust { given, usual });
        let builder = builder.map_err(|error| unusable(&error))?.dangerous();
        Ok(Self(Arc::new(builder.with_custom_certificate_verifier(trust).with_no_client_auth())))
    }

    /// The worker's side of a new connection to a `HOST:PORT`.
    pub(super) fn connection(&self, address: &str) -> Result<Connection, HandshakeError> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| HandshakeError::Certificate(format!("`{host}` is not a host name or IP address")))?;
        let connection = ClientConnection::new(Arc::clone(&self.0), name);
        connection.map(Connection::Client).map_err(|error| HandshakeError::Tls(error.to_string()))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn wrong(message: String) -> ModelError {
    ModelError::new(ModelErrorKind::Configuration, message)
}

/// The certificates of a PEM file that an argument names.
fn certificates(path: &Path, argument: &str) -> Result<Vec<CertificateDer<'static>>, ModelError> {
    let shown = path.display();
    let pem = fs_err::read(path).map_err(|error| wrong(format!("Cannot read `{argument}`: {error}")))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|error| wrong(format!("`{shown}` is not a valid PEM file: {error}")))?;
    if found.is_empty() {
        return Err(wrong(format!("`{shown}` contains no PEM certificate")));
    }
    Ok(found)
}

/// Trusts what the given authorities have issued for the name of the run, and the given certificates themselves under any
/// name. None may have expired.
#[derive(Debug)]
struct Trust {
    given: Vec<CertificateDer<'static>>,
    usual: Arc<WebPkiServerVerifier>,
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
        match self.usual.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // Dates are checked before everything else. A self-signed certificate is not a valid end of a chain, but
            // whoever has its key is the run.
            Err(error) if !is_about_dates(&error) && self.given.iter().any(|given| given == end_entity) => {
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
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

fn is_about_dates(error: &Error) -> bool {
    use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    let Error::InvalidCertificate(error) = error else { return false };
    matches!(error, Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. })
}

/// The reason why a TLS handshake failed.
pub(super) fn failure(error: &Error) -> HandshakeError {
    use AlertDescription::{BadCertificate, CertificateExpired, CertificateUnknown, UnknownCA};
    use CertificateError::{
        Expired, ExpiredContext, NotValidForNameContext, NotValidYet, NotValidYetContext, UnknownIssuer,
    };
    let certificate = |reason: &str| HandshakeError::Certificate(reason.to_owned());
    match error {
        Error::InvalidCertificate(UnknownIssuer) => {
            certificate("its issuer is not in the file of `--tls_ca`")
        }
        Error::InvalidCertificate(Expired | ExpiredContext { .. }) => {
            certificate("it has expired, or the clock of this machine is wrong")
        }
        Error::InvalidCertificate(NotValidYet | NotValidYetContext { .. }) => {
            certificate("it is not valid yet, or the clock of this machine is wrong")
        }
        Error::InvalidCertificate(NotValidForNameContext { expected, presented }) => {
            let names = if presented.is_empty() { "no name".to_owned() } else { presented.join(", ") };
            HandshakeError::Certificate(format!("it is for {names}, not for `{}`", expected.to_str()))
        }
        Error::InvalidCertificate(error) => HandshakeError::Certificate(error.to_string()),
        Error::AlertReceived(UnknownCA) => HandshakeError::Distrust("it does not know its issuer".to_owned()),
        Error::AlertReceived(CertificateExpired) => {
            HandshakeError::Distrust("it has expired, or is not valid yet, by the worker's clock".to_owned())
        }
        Error::AlertReceived(alert @ (BadCertificate | CertificateUnknown)) => {
            HandshakeError::Distrust(format!("{alert:?}, such as for another name"))
        }
        error => HandshakeError::Tls(error.to_string()),
    }
}
