//! Images and sounds in chat messages.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lmeval_core::{Diagnose as _, ModelError, ModelErrorKind, ModelRequest};
use lmeval_media::{Bounds, Format, MediaError, as_png, as_wav, data_url, oriented, resized};
use lmeval_pycompat::{Dict, Media, MediaKind, Value, repr};

const IMAGE: &str = "<image>";
const AUDIO: &str = "<audio>";

/// Where the images and sounds of a request are put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Before the text of the last message, which keeps its placeholders. Reference: `local-chat-completions`.
    Before,
    /// In place of the placeholders. Reference: `vllm-vlm`.
    Interleaved,
    /// Before the text of the last message; no message keeps placeholders. Reference: `vllm-vlm` with `interleave=False`.
    Stripped,
}

/// How images and sounds are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MediaRules {
    /// The most images of one request; later ones are left out.
    pub(crate) max_images: usize,
    pub(crate) placement: Placement,
    /// The size in which images are sent.
    pub(crate) bounds: Bounds,
}

/// Whether a request has images or sounds.
pub(super) fn has_media(additional: Option<&Arc<Dict>>) -> bool {
    let is_given = |name: &str| additional.and_then(|dict| dict.get_str(name)).is_some_and(Value::is_truthy);
    is_given("visual") || is_given("audio")
}

/// The error of a log-likelihood after images or sounds, which no protocol of servers has.
pub(super) fn scores_no_media() -> ModelError {
    ModelError::new(
        ModelErrorKind::Unsupported,
        "Log-likelihoods after images or sounds are not available on servers",
    )
    .hint("Use `--choices letters` or `--choices generate` with a chat server, or a task that generates")
}

/// The messages with the images and sounds of a request as parts of their content.
pub(super) fn with_media(messages: Value, additional: &Dict, rules: MediaRules) -> Result<Value, ModelError> {
    let images = files(additional, "visual", rules.max_images, |image| image_part(image, rules.bounds))?;
    let sounds = files(additional, "audio", usize::MAX, sound_part)?;
    if images.is_empty() && sounds.is_empty() {
        return Ok(messages);
    }
    let mut messages = messages.as_list().unwrap_or_default().to_vec();
    let Some(last) = messages.last().and_then(Value::as_dict).cloned() else {
        return Err(ModelError::new(ModelErrorKind::Request, "There is no message to add the images to"));
    };
    match rules.placement {
        Placement::Before | Placement::Stripped => {
            let parts = images.into_iter().chain(sounds).collect();
            let count = messages.len();
            messages[count - 1] = before(last, parts);
            if rules.placement == Placement::Stripped {
                change_texts(&mut messages, |text| text.replace(IMAGE, "").replace(AUDIO, ""));
            }
        }
        Placement::Interleaved => {
            // Reference: the images of a message after the first ones leave no trace in it.
            change_texts(&mut messages, |text| first_marks(text, rules.max_images));
            interleave(&mut messages, images, sounds);
        }
    }
    Ok(Value::list(messages))
}

/// Changes the texts of messages, alone or as parts.
fn change_texts(messages: &mut [Value], change: impl Fn(&str) -> String) {
    let changed = |mut dict: Dict, name: &str| {
        let text = dict.get_str(name).and_then(Value::as_str).map(&change);
        if let Some(text) = text {
            dict.insert(name, text);
        }
        dict
    };
    for message in messages {
        let Some(dict) = message.as_dict() else { continue };
        let mut dict = changed(dict.clone(), "content");
        if let Some(parts) = dict.get_str("content").and_then(Value::as_list) {
            let part = |part: &Value| match part.as_dict() {
                Some(part) => Value::from(changed(part.clone(), "text")),
                None => part.clone(),
            };
            let parts = Value::list(parts.iter().map(part));
            dict.insert("content", parts);
        }
        *message = Value::from(dict);
    }
}

/// A text with its first placeholders of images alone.
fn first_marks(text: &str, count: usize) -> String {
    let mut marks = 0;
    let mut kept = String::with_capacity(text.len());
    for (index, part) in text.split(IMAGE).enumerate() {
        if index > 0 && marks < count {
            kept.push_str(IMAGE);
            marks += 1;
        }
        kept.push_str(part);
    }
    kept
}

