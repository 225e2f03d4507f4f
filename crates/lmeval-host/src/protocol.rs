//! The wire protocol: frames of JSON.
//!
//! A frame is its length as eight big-endian bytes, followed by that many bytes of JSON. Values that JSON cannot
//! represent are objects with the key `$`; `python/lm_eval/_protocol.py` has the table.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lmeval_pycompat::datetime::{Date, DateTime};
use lmeval_pycompat::json::{self, Decoder};
use lmeval_pycompat::{Dict, Function, Media, MediaKind, Value};

/// The protocol version that both sides must use.
pub(crate) const VERSION: i64 = 1;

/// The maximum nesting depth; Python's parser does not go much deeper.
const MAX_DEPTH: usize = 400;

/// Longer frames are considered malformed.
const MAX_FRAME: u64 = 1 << 40;

/// The key of tagged values.
const TAG: &str = "$";

/// A value that cannot be transferred.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProtocolError {
    #[error("A value is nested more than {MAX_DEPTH} levels deep")]
    Depth,
    #[error("The worker sent a malformed message: {0}")]
    Malformed(String),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Appends a value as JSON.
pub(crate) fn encode(out: &mut String, value: &Value) -> Result<(), ProtocolError> {
    write_value(out, value, 0)
}

/// Appends a dictionary as JSON.
pub(crate) fn encode_dict(out: &mut String, dict: &Dict) -> Result<(), ProtocolError> {
    write_dict(out, dict, 0)
}

fn write_value(out: &mut String, value: &Value, depth: usize) -> Result<(), ProtocolError> {
    if depth > MAX_DEPTH {
        return Err(ProtocolError::Depth);
    }
    match value {
        Value::List(items) => write_items(out, items, depth)?,
        Value::Tuple(items) => write_tagged(out, "t", |out| write_items(out, items, depth))?,
        Value::Set(items) => write_tagged(out, "s", |out| write_items(out, items, depth))?,
        Value::Dict(dict) => write_dict(out, dict, depth)?,
        Value::Bytes(bytes) => write_tagged(out, "b", |out| {
            out.push('"');
            for byte in bytes.iter() {
                let _ = write!(out, "{byte:02x}");
            }
            out.push('"');
            Ok(())
        })?,
        Value::Date(date) => write_tagged(out, "D", |out| write_items(out, &date_fields(*date), depth))?,
        Value::DateTime(moment) => write_tagged(out, "T", |out| {
            let (hour, minute, second) = moment.time();
            let time = [hour.into(), minute.into(), second.into(), i64::from(moment.microsecond())];
            let mut fields = date_fields(moment.date());
            fields.extend(time.map(Value::Int));
            fields.push(moment.offset().map(i64::from).into());
            write_items(out, &fields, depth)
        })?,
        Value::Media(media) => write_tagged(out, "m", |out| write_media(out, media))?,
        Value::Function(function) => write_tagged(out, "f", |out| {
            let parts = [&function.directory, &function.reference].map(|part| Value::str(part.as_str()));
            write_items(out, &parts, depth)
        })?,
        plain => write_plain(out, plain)?,
    }
    Ok(())
}

/// Writes a file as its kind, its content, the name in the dataset, and how the column is decoded.
fn write_media(out: &mut String, media: &Media) -> Result<(), ProtocolError> {
    out.push_str("[\"");
    out.push_str(media.kind().name());
    out.push_str("\",\"");
    STANDARD.encode_string(media.bytes()?, out);
    out.push('"');
    for text in [media.name(), media.option().map(ToString::to_string)] {
        out.push(',');
        write_plain(out, &text.map_or(Value::None, Value::from))?;
    }
    out.push(']');
    Ok(())
}

fn read_media(fields: &[Value]) -> Option<Value> {
    let [kind, content, name, option] = fields else { return None };
    let bytes = STANDARD.decode(content.as_str()?).ok()?;
    let media = Media::from_bytes(MediaKind::from_name(kind.as_str()?)?, bytes);
    let text = |value: &Value| value.as_str().map(Arc::from);
    Some(Value::Media(Arc::new(media.named(text(name)).decoded_as(text(option)))))
}

fn date_fields(date: Date) -> Vec<Value> {
    [i64::from(date.year()), date.month().into(), date.day().into()].map(Value::Int).to_vec()
}

fn write_plain(out: &mut String, value: &Value) -> Result<(), ProtocolError> {
    let options = json::Options { ensure_ascii: false, ..json::Options::default() };
    json::write(out, value, &options).map_err(|error| ProtocolError::Malformed(error.to_string()))
}

fn write_tagged(
    out: &mut String,
    tag: &str,
    value: impl FnOnce(&mut String) -> Result<(), ProtocolError>,
) -> Result<(), ProtocolError> {
    out.push_str("{\"$\":\"");
    out.push_str(tag);
    out.push_str("\",\"v\":");
    value(out)?;
    out.push('}');
    Ok(())
}

