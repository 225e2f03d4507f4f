//! Addresses: parameters, and the `Host` header.

use std::fmt::Write as _;
use std::net::IpAddr;

/// Decodes the part of an address after `?`; `None` if an escape is wrong or the result is not UTF-8.
pub(crate) fn parameters(query: &str) -> Option<Vec<(String, String)>> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(name)?, decode(value)?))
        })
        .collect()
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        match first {
            b'%' => {
                let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
                // `from_str_radix` accepts a sign.
                if digits.starts_with('+') {
                    return None;
                }
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = &rest[2..];
            }
            b'+' => bytes.push(b' '),
            other => bytes.push(*other),
        }
    }
    String::from_utf8(bytes).ok()
}

/// Encodes a parameter as `encodeURIComponent` of JavaScript does.
pub(crate) fn encode(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}

/// Whether a `Host` header may name this server.
///
/// A page of another site can point its own name at this machine and then read what it gets (DNS rebinding). It cannot
/// do so with an IP address, with `localhost`, or with the name that the server was started with.
pub(crate) fn is_own_host(header: &str, started_with: &str, is_loopback: bool) -> bool {
    let name = match header.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(address, _)| address),
        None => header.rsplit_once(':').map_or(header, |(name, _)| name),
    };
    let name = name.trim_end_matches('.');
    if name.eq_ignore_ascii_case("localhost") || name.eq_ignore_ascii_case(started_with) {
        return true;
    }
    match name.parse::<IpAddr>() {
        Ok(address) => !is_loopback || address.is_loopback(),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_what_browsers_send() {
        let found = parameters("a=1%2C2&text=%C3%A4+b&flag&=x&n=a%3Db").unwrap();
        let expected = [("a", "1,2"), ("text", "ä b"), ("flag", ""), ("", "x"), ("n", "a=b")];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        for wrong in ["a=%", "a=%4", "a=%zz", "a=%+1", "a=%ff"] {
            assert_eq!(parameters(wrong), None, "{wrong}");
        }
        assert_eq!(encode("a b/ä'(x)"), "a%20b%2F%C3%A4'(x)");
    }

    #[test]
    fn only_own_names_are_hosts() {
        for host in ["localhost", "localhost:7373", "127.0.0.1:80", "[::1]:7373", "LOCALHOST:1"] {
            assert!(is_own_host(host, "127.0.0.1", true), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example:7373", "10.0.0.1", "", "127.0.0.1.evil.example", "[::1"]
        {
            let expected = host == "[::1";
            assert_eq!(is_own_host(host, "127.0.0.1", true), expected, "{host}");
        }
        assert!(is_own_host("10.0.0.1:7373", "0.0.0.0", false));
        assert!(is_own_host("box.example:7373", "box.example", false));
        assert!(!is_own_host("evil.example", "0.0.0.0", false));
    }
}