/// Puts parts before the content of a message.
fn before(mut message: Dict, mut parts: Vec<Value>) -> Value {
    match message.get_str("content") {
        Some(Value::List(content)) => parts.extend(content.iter().cloned()),
        content => parts.push(text_part(content.cloned().unwrap_or(Value::None))),
    }
    message.insert("content", Value::list(parts));
    message.remove_str("type");
    Value::Dict(Arc::new(message))
}

/// Replaces placeholders by images and sounds: those of all messages if there are as many as files, otherwise those of the last
/// message, since examples have no files of their own. Files without a placeholder go before the last message's text, and
/// placeholders without a file stay.
fn interleave(messages: &mut [Value], images: Vec<Value>, sounds: Vec<Value>) {
    let content = |message: &Value| message.as_dict()?.get_str("content")?.as_str().map(str::to_owned);
    let found: Vec<String> = messages.iter().filter_map(&content).collect();
    let count = |mark: &str| found.iter().map(|text| text.matches(mark).count()).sum::<usize>();
    let last = messages.len() - 1;
    let is_exact = count(IMAGE) == images.len() && count(AUDIO) == sounds.len();
    let first = if is_exact { 0 } else { last };
    let own = |mark: &str| content(&messages[last]).map_or(0, |text| text.matches(mark).count());
    let surplus =
        |files: &[Value], mark: &str| if is_exact { 0 } else { files.len().saturating_sub(own(mark)) };
    let (extra_images, extra_sounds) = (surplus(&images, IMAGE), surplus(&sounds, AUDIO));
    let (mut images, mut sounds) = (images.into_iter(), sounds.into_iter());
    let mut leading: Vec<Value> = images.by_ref().take(extra_images).collect();
    leading.extend(sounds.by_ref().take(extra_sounds));
    for (index, message) in messages.iter_mut().enumerate().skip(first) {
        let Some(dict) = message.as_dict() else { continue };
        let mut dict = dict.clone();
        let mut parts = if index == last { std::mem::take(&mut leading) } else { Vec::new() };
        match dict.get_str("content") {
            Some(Value::Str(text)) => split(text, &mut parts, &mut images, &mut sounds),
            Some(Value::List(content)) => parts.extend(content.iter().cloned()),
            _ => continue,
        }
        let is_text = parts.iter().all(is_text);
        if is_text && index != last {
            // Nothing to show in this message.
            continue;
        }
        dict.insert("content", Value::list(parts));
        dict.remove_str("type");
        *message = Value::Dict(Arc::new(dict));
    }
}

/// Splits a text at its placeholders.
fn split(
    text: &str,
    parts: &mut Vec<Value>,
    images: &mut impl Iterator<Item = Value>,
    sounds: &mut impl Iterator<Item = Value>,
) {
    let mut kept = String::new();
    let mut rest = text;
    let next = |rest: &str| {
        let marks = [IMAGE, AUDIO].into_iter().filter_map(|mark| Some((rest.find(mark)?, mark)));
        marks.min()
    };
    while let Some((position, mark)) = next(rest) {
        kept.push_str(&rest[..position]);
        rest = &rest[position + mark.len()..];
        let file = if mark == IMAGE { images.next() } else { sounds.next() };
        match file {
            None => kept.push_str(mark),
            Some(file) => {
                if !kept.is_empty() {
                    parts.push(text_part(Value::from(std::mem::take(&mut kept))));
                }
                parts.push(file);
            }
        }
    }
    kept.push_str(rest);
    if !kept.is_empty() || parts.is_empty() {
        parts.push(text_part(Value::from(kept)));
    }
}

fn is_text(part: &Value) -> bool {
    part.as_dict().and_then(|dict| dict.get_str("type")?.as_str()) == Some("text")
}

fn text_part(text: Value) -> Value {
    Value::dict([("type", Value::str("text")), ("text", text)])
}