fn write_items(out: &mut String, items: &[Value], depth: usize) -> Result<(), ProtocolError> {
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_value(out, item, depth + 1)?;
    }
    out.push(']');
    Ok(())
}

fn write_dict(out: &mut String, dict: &Dict, depth: usize) -> Result<(), ProtocolError> {
    if dict.keys().any(|key| key.as_str().is_none_or(|key| key == TAG)) {
        let pairs: Vec<Value> =
            dict.iter().map(|(key, value)| Value::list([key.clone(), value.clone()])).collect();
        return write_tagged(out, "d", |out| write_items(out, &pairs, depth + 1));
    }
    out.push('{');
    for (index, (key, value)) in dict.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_plain(out, key)?;
        out.push(':');
        write_value(out, value, depth + 1)?;
    }
    out.push('}');
    Ok(())
}

/// Parses the JSON of a frame.
pub(crate) fn decode(decoder: &mut Decoder, text: &str) -> Result<Value, ProtocolError> {
    let value = decoder.decode(text).map_err(|error| ProtocolError::Malformed(error.to_string()))?;
    // Few messages contain tagged values; others need no second pass.
    if text.contains("{\"$\":") { restore(&value) } else { Ok(value) }
}

fn restore(value: &Value) -> Result<Value, ProtocolError> {
    Ok(match value {
        Value::List(items) => Value::from(restore_all(items)?),
        Value::Dict(dict) => match (dict.get_str(TAG), dict.get_str("v")) {
            (Some(Value::Str(tag)), Some(inner)) => restore_tagged(tag, inner)?,
            _ => {
                let entries = dict.iter().map(|(key, value)| Ok((key.clone(), restore(value)?)));
                Value::from(entries.collect::<Result<Dict, ProtocolError>>()?)
            }
        },
        other => other.clone(),
    })
}

fn restore_all(items: &[Value]) -> Result<Vec<Value>, ProtocolError> {
    items.iter().map(restore).collect()
}

fn restore_tagged(tag: &str, inner: &Value) -> Result<Value, ProtocolError> {
    let malformed =
        || ProtocolError::Malformed(format!("`{tag}` with a value of type {}", inner.type_name()));
    if tag == "b" {
        let digits = inner.as_str().ok_or_else(malformed)?;
        return parse_hex(digits).map(|bytes| Value::Bytes(bytes.into())).ok_or_else(malformed);
    }
    let items = restore_all(inner.as_list().ok_or_else(malformed)?)?;
    let number = |index: usize| items.get(index).and_then(Value::as_i64);
    let field = |index: usize| number(index).and_then(|field| u32::try_from(field).ok());
    let date = || Date::new(field(0)?, field(1)?, field(2)?);
    match tag {
        "t" => Some(Value::Tuple(Arc::new(items))),
        "s" => Some(Value::set(items)),
        "d" => {
            let pair = |item: &Value| match item.as_list()? {
                [key, value] => Some((key.clone(), value.clone())),
                _ => None,
            };
            items.iter().map(pair).collect::<Option<Dict>>().map(Value::from)
        }
        "D" => date().map(Value::Date),
        "T" => {
            let moment = || {
                let time = (field(3)?, field(4)?, field(5)?);
                let offset = number(7).and_then(|offset| i32::try_from(offset).ok());
                DateTime::new(date()?, time, field(6)?, offset)
            };
            moment().map(Value::DateTime)
        }
        "m" => read_media(&items),
        "f" => match items.as_slice() {
            [Value::Str(directory), Value::Str(reference)] => {
                let (reference, directory) = (reference.to_string(), directory.to_string());
                Some(Value::Function(Arc::new(Function { reference, directory })))
            }
            _ => None,
        },
        _ => None,
    }
    .ok_or_else(malformed)
}

fn parse_hex(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| {
            let text = std::str::from_utf8(pair).ok().filter(|text| text.len() == 2)?;
            u8::from_str_radix(text, 16).ok()
        })
        .collect()
}

pub(crate) fn write_frame(to: &mut impl Write, body: &str) -> io::Result<()> {
    let mut frame = Vec::with_capacity(body.len() + 8);
    frame.extend_from_slice(&(body.len() as u64).to_be_bytes());
    frame.extend_from_slice(body.as_bytes());
    to.write_all(&frame)
}

