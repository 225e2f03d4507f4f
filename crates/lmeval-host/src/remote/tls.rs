//! TLS between a run and its workers.
//!
//! The run has a certificate, which workers check. Workers have none: they prove that they know the token, inside the
//! encrypted connection and bound to it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use lmeval_core::{ModelError, ModelErrorKind};
use lmeval_net::{CertificatesError, Exemption, GivenCertificates, certificates, provider};
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::TLS13;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, Connection, Error, RootCertStore,
    ServerConfig, ServerConnection,
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
        let chain = read(certificate, "tls_cert")?;
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
        let given = read(path, "tls_ca")?;
        let unusable =
            |error: &dyn fmt::Display| wrong(format!("`{}` cannot be used: {error}", path.display()));
        let mut roots = RootCertStore::empty();
        for certificate in &given {
            roots.add(certificate.clone()).map_err(|error| unusable(&error))?;
        }
        let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider());
        let usual = usual.build().map_err(|error| unusable(&error))?;
        let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]);
        // The certificates that the given authorities issued for the name of the run, or one of the given ones under any name.
        let trust = Arc::new(GivenCertificates::new(given, usual, Exemption::AnyName));
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

fn wrong(message: String) -> ModelError {
    ModelError::new(ModelErrorKind::Configuration, message)
}

fn read(path: &Path, argument: &str) -> Result<Vec<CertificateDer<'static>>, ModelError> {
    certificates(path).map_err(|error| match error {
        CertificatesError::Unreadable(error) => wrong(format!("Cannot read `{argument}`: {error}")),
        error => wrong(error.to_string()),
    })
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
