//! The connection between the engine and Python.

use std::io;
#[cfg(not(unix))]
use std::net::TcpStream;
#[cfg(unix)]
use std::os::{fd::AsFd as _, unix::net::UnixStream};

/// One end of a connection.
#[cfg(unix)]
pub type Socket = UnixStream;
/// A placeholder; connections are not supported on this system.
#[cfg(not(unix))]
pub type Socket = TcpStream;

/// Both ends of a new connection.
#[cfg(unix)]
pub(crate) fn pair() -> io::Result<(Socket, Socket)> {
    Socket::pair()
}

/// Standard input as a socket.
#[cfg(unix)]
pub(crate) fn stdin() -> io::Result<Socket> {
    let stream = Socket::from(io::stdin().as_fd().try_clone_to_owned()?);
    // Only a socket has an address; a file or terminal fails here.
    stream.local_addr()?;
    Ok(stream)
}

#[cfg(not(unix))]
pub(crate) fn pair() -> io::Result<(Socket, Socket)> {
    Err(unsupported())
}

#[cfg(not(unix))]
pub(crate) fn stdin() -> io::Result<Socket> {
    Err(unsupported())
}

#[cfg(not(unix))]
fn unsupported() -> io::Error {
    let message = "Python code runs on Linux and macOS only; on Windows, use WSL";
    io::Error::new(io::ErrorKind::Unsupported, message)
}
