//! What the engine and Python talk over.

use std::io;
#[cfg(not(unix))]
use std::net::TcpStream;
#[cfg(unix)]
use std::os::{fd::AsFd as _, unix::net::UnixStream};

/// One end of a conversation.
#[cfg(unix)]
pub type Socket = UnixStream;
/// One end of a conversation, which nobody can have here.
#[cfg(not(unix))]
pub type Socket = TcpStream;

/// Both ends of a new conversation.
#[cfg(unix)]
pub(crate) fn pair() -> io::Result<(Socket, Socket)> {
    Socket::pair()
}

/// The socket that standard input is.
#[cfg(unix)]
pub(crate) fn stdin() -> io::Result<Socket> {
    let stream = Socket::from(io::stdin().as_fd().try_clone_to_owned()?);
    // An address is what tells a socket from a file or a terminal.
    stream.local_addr()?;
    Ok(stream)
}

#[cfg(not(unix))]
pub(crate) fn pair() -> io::Result<(Socket, Socket)> {
    Err(not_here())
}

#[cfg(not(unix))]
pub(crate) fn stdin() -> io::Result<Socket> {
    Err(not_here())
}

#[cfg(not(unix))]
fn not_here() -> io::Error {
    let message = "Python code runs on Linux and macOS alone; on Windows, use WSL";
    io::Error::new(io::ErrorKind::Unsupported, message)
}
