//! Servers on Unix sockets: host names that stand for the path of a socket.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use super::dial::Stream;

/// The sockets by the host names that stand for them, for the life of the process.
static SOCKETS: LazyLock<Mutex<HashMap<String, PathBuf>>> = LazyLock::new(Mutex::default);

/// A host name for the server on a socket, to be used in URLs. It is a loopback name, so no proxy is used.
pub(crate) fn socket_host(name: &str, path: &Path) -> String {
    let mut sockets = SOCKETS.lock().unwrap_or_else(PoisonError::into_inner);
    let host = format!("{name}-{}.localhost", sockets.len() + 1);
    sockets.insert(host.clone(), path.to_owned());
    host
}

/// The socket that a host name stands for.
pub(super) fn socket_of(host: &str) -> Option<PathBuf> {
    if !host.ends_with(".localhost") {
        return None;
    }
    SOCKETS.lock().unwrap_or_else(PoisonError::into_inner).get(host).cloned()
}

/// Connects to a socket.
#[cfg(unix)]
pub(super) async fn dial_socket(path: &Path) -> io::Result<Box<dyn Stream>> {
    Ok(Box::new(tokio::net::UnixStream::connect(path).await?))
}

#[cfg(not(unix))]
pub(super) async fn dial_socket(_: &Path) -> io::Result<Box<dyn Stream>> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(all(test, unix))]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn exchanges_data_over_a_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = tokio::net::UnixListener::bind(&path).unwrap();
        let host = socket_host("test", &path);
        assert_eq!(socket_of(&host), Some(path.clone()));
        assert_eq!(socket_of("other.localhost"), None);
        let mut client = dial_socket(&path).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        client.write_all(b"ask").await.unwrap();
        let mut received = [0; 3];
        server.read_exact(&mut received).await.unwrap();
        assert_eq!(&received, b"ask");
        drop(server);
        assert_eq!(client.read(&mut received).await.unwrap(), 0);
    }
}