pub(crate) fn read_frame(from: &mut impl Read) -> Result<String, ProtocolError> {
    let mut head = [0; 8];
    from.read_exact(&mut head)?;
    let length = u64::from_be_bytes(head);
    if length > MAX_FRAME {
        return Err(ProtocolError::Malformed(format!("a frame of {length} bytes")));
    }
    let mut body = Vec::new();
    if from.take(length).read_to_end(&mut body)? as u64 != length {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    String::from_utf8(body).map_err(|error| ProtocolError::Malformed(error.to_string()))
}

/// Appends a value as JSON on one line, without loss: tuples, bytes and dates are tagged objects. The message of an error
/// says why the value cannot be written.
pub fn encode_value(out: &mut String, value: &Value) -> Result<(), String> {
    encode(out, value).map_err(|error| error.to_string())
}

/// Parses what [`encode_value`] wrote.
pub fn decode_value(decoder: &mut Decoder, text: &str) -> Result<Value, String> {
    decode(decoder, text).map_err(|error| match error {
        ProtocolError::Malformed(message) => message,
        other => other.to_string(),
    })
}

/// Reads arbitrary frames, for tests and fuzz targets.
pub fn read_any(mut bytes: &[u8]) {
    let mut decoder = Decoder::new();
    while let Ok(body) = read_frame(&mut bytes) {
        if let Ok(value) = decode(&mut decoder, &body) {
            // Everything that was read can be encoded again, unless it is nested too deep.
            let _ = encode(&mut String::new(), &value);
        }
    }
}

/// Encodes a message without requests.
pub(crate) fn encode_message(operation: &str, parts: &Dict) -> Result<String, ProtocolError> {
    let mut message = Dict::new();
    message.insert("op", operation);
    message.update(parts);
    let mut text = String::new();
    encode_dict(&mut text, &message)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::repr::repr;

    use super::*;

    #[test]
    fn damaged_frames_do_not_panic() {
        let bodies = [
            r#"{"id": 3, "ok": [1, 2.5, NaN, "\u00e9", {"$": "t", "v": [1, {"$": "b", "v": "00ff"}]}]}"#,
            r#"[{"$": "D", "v": [2024, 2, 29]}, {"$": "T", "v": [2024, 2, 29, 23, 59, 59, 1, -3600]}]"#,
            r#"{"$": "d", "v": [[1, {"$": "s", "v": ["a"]}], ["b", {"$": "f", "v": ["dir", "utils.f"]}]]}"#,
        ];
        let mut frames = Vec::new();
        for body in bodies {
            write_frame(&mut frames, body).unwrap();
        }
        let alone: Vec<Vec<u8>> = bodies
            .iter()
            .map(|body| {
                let mut frame = Vec::new();
                write_frame(&mut frame, body).unwrap();
                frame
            })
            .collect();
        let samples = [frames.as_slice(), &alone[0], &alone[1], &alone[2]];
        lmeval_testkit::mutate(&samples, 1200, read_any);
        // The length in the head is right; the rest is damaged.
        lmeval_testkit::mutate(&bodies.map(str::as_bytes), 1200, |body| {
            if let Ok(body) = str::from_utf8(body) {
                let mut frame = Vec::new();
                write_frame(&mut frame, body).unwrap();
                read_any(&frame);
            }
        });
    }

    fn round(value: &Value) -> Value {
        let mut text = String::new();
        encode(&mut text, value).unwrap();
        decode(&mut Decoder::new(), &text).unwrap()
    }

    #[test]
    fn tags_values_json_cannot_hold() {
        let dict: Dict = [(Value::Int(1), Value::None), (Value::tuple([Value::Int(2)]), Value::Float(-0.0))]
            .into_iter()
            .collect();
        let value = Value::list([
            Value::tuple([Value::Float(f64::INFINITY), Value::Bool(true)]),
            Value::Bytes(vec![0, 255].into()),
            Value::Media(Arc::new(
                Media::from_bytes(MediaKind::Image, vec![0, 255, 7]).named(Some("a.png".into())),
            )),
            Value::from(dict),
            Value::dict([("$", Value::str("t")), ("v", Value::list([]))]),
            Value::set([Value::Int(1), Value::str("a")]),
        ]);
        assert_eq!(repr(&round(&value)), repr(&value));
    }

    #[test]
    fn malformed_values_are_errors() {
        for text in ["", "{\"$\":\"q\",\"v\":[]}", "{\"$\":\"t\",\"v\":1}", "{\"$\":\"D\",\"v\":[1]}"] {
            assert!(decode(&mut Decoder::new(), text).is_err(), "{text}");
        }
        let mut deep = Value::None;
        for _ in 0..1000 {
            deep = Value::list([deep]);
        }
        assert!(matches!(encode(&mut String::new(), &deep), Err(ProtocolError::Depth)));
        assert!(read_frame(&mut &[0_u8, 0, 0, 0, 0, 0, 0, 9, 1][..]).is_err());
        assert!(read_frame(&mut &[255_u8; 9][..]).is_err());
    }
}