/// The files of a request as parts of a message.
fn files(
    additional: &Dict,
    name: &str,
    limit: usize,
    part: impl Fn(&Value) -> Result<Value, ModelError>,
) -> Result<Vec<Value>, ModelError> {
    let Some(files) = additional.get_str(name).filter(|files| files.is_truthy()) else {
        return Ok(Vec::new());
    };
    match files {
        Value::List(list) | Value::Tuple(list) => list.iter().take(limit).map(part).collect(),
        single if limit > 0 => Ok(vec![part(single)?]),
        _ => Ok(Vec::new()),
    }
}

fn image_part(image: &Value, bounds: Bounds) -> Result<Value, ModelError> {
    let url = match image {
        // The server reads it, in the size that it has.
        Value::Str(text) if text.starts_with("http://") || text.starts_with("https://") => text.to_string(),
        other => image_url(file(other, MediaKind::Image)?.as_ref(), bounds)?,
    };
    let url = Value::dict([("url", Value::str(url)), ("detail", Value::str("auto"))]);
    Ok(Value::dict([("type", Value::str("image_url")), ("image_url", url)]))
}

/// The address of an image: the file as it is if it is small enough and servers take its format, otherwise as PNG.
fn image_url(image: &Media, bounds: Bounds) -> Result<String, ModelError> {
    let unusable = |error: MediaError| unusable(image, &error);
    if bounds != Bounds::default()
        && let Some(smaller) = resized(image, bounds).map_err(unusable)?
    {
        return Ok(data_url(Format::Png, &smaller));
    }
    let bytes = image.bytes().map_err(|error| unusable(error.into()))?;
    let format = format(image.kind(), &bytes)?;
    // Reference: a rotated photograph is turned upright when it is read, and few servers do that.
    let is_taken = matches!(format, Format::Png | Format::Jpeg | Format::Gif | Format::WebP);
    if is_taken && !oriented(&bytes) {
        return Ok(data_url(format, &bytes));
    }
    Ok(data_url(Format::Png, &as_png(&bytes).map_err(unusable)?))
}

/// A sound as WAV or MP3, the formats of OpenAI's interface: as it is, or as WAV.
fn sound_part(sound: &Value) -> Result<Value, ModelError> {
    let sound = file(sound, MediaKind::Audio)?;
    let unusable = |error: MediaError| unusable(&sound, &error);
    let bytes = sound.bytes().map_err(|error| unusable(error.into()))?;
    let format = format(sound.kind(), &bytes)?;
    let is_taken = matches!(format, Format::Wav | Format::Mp3) && sound.kind() == MediaKind::Audio;
    let (format, content) = if is_taken {
        (format, STANDARD.encode(&bytes))
    } else {
        (Format::Wav, STANDARD.encode(as_wav(&bytes).map_err(unusable)?))
    };
    let content = Value::dict([("data", Value::from(content)), ("format", Value::str(format.name()))]);
    Ok(Value::dict([("type", Value::str("input_audio")), ("input_audio", content)]))
}

/// The format of a file, which was checked when the request was built.
fn format(kind: MediaKind, bytes: &[u8]) -> Result<Format, ModelError> {
    let is_image = kind == MediaKind::Image;
    let what = if is_image { "images" } else { "sounds" };
    Format::of(bytes)
        .filter(|format| format.is_image() == is_image)
        .ok_or_else(|| unsupported(kind, &MediaError::Unknown { kind: what, bytes: bytes.len() }))
}

/// A file given as such, as bytes, Base64, a `data:` address, or a dictionary with `bytes`.
fn file(value: &Value, kind: MediaKind) -> Result<Arc<Media>, ModelError> {
    let refused = |what: &str| unsupported(kind, &format_args!("{what} instead of a file"));
    let of_text = |text: &str| {
        let text = text
            .strip_prefix("data:")
            .and_then(|rest| rest.split_once(";base64,"))
            .map_or(text, |(_, rest)| rest);
        STANDARD.decode(text.trim()).map_err(|_| refused("a string that is not Base64"))
    };
    let bytes: Arc<[u8]> = match value {
        Value::Media(media) => return Ok(Arc::clone(media)),
        Value::Bytes(bytes) => Arc::clone(bytes),
        Value::Str(text) => of_text(text)?.into(),
        Value::Dict(dict) => match dict.get_str("bytes") {
            Some(bytes) if !bytes.is_none() => return file(bytes, kind),
            _ => return Err(refused("a dictionary without `bytes`")),
        },
        other => return Err(refused(&format!("a value of type {}", other.type_name()))),
    };
    Ok(Arc::new(Media::from_bytes(kind, bytes)))
}

