//! Whose process is at the other end of a loopback connection.
//!
//! Every user of a machine can connect to a loopback port, also those who cannot read the files that the viewer shows.

use std::net::SocketAddr;

/// Whether a connection is from a process of another user. `false` where the system does not say.
pub(crate) fn is_of_another_user(peer: SocketAddr, own: SocketAddr) -> bool {
    #[cfg(target_os = "linux")]
    {
        let Some(user) = linux::owner(peer, own) else { return false };
        // Root can read everything anyway, and forwards ports of containers.
        user != 0 && linux::own_user().is_some_and(|own| own != user)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (peer, own);
        false
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{BufRead as _, BufReader};
    use std::net::{IpAddr, SocketAddr};

    /// The user whose process has the socket at `peer`, which is connected to `own`.
    pub(super) fn owner(peer: SocketAddr, own: SocketAddr) -> Option<u32> {
        let tables: &[&str] = match peer.ip() {
            // A socket for both versions is in the second table.
            IpAddr::V4(_) => &["/proc/net/tcp", "/proc/net/tcp6"],
            IpAddr::V6(_) => &["/proc/net/tcp6"],
        };
        tables.iter().find_map(|table| {
            let lines = BufReader::new(fs_err::File::open(table).ok()?).lines().map_while(Result::ok);
            lines.into_iter().find_map(|line| user_of(&line, peer, own))
        })
    }

    /// The user of a line of the table, if it is about the socket.
    pub(super) fn user_of(line: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
        let mut fields = line.split_ascii_whitespace();
        let is_it = matches_address(fields.nth(1)?, local) && matches_address(fields.next()?, remote);
        if is_it { fields.nth(4)?.parse().ok() } else { None }
    }

    /// Whether `0100007F:1CCD` is an address: words in the byte order of the machine, and the port.
    fn matches_address(text: &str, address: SocketAddr) -> bool {
        let Some((ip, port)) = text.split_once(':') else { return false };
        if u16::from_str_radix(port, 16) != Ok(address.port()) {
            return false;
        }
        let mut bytes = Vec::with_capacity(16);
        for word in ip.as_bytes().chunks(8) {
            let word = std::str::from_utf8(word).ok().and_then(|word| u32::from_str_radix(word, 16).ok());
            let Some(word) = word else { return false };
            bytes.extend(word.to_ne_bytes());
        }
        let found = match (<[u8; 4]>::try_from(&bytes[..]), <[u8; 16]>::try_from(&bytes[..])) {
            (Ok(bytes), _) => IpAddr::from(bytes),
            (_, Ok(bytes)) => IpAddr::from(bytes),
            _ => return false,
        };
        found.to_canonical() == address.ip().to_canonical()
    }

    /// The user of this process.
    pub(super) fn own_user() -> Option<u32> {
        use std::os::unix::fs::MetadataExt as _;
        fs_err::metadata("/proc/self").ok().map(|meta| meta.uid())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::linux::{own_user, owner, user_of};
    use super::*;

    #[test]
    fn reads_lines_of_the_kernel() {
        let line = "   1: 0100007F:C350 0100007F:1CCD 01 00000000:00000000 00:00000000 00000000  1000        0 99 1 0";
        let [peer, own] = ["127.0.0.1:50000", "127.0.0.1:7373"].map(|text| text.parse().unwrap());
        let little = cfg!(target_endian = "little");
        assert_eq!(user_of(line, peer, own), little.then_some(1000));
        assert_eq!(user_of(line, own, peer), None);
        assert_eq!(user_of("  sl  local_address rem_address   st", peer, own), None);
        assert_eq!(user_of("", peer, own), None);
    }

    #[test]
    fn finds_the_owner_of_a_connection() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, peer) = listener.accept().unwrap();
            let own = server.local_addr().unwrap();
            assert_eq!(peer, client.local_addr().unwrap());
            assert_eq!(owner(peer, own), own_user(), "{address}");
            assert!(!is_of_another_user(peer, own));
        }
    }
}
