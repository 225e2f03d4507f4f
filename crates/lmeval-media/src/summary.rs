//! Files in text: what samples and previews show, and addresses with the content.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lmeval_pycompat::{Media, Value};

use crate::facts::facts;
use crate::format::Format;

/// What samples and previews have in place of a file: its kind with the SHA-256, the format, and the size.
pub fn summary(media: &Media) -> Value {
    let kind = if media.kind() == lmeval_pycompat::MediaKind::Image { "image" } else { "audio" };
    let mut entries = vec![(kind, Value::from(format!("sha256:{}", media.digest_text())))];
    if let Ok(facts) = facts(media) {
        entries.push(("format", Value::str(facts.format.name())));
        if let Some((width, height)) = facts.size {
            entries.push(("width", Value::Int(width.into())));
            entries.push(("height", Value::Int(height.into())));
        }
        entries.push(("bytes", Value::Int(facts.bytes as i64)));
    }
    Value::dict(entries)
}

/// A `data:` address with a file.
pub fn data_url(format: Format, bytes: &[u8]) -> String {
    let mut url = format!("data:{};base64,", format.media_type());
    STANDARD.encode_string(bytes, &mut url);
    url
}
