//! Opens connections and sets their socket options.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::task::JoinSet;

/// How long one address may take before the next one is tried in parallel.
const HEAD_START: Duration = Duration::from_millis(300);
/// Idle time before a keep-alive probe, and the interval between probes.
const PROBE_AFTER: Duration = Duration::from_secs(15);
/// Unanswered keep-alive probes before the connection is considered dead.
const PROBES: u32 = 3;
/// How long sent data may stay unacknowledged.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// A connected socket.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin {
    fn socket(&self) -> SockRef<'_>;

    /// Calls `read` if the event loop has seen the socket become readable since `read` last returned `WouldBlock`.
    fn try_read_with(&self, read: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn socket(&self) -> SockRef<'_> {
        SockRef::from(self)
    }

    fn try_read_with(&self, read: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        self.try_io(Interest::READABLE, read)
    }
}

#[cfg(unix)]
impl Stream for UnixStream {
    fn socket(&self) -> SockRef<'_> {
        SockRef::from(self)
    }

    fn try_read_with(&self, read: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        self.try_io(Interest::READABLE, read)
    }
}

/// Connects to one of a host's addresses.
///
/// A generation may take minutes without a byte on the wire. TCP keep-alive keeps the connection in the
/// tables of firewalls, and detects a vanished host before the request times out.
pub(super) async fn dial(addresses: Vec<SocketAddr>) -> io::Result<Box<dyn Stream>> {
    let stream = race(addresses, TcpStream::connect).await?;
    stream.set_nodelay(true)?;
    let socket = SockRef::from(&stream);
    let keepalive = TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_AFTER);
    socket.set_tcp_keepalive(&keepalive.with_retries(PROBES))?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
    Ok(Box::new(stream))
}

/// Returns the first connection that succeeds. Packets to an address may vanish without an error, as to an
/// IPv6 address where only IPv4 is routed, so addresses are raced instead of tried strictly in order.
async fn race<T, C, A>(addresses: Vec<SocketAddr>, connect: C) -> io::Result<T>
where
    T: Send + 'static,
    C: Fn(SocketAddr) -> A,
    A: Future<Output = io::Result<T>> + Send + 'static,
{
    let mut waiting = alternate_families(addresses).into_iter();
    let mut attempts = JoinSet::new();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "The host has no address");
    loop {
        if let Some(address) = waiting.next() {
            attempts.spawn(connect(address));
        }
        let has_next = waiting.len() > 0;
        tokio::select! {
            ended = attempts.join_next() => match ended {
                Some(Ok(Ok(stream))) => return Ok(stream),
                Some(Ok(Err(error))) => failure = error,
                Some(Err(error)) => failure = io::Error::other(error),
                None => return Err(failure),
            },
            () = tokio::time::sleep(HEAD_START), if has_next => {}
        }
    }
}

/// Keeps the resolver's order but alternates between IPv4 and IPv6.
fn alternate_families(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_ipv6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (mut ours, mut others) = (0, 0);
    let mut placed: Vec<(usize, SocketAddr)> = Vec::with_capacity(addresses.len());
    for address in addresses {
        let is_ours = address.is_ipv6() == first_is_ipv6;
        let index = if is_ours { &mut ours } else { &mut others };
        placed.push((2 * *index + usize::from(!is_ours), address));
        *index += 1;
    }
    placed.sort_by_key(|(index, _)| *index);
    placed.into_iter().map(|(_, address)| address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[tokio::test]
    async fn races_past_an_address_that_drops_packets() {
        let connect = |address: SocketAddr| async move {
            match address.port() {
                1 => std::future::pending().await,
                2 => Err(io::ErrorKind::ConnectionRefused.into()),
                port => Ok(port),
            }
        };
        let reached = async |texts: &[&str]| {
            let racing = race(addresses(texts), connect);
            tokio::time::timeout(Duration::from_mins(1), racing).await.expect("one address blocks the others")
        };
        assert_eq!(reached(&["[::1]:1", "127.0.0.1:3"]).await.unwrap(), 3);
        assert_eq!(reached(&["[::1]:1", "[::1]:1", "127.0.0.1:2", "127.0.0.1:3"]).await.unwrap(), 3);
        assert_eq!(reached(&["[::1]:3", "127.0.0.1:4"]).await.unwrap(), 3);
        let refused = reached(&["[::1]:2", "127.0.0.1:2"]).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(reached(&[]).await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn alternates_address_families() {
        let mixed = addresses(&["[::1]:1", "[::1]:2", "[::1]:3", "127.0.0.1:4", "127.0.0.1:5"]);
        let ports: Vec<u16> = alternate_families(mixed).iter().map(SocketAddr::port).collect();
        assert_eq!(ports, [1, 4, 2, 5, 3]);
    }

    #[tokio::test]
    async fn enables_keep_alive_and_user_timeout() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = dial(vec![listener.local_addr().unwrap()]).await.unwrap();
        let socket = stream.socket();
        assert!(socket.tcp_nodelay().unwrap() && socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), PROBE_AFTER);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), PROBE_AFTER);
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), PROBES);
        #[cfg(target_os = "linux")]
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(UNACKNOWLEDGED));
    }
}