/// The error of a file with the document that has it, and its columns with files.
pub(super) fn in_document(error: &ModelError, request: &ModelRequest) -> ModelError {
    let columns = request.document.iter().flat_map(|document| document.iter());
    let names: Vec<String> = columns
        .filter(|(_, value)| has_file(value))
        .map(|(name, _)| format!("`{}`", repr::str(name)))
        .collect();
    let columns = match names.as_slice() {
        [] => String::new(),
        [one] => format!(", column {one}"),
        several => format!(", columns {}", several.join(", ")),
    };
    let place = format!("`{}`, document {}{columns}", request.task_name, request.doc_id);
    let located = ModelError::new(error.kind(), format!("{place}: {error}")).about(&place);
    error.hints().into_iter().fold(located, ModelError::hint)
}

fn has_file(value: &Value) -> bool {
    match value {
        Value::Media(_) => true,
        Value::List(items) | Value::Tuple(items) => items.iter().any(has_file),
        Value::Dict(dict) => dict.values().any(has_file),
        _ => false,
    }
}

/// The error of a file that cannot be converted.
fn unusable(media: &Media, error: &MediaError) -> ModelError {
    let what = if media.kind() == MediaKind::Image { "image" } else { "sound" };
    let name = media.name().map_or_else(String::new, |name| format!(" `{name}`"));
    ModelError::new(ModelErrorKind::Unsupported, format!("The {what}{name} cannot be sent: {error}"))
        .hint(error.hint())
}

fn unsupported(kind: MediaKind, reason: &dyn std::fmt::Display) -> ModelError {
    let what = if kind == MediaKind::Image { "image" } else { "sound" };
    ModelError::new(ModelErrorKind::Unsupported, format!("The {what} cannot be sent: {reason}"))
        .hint("Images are PNG, JPEG, GIF, WebP, BMP or TIFF files, and sounds WAV, MP3, FLAC or Ogg files with Vorbis or Opus, given as files, bytes or Base64")
}

impl Placement {
    /// The placement of the argument `interleave`.
    pub(crate) fn of_argument(interleave: Option<bool>) -> Self {
        match interleave {
            None => Self::Before,
            Some(true) => Self::Interleaved,
            Some(false) => Self::Stripped,
        }
    }
}

