//! Columns of images and sounds.

use std::sync::Arc;

use lmeval_media::from_text;
use lmeval_pycompat::{Dict, Media, MediaKind, Value, repr};

use crate::types::Type;

/// The kind of media of a feature's `_type`.
pub(crate) fn tagged(tag: &str) -> Option<MediaKind> {
    match tag {
        "Image" => Some(MediaKind::Image),
        "Audio" => Some(MediaKind::Audio),
        _ => None,
    }
}

/// The type of a column with the settings of its feature. One that is not decoded has objects with `bytes` and `path`.
pub(crate) fn column(kind: MediaKind, settings: &Value) -> Type {
    let setting = |name| settings.as_dict().and_then(|dict| dict.get_str(name));
    if setting("decode").is_some_and(|decode| !decode.is_truthy()) {
        return Type::Any;
    }
    let option = setting(option_of(kind)).filter(|value| !value.is_none());
    Type::Media(kind, option.map(|value| Arc::from(repr::str(value))))
}

fn option_of(kind: MediaKind) -> &'static str {
    if kind == MediaKind::Image { "mode" } else { "sampling_rate" }
}

/// The feature in the notation of the `datasets` library.
pub(crate) fn feature(kind: MediaKind, option: Option<&Arc<str>>) -> Value {
    let is_image = kind == MediaKind::Image;
    let option = match option {
        Some(rate) if !is_image => rate.parse().map_or(Value::None, Value::Int),
        Some(mode) => Value::Str(Arc::clone(mode)),
        None => Value::None,
    };
    let tag = Value::str(if is_image { "Image" } else { "Audio" });
    Value::dict([(option_of(kind), option), ("decode", Value::Bool(true)), ("_type", tag)])
}

/// Reads a stored value: an object with `bytes` or `path`, the bytes themselves, or a string with a path, a `data:`
/// address or Base64.
pub(crate) fn read(kind: MediaKind, option: Option<&Arc<str>>, value: Value) -> Result<Value, String> {
    let (media, name) = match &value {
        Value::Media(_) => return Ok(value),
        Value::Bytes(bytes) => (Media::from_bytes(kind, Arc::clone(bytes)), None),
        Value::Str(text) => (from_text(kind, text)?, None),
        Value::Dict(dict) => {
            let path = dict.get_str("path").and_then(Value::as_str);
            match (dict.get_str("bytes"), path) {
                (Some(Value::Bytes(bytes)), path) => {
                    (Media::from_bytes(kind, Arc::clone(bytes)), path.map(Arc::from))
                }
                (Some(Value::Str(text)), path) => (from_text(kind, text)?, path.map(Arc::from)),
                (_, Some(path)) => (from_text(kind, path)?, None),
                (_, None) if is_empty(dict) => return Ok(Value::None),
                _ => {
                    return Err(format!(
                        "cannot read an object without `bytes` and `path` as {}",
                        kind.name()
                    ));
                }
            }
        }
        other => return Err(format!("cannot read a value of type {} as {}", other.type_name(), kind.name())),
    };
    Ok(Value::Media(Arc::new(media.named(name).decoded_as(option.cloned()))))
}

/// Parquet stores a missing image as an object with empty fields.
fn is_empty(dict: &Dict) -> bool {
    ["bytes", "path"].iter().all(|name| dict.get_str(name).is_some_and(Value::is_none))
}
