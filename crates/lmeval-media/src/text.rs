//! Files that are given as strings.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lmeval_pycompat::{Media, MediaKind};

/// Shorter strings that happen to be Base64 are words.
const SHORTEST: usize = 64;

/// Reads a string that stands for a file: a `data:` address, the path of a file that exists, or Base64. The error is a message.
pub fn from_text(kind: MediaKind, text: &str) -> Result<Media, String> {
    if let Some(rest) = text.strip_prefix("data:") {
        let (head, content) = rest.split_once(',').ok_or("the `data:` address has no content")?;
        if !head.ends_with(";base64") {
            return Err("the `data:` address is not in Base64".to_owned());
        }
        return decoded(kind, content).ok_or_else(|| "the `data:` address is not valid Base64".to_owned());
    }
    let path = PathBuf::from(text);
    // A path has at most 4096 bytes; longer strings can only be Base64.
    if text.len() < 4096 && path.is_file() {
        return Ok(Media::from_file(kind, path));
    }
    match decoded(kind, text) {
        Some(media) if text.len() >= SHORTEST => Ok(media),
        _ => {
            let start: String = text.chars().take(60).collect();
            Err(format!("`{start}` is neither a file with {}, nor Base64", article(kind)))
        }
    }
}

fn decoded(kind: MediaKind, text: &str) -> Option<Media> {
    STANDARD.decode(text.trim()).ok().map(|bytes| Media::from_bytes(kind, bytes))
}

fn article(kind: MediaKind) -> &'static str {
    if kind == MediaKind::Image { "an image" } else { "a sound" }
}
