//! Decodes bodies that arrive compressed although the request did not allow it.

use std::io::Read as _;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use reqwest::header::{CONTENT_ENCODING, HeaderMap};

use super::direct::ExchangeError;

/// Any body may be decompressed to this size.
const ALWAYS_ALLOWED: usize = 64 << 20;
/// Beyond that, a decompressed body may be this many times as large as on the wire: JSON with log-probabilities shrinks to a tenth.
const MAX_RATIO: usize = 50;
/// The most content encodings of a body.
const MAX_ENCODINGS: usize = 4;

/// Undoes the content encodings of a body.
///
/// A body that was not sent compressed costs its sender as much as us. A compressed one does not: a megabyte may be a gigabyte
/// of zeros, for each of hundreds of calls. So its size is limited by the bytes on the wire, whatever the number of encodings.
pub(super) fn decoded(headers: &HeaderMap, body: Bytes, largest: usize) -> Result<Bytes, ExchangeError> {
    let largest = largest.min(body.len().saturating_mul(MAX_RATIO).max(ALWAYS_ALLOWED));
    let names = headers.get_all(CONTENT_ENCODING).iter().map(|value| value.to_str().unwrap_or("unreadable"));
    let names: Vec<&str> = names.flat_map(|value| value.split(',')).map(str::trim).collect();
    if names.len() > MAX_ENCODINGS {
        return Err(ExchangeError::Encoded(names.join(", ").chars().take(100).collect()));
    }
    // Encodings are listed in the order they were applied.
    names.into_iter().rev().try_fold(body, |body, name| match name.to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(body),
        _ if body.is_empty() => Ok(body),
        "gzip" | "x-gzip" => unzipped(&body, largest),
        other => Err(ExchangeError::Encoded(other.to_owned())),
    })
}

fn unzipped(body: &[u8], largest: usize) -> Result<Bytes, ExchangeError> {
    let mut plain = Vec::new();
    let mut reader = MultiGzDecoder::new(body).take(largest as u64 + 1);
    reader.read_to_end(&mut plain).map_err(|error| ExchangeError::Truncated(error.to_string()))?;
    if plain.len() > largest {
        return Err(ExchangeError::TooLarge);
    }
    Ok(plain.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use reqwest::header::HeaderValue;

    use super::*;

    fn zipped(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn read(encodings: &[&'static str], body: Vec<u8>) -> Result<Bytes, ExchangeError> {
        let mut headers = HeaderMap::new();
        for encoding in encodings {
            headers.append(CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        decoded(&headers, body.into(), 1000)
    }

    #[test]
    fn undoes_encodings_in_reverse_order() {
        assert_eq!(read(&[], b"plain".to_vec()).unwrap(), "plain");
        assert_eq!(read(&["identity"], b"plain".to_vec()).unwrap(), "plain");
        assert_eq!(read(&["GZip"], zipped(b"text")).unwrap(), "text");
        assert_eq!(read(&["gzip", "x-gzip"], zipped(&zipped(b"text"))).unwrap(), "text");
        assert_eq!(read(&["gzip, identity"], zipped(b"text")).unwrap(), "text");
        assert_eq!(read(&["br"], Vec::new()).unwrap(), "");
    }

    #[test]
    fn limits_decompression_by_the_bytes_on_the_wire() {
        let decode = |encodings: &'static str, body: Vec<u8>| {
            let headers = HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static(encodings))]);
            decoded(&headers, body.into(), 1 << 30)
        };
        let bomb = zipped(&vec![0; ALWAYS_ALLOWED + 1]);
        assert!(bomb.len() < ALWAYS_ALLOWED / 500);
        assert!(matches!(decode("gzip, gzip", zipped(&bomb)), Err(ExchangeError::TooLarge)));
        assert!(matches!(decode("gzip", bomb), Err(ExchangeError::TooLarge)));
        assert_eq!(decode("gzip", zipped(&vec![0; ALWAYS_ALLOWED])).unwrap().len(), ALWAYS_ALLOWED);
    }

    #[test]
    fn rejects_unknown_or_damaged_encodings() {
        assert!(matches!(read(&["br"], b"x".to_vec()), Err(ExchangeError::Encoded(name)) if name == "br"));
        let mut half = zipped(b"a body that is longer than its header");
        half.truncate(half.len() - 9);
        assert!(matches!(read(&["gzip"], half), Err(ExchangeError::Truncated(_))));
        // A small body may decompress to a large one.
        assert!(matches!(read(&["gzip"], zipped(&[0; 1001])), Err(ExchangeError::TooLarge)));
        assert_eq!(read(&["gzip"], zipped(&[0; 1000])).unwrap().len(), 1000);
        assert!(matches!(
            read(&["gzip, gzip, gzip, gzip, gzip"], zipped(b"x")),
            Err(ExchangeError::Encoded(_))
        ));
    }
}