/// A part of a message of OpenAI's interface as Anthropic's.
pub(super) fn anthropic_part(part: &Value) -> Result<Value, ModelError> {
    let refused = |what: &str| {
        ModelError::new(ModelErrorKind::Unsupported, format!("Anthropic's interface does not take {what}"))
            .hint("Use a backend with an OpenAI-compatible interface")
    };
    let dict = part.as_dict().ok_or_else(|| refused("this content"))?;
    match dict.get_str("type").and_then(Value::as_str) {
        Some("text") => Ok(part.clone()),
        Some("image_url") => {
            let url = dict.get_str("image_url").and_then(|image| image.as_dict()?.get_str("url")?.as_str());
            let url = url.ok_or_else(|| refused("an image without an address"))?;
            let source = match url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
                Some((media_type, content)) => Value::dict([
                    ("type", Value::str("base64")),
                    ("media_type", Value::str(media_type)),
                    ("data", Value::str(content)),
                ]),
                None => Value::dict([("type", Value::str("url")), ("url", Value::str(url))]),
            };
            Ok(Value::dict([("type", Value::str("image")), ("source", source)]))
        }
        _ => Err(refused("sounds")),
    }
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::json;

    use super::*;

    /// A PNG file with one pixel.
    const PIXEL: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==";

    fn shown(text: &str, additional: &[(&str, Vec<Value>)], placement: Placement, limit: usize) -> String {
        let messages = json::loads(text).unwrap();
        let additional: Dict =
            additional.iter().map(|(name, files)| (Value::str(*name), Value::list(files.clone()))).collect();
        let rules = MediaRules { max_images: limit, placement, bounds: Bounds::default() };
        match with_media(messages, &additional, rules) {
            Ok(value) => json::dumps(&value, &json::Options::default()).unwrap().replace(PIXEL, "PIXEL"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn places_files() {
        let png = Value::str(PIXEL);
        let image =
            r#"{"type": "image_url", "image_url": {"url": "data:image/png;base64,PIXEL", "detail": "auto"}}"#;
        let text = r#"[{"role": "user", "content": "<image> what? <image>", "type": "text"}]"#;
        let two = [("visual", vec![png.clone(), png.clone()])];
        assert_eq!(
            shown(text, &two, Placement::Before, 1),
            format!(
                r#"[{{"role": "user", "content": [{image}, {{"type": "text", "text": "<image> what? <image>"}}]}}]"#
            )
        );
        assert_eq!(
            shown(text, &two, Placement::Stripped, 9),
            format!(
                r#"[{{"role": "user", "content": [{image}, {image}, {{"type": "text", "text": " what? "}}]}}]"#
            )
        );
        assert_eq!(
            shown(text, &two, Placement::Interleaved, 9),
            format!(
                r#"[{{"role": "user", "content": [{image}, {{"type": "text", "text": " what? "}}, {image}]}}]"#
            )
        );
        // The placeholder of an image that is left out goes with it.
        assert_eq!(
            shown(text, &two, Placement::Interleaved, 1),
            format!(r#"[{{"role": "user", "content": [{image}, {{"type": "text", "text": " what? "}}]}}]"#)
        );
        // A placeholder without a file stays, a file without a placeholder comes first.
        let shots = r#"[{"role": "user", "content": "a <image>"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c <image>"}]"#;
        let one = [("visual", vec![png.clone()])];
        assert_eq!(
            shown(shots, &one, Placement::Interleaved, 9),
            format!(
                r#"[{{"role": "user", "content": "a <image>"}}, {{"role": "assistant", "content": "b"}}, {{"role": "user", "content": [{{"type": "text", "text": "c "}}, {image}]}}]"#
            )
        );
        assert_eq!(
            shown(shots, &one, Placement::Stripped, 9),
            format!(
                r#"[{{"role": "user", "content": "a "}}, {{"role": "assistant", "content": "b"}}, {{"role": "user", "content": [{image}, {{"type": "text", "text": "c "}}]}}]"#
            )
        );
        assert_eq!(shown(text, &[("visual", vec![])], Placement::Before, 9), text);
    }

    #[test]
    fn sends_sounds() {
        let samples = [
            b"RIFF\x26\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0\0\x7d\0\0\x02\0\x10\0data\x02\0\0\0"
                .as_slice(),
            &[1, 2],
        ]
        .concat();
        let text = r#"[{"role": "user", "content": "<audio> what?"}]"#;
        let kept =
            shown(text, &[("audio", vec![Value::Bytes(samples.clone().into())])], Placement::Interleaved, 9);
        let content = STANDARD.encode(&samples);
        assert_eq!(
            kept,
            format!(
                r#"[{{"role": "user", "content": [{{"type": "input_audio", "input_audio": {{"data": "{content}", "format": "wav"}}}}, {{"type": "text", "text": " what?"}}]}}]"#
            )
        );
        let made = Media::from_bytes(MediaKind::Samples, samples);
        let again = shown(text, &[("audio", vec![Value::Media(Arc::new(made))])], Placement::Interleaved, 9);
        assert_eq!(again, kept);
    }

    #[test]
    fn refuses_what_is_no_file() {
        let text = r#"[{"role": "user", "content": "a"}]"#;
        let refused = |value| shown(text, &[("visual", vec![value])], Placement::Before, 9);
        assert_eq!(
            refused(Value::Bytes([1, 2].as_slice().into())),
            "The image cannot be sent: the 2 bytes are in no known format for images"
        );
        assert_eq!(refused(Value::Int(1)), "The image cannot be sent: a value of type int instead of a file");
    }
}
