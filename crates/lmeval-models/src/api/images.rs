//! Images in chat messages.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lmeval_core::{ModelError, ModelErrorKind};
use lmeval_pycompat::{Dict, Value};

/// Whether a request has images or audio.
pub(super) fn has_media(additional: Option<&Arc<Dict>>) -> bool {
    let is_given = |name: &str| additional.and_then(|dict| dict.get_str(name)).is_some_and(Value::is_truthy);
    is_given("visual") || is_given("audio")
}

/// Inserts up to `limit` images of a request's `visual` before the text of the last message.
pub(super) fn with_images(messages: Value, additional: &Dict, limit: usize) -> Result<Value, ModelError> {
    if additional.get_str("audio").is_some_and(Value::is_truthy) {
        return Err(ModelError::new(ModelErrorKind::Unsupported, "Audio cannot be sent to servers"));
    }
    let Some(images) = additional.get_str("visual").filter(|images| images.is_truthy()) else {
        return Ok(messages);
    };
    let images: Vec<Value> = match images {
        Value::List(list) | Value::Tuple(list) => list.to_vec(),
        single => vec![single.clone()],
    };
    let mut messages = messages.as_list().unwrap_or_default().to_vec();
    let Some(last) = messages.last().and_then(Value::as_dict).cloned() else {
        return Err(ModelError::new(ModelErrorKind::Request, "There is no message to add the images to"));
    };
    let mut parts = images.iter().take(limit).map(part).collect::<Result<Vec<Value>, ModelError>>()?;
    match last.get_str("content") {
        Some(Value::List(content)) => parts.extend(content.iter().cloned()),
        content => parts.push(Value::dict([
            ("type", Value::str("text")),
            ("text", content.cloned().unwrap_or(Value::None)),
        ])),
    }
    let mut last = last;
    last.insert("content", Value::list(parts));
    last.remove_str("type");
    messages.pop();
    messages.push(Value::Dict(Arc::new(last)));
    Ok(Value::list(messages))
}

fn part(image: &Value) -> Result<Value, ModelError> {
    let url = Value::dict([("url", Value::str(address(image)?)), ("detail", Value::str("auto"))]);
    Ok(Value::dict([("type", Value::str("image_url")), ("image_url", url)]))
}

/// The `data:` URL of an image given as bytes, Base64, or a dictionary with `bytes`.
fn address(image: &Value) -> Result<String, ModelError> {
    let bytes = match image {
        Value::Bytes(bytes) => bytes.to_vec(),
        Value::Str(text) if text.starts_with("data:image/") => return Ok(text.to_string()),
        Value::Str(text) => {
            STANDARD.decode(text.trim()).map_err(|_| unsupported("a string that is not Base64"))?
        }
        Value::Dict(dict) => match dict.get_str("bytes") {
            Some(bytes) if !bytes.is_none() => return address(bytes),
            _ => return Err(unsupported("a dictionary without `bytes`")),
        },
        other => return Err(unsupported(other.type_name())),
    };
    let kind = match bytes.as_slice() {
        [0x89, b'P', b'N', b'G', ..] => "png",
        [0xff, 0xd8, 0xff, ..] => "jpeg",
        _ => return Err(unsupported("a file that is neither PNG nor JPEG")),
    };
    Ok(format!("data:image/{kind};base64,{}", STANDARD.encode(bytes)))
}

fn unsupported(what: &str) -> ModelError {
    ModelError::new(ModelErrorKind::Unsupported, format!("Unsupported image: {what}")).hint(
        "Images must be PNG or JPEG files, given as bytes, a Base64 string, or a dictionary with `bytes`",
    )
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::json;

    use super::*;

    #[test]
    fn inserts_images_before_the_text() {
        let png = Value::Bytes([0x89, b'P', b'N', b'G', 1, 2].as_slice().into());
        let jpeg = Value::dict([("bytes", Value::str(STANDARD.encode([0xff, 0xd8, 0xff, 0])))]);
        let messages =
            json::loads(r#"[{"role": "user", "content": "<image> what?", "type": "text"}]"#).unwrap();
        let show = |images: Vec<Value>, limit| {
            let mut additional = Dict::new();
            additional.insert("visual", Value::list(images));
            with_images(messages.clone(), &additional, limit)
                .map(|value| json::dumps(&value, &json::Options::default()).unwrap())
        };
        assert_eq!(
            show(vec![png.clone(), jpeg.clone()], 1).unwrap(),
            r#"[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORwEC", "detail": "auto"}}, {"type": "text", "text": "<image> what?"}]}]"#
        );
        assert!(show(vec![png, jpeg], 2).unwrap().contains("data:image/jpeg;base64,/9j/AA=="));
        let error = show(vec![Value::Bytes([1, 2].as_slice().into())], 1).unwrap_err();
        assert_eq!(error.to_string(), "Unsupported image: a file that is neither PNG nor JPEG");
    }
}
