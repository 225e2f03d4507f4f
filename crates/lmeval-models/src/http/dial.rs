//! How a connection is made, and what the kernel is told about it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// How long an address may take before the next one is tried beside it.
const HEAD_START: Duration = Duration::from_millis(300);
/// A silent connection is probed after this time, and again after the same time.
const PROBE_AFTER: Duration = Duration::from_secs(15);
/// How many probes may stay unanswered.
const PROBES: u32 = 3;
/// How long sent bytes may stay unacknowledged.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// Connects to one of the addresses of a host.
///
/// A generation may take minutes without a byte on the wire. The kernel therefore probes connections, which also keeps
/// them in the tables of firewalls, and notices a host that has gone without waiting for the timeout of the request.
pub(super) async fn dial(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let stream = race(addresses, TcpStream::connect).await?;
    stream.set_nodelay(true)?;
    let socket = SockRef::from(&stream);
    let keepalive = TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_AFTER);
    socket.set_tcp_keepalive(&keepalive.with_retries(PROBES))?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
    Ok(stream)
}

/// The first connection that is made. Packets to an address may vanish without an error, as those to an IPv6 address
/// often do where only IPv4 is routed, so that addresses are not tried one after the other only.
async fn race<T, C, A>(addresses: Vec<SocketAddr>, connect: C) -> io::Result<T>
where
    T: Send + 'static,
    C: Fn(SocketAddr) -> A,
    A: Future<Output = io::Result<T>> + Send + 'static,
{
    let mut waiting = by_turns(addresses).into_iter();
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

/// The addresses in the resolver's order, but IPv4 and IPv6 by turns.
fn by_turns(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_ipv6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (mut ours, mut others) = (0, 0);
    let mut placed: Vec<(usize, SocketAddr)> = Vec::with_capacity(addresses.len());
    for address in addresses {
        let is_ours = address.is_ipv6() == first_is_ipv6;
        let place = if is_ours { &mut ours } else { &mut others };
        placed.push((2 * *place + usize::from(!is_ours), address));
        *place += 1;
    }
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, address)| address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[tokio::test]
    async fn an_address_that_swallows_packets_does_not_hold_up_the_others() {
        let connect = |address: SocketAddr| async move {
            match address.port() {
                1 => std::future::pending().await,
                2 => Err(io::ErrorKind::ConnectionRefused.into()),
                port => Ok(port),
            }
        };
        let reached = async |texts: &[&str]| {
            let racing = race(addresses(texts), connect);
            tokio::time::timeout(Duration::from_mins(1), racing)
                .await
                .expect("an address holds up the others")
        };
        assert_eq!(reached(&["[::1]:1", "127.0.0.1:3"]).await.unwrap(), 3);
        assert_eq!(reached(&["[::1]:1", "[::1]:1", "127.0.0.1:2", "127.0.0.1:3"]).await.unwrap(), 3);
        assert_eq!(reached(&["[::1]:3", "127.0.0.1:4"]).await.unwrap(), 3);
        let refused = reached(&["[::1]:2", "127.0.0.1:2"]).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(reached(&[]).await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn families_take_turns() {
        let mixed = addresses(&["[::1]:1", "[::1]:2", "[::1]:3", "127.0.0.1:4", "127.0.0.1:5"]);
        let ports: Vec<u16> = by_turns(mixed).iter().map(SocketAddr::port).collect();
        assert_eq!(ports, [1, 4, 2, 5, 3]);
    }

    #[tokio::test]
    async fn the_kernel_watches_connections() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = dial(vec![listener.local_addr().unwrap()]).await.unwrap();
        let socket = SockRef::from(&stream);
        assert!(stream.nodelay().unwrap() && socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), PROBE_AFTER);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), PROBE_AFTER);
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), PROBES);
        #[cfg(target_os = "linux")]
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(UNACKNOWLEDGED));
    }
}
