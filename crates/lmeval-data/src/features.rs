//! Column types declared in a README under `dataset_info`.

use std::sync::Arc;

use lmeval_pycompat::{Dict, MediaKind, Value, repr};

use crate::media;
use crate::types::{Fields, Schema, Type};

/// Parses a list of `{name, dtype | struct | list | sequence}`; `None` if it is invalid.
pub(crate) fn schema(features: &Value) -> Option<Schema> {
    fields(features).map(Schema::new)
}

fn fields(features: &Value) -> Option<Fields> {
    features
        .as_list()?
        .iter()
        .map(|feature| {
            let dict = feature.as_dict()?;
            Some((Arc::from(repr::str(dict.get_str("name")?)), kind(feature)?))
        })
        .collect()
}

fn kind(feature: &Value) -> Option<Type> {
    let dict = feature.as_dict()?;
    if let Some(dtype) = dict.get_str("dtype") {
        return match dtype {
            Value::Str(name) => Some(named(name)),
            Value::Dict(_) => class_label(dtype),
            _ => None,
        };
    }
    if let Some(inner) = dict.get_str("struct") {
        return fields(inner).map(Type::Struct);
    }
    if let Some(inner) = dict.get_str("list").or_else(|| dict.get_str("large_list")) {
        return item(inner).map(|item| Type::List(Box::new(item)));
    }
    let inner = dict.get_str("sequence")?;
    // Reference: a sequence of records is a record of lists.
    match item(inner)? {
        Type::Struct(fields) => {
            let lists = fields.into_iter().map(|(name, kind)| (name, Type::List(Box::new(kind))));
            Some(Type::Struct(lists.collect()))
        }
        item => Some(Type::List(Box::new(item))),
    }
}

fn item(inner: &Value) -> Option<Type> {
    match inner {
        Value::Str(name) => Some(named(name)),
        Value::List(_) => fields(inner).map(Type::Struct),
        Value::Dict(_) => kind(inner).or_else(|| class_label(inner)),
        _ => None,
    }
}

fn named(name: &str) -> Type {
    match name {
        "null" => Type::Null,
        "bool" => Type::Bool,
        "int8" | "int16" | "int32" | "int64" | "uint8" | "uint16" | "uint32" | "uint64" => Type::Int,
        "float64" | "double" => Type::Float,
        "float32" | "float" => Type::Float32,
        "string" | "large_string" | "string_view" => Type::Str,
        "timestamp[s]" | "timestamp[ms]" | "timestamp[us]" | "timestamp[ns]" => Type::Timestamp,
        "json" => Type::Json,
        "image" => Type::Media(MediaKind::Image, None),
        "audio" => Type::Media(MediaKind::Audio, None),
        _ => Type::Any,
    }
}

/// Parses `{image: {mode: RGB}}`, `{audio: {sampling_rate: 16000}}`, and
/// `{class_label: {names: {'0': a, '1': b}}}`, with the names as a map or a list.
fn class_label(dtype: &Value) -> Option<Type> {
    for (name, kind) in [("image", MediaKind::Image), ("audio", MediaKind::Audio)] {
        if let Some(settings) = dtype.as_dict()?.get_str(name) {
            return Some(media::column(kind, settings));
        }
    }
    let Some(label) = dtype.as_dict()?.get_str("class_label") else {
        return Some(Type::Any);
    };
    let names: Vec<Arc<str>> = match label.as_dict()?.get_str("names")? {
        Value::List(names) => names.iter().map(|name| Arc::from(repr::str(name))).collect(),
        Value::Dict(names) => names.values().map(|name| Arc::from(repr::str(name))).collect(),
        _ => return None,
    };
    Some(Type::ClassLabel(names.into()))
}

/// The column types in the notation of the `datasets` library.
pub(crate) fn written(schema: &Schema) -> Dict {
    schema.columns.iter().map(|(name, kind)| (Value::Str(Arc::clone(name)), feature(kind))).collect()
}

fn feature(kind: &Type) -> Value {
    let value = |dtype: &str| Value::dict([("dtype", Value::str(dtype)), ("_type", Value::str("Value"))]);
    match kind {
        Type::Null | Type::Any => value("null"),
        Type::Bool => value("bool"),
        Type::Int => value("int64"),
        Type::Float => value("float64"),
        Type::Float32 => value("float32"),
        Type::Str => value("string"),
        Type::Timestamp => value("timestamp[s]"),
        Type::Json => value("json"),
        Type::ClassLabel(names) => Value::dict([
            ("names", Value::list(names.iter().map(|name| Value::Str(Arc::clone(name))))),
            ("_type", Value::str("ClassLabel")),
        ]),
        Type::Media(kind, option) => media::feature(*kind, option.as_ref()),
        Type::List(item) => Value::dict([("feature", feature(item)), ("_type", Value::str("List"))]),
        Type::Struct(fields) => {
            Value::dict(fields.iter().map(|(name, kind)| (name.to_string(), feature(kind))))
        }
    }
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::yaml;

    use super::*;

    #[test]
    fn parses_declared_types() {
        let text = "
- name: a
  dtype: int64
- name: b
  sequence: string
- name: c
  sequence:
  - name: d
    dtype: float32
- name: e
  dtype:
    class_label:
      names:
        '0': neg
        '1': pos
- name: f
  struct:
  - name: g
    list: timestamp[s]
- name: h
  dtype: image
- name: i
  list:
  - name: j
    dtype: bool
- name: k
  dtype:
    audio:
      sampling_rate: 16000
";
        let schema = schema(&yaml::load(text).unwrap().value).unwrap();
        let kinds: Vec<Type> = schema.columns.into_iter().map(|(_, kind)| kind).collect();
        let list = |kind| Type::List(Box::new(kind));
        assert_eq!(
            kinds[..3],
            [Type::Int, list(Type::Str), Type::Struct(vec![("d".into(), list(Type::Float32))])]
        );
        assert_eq!(kinds[3], Type::ClassLabel(["neg".into(), "pos".into()].into()));
        assert_eq!(kinds[7], Type::Media(MediaKind::Audio, Some("16000".into())));
        assert_eq!(
            repr::repr(&feature(&kinds[7])),
            "{'sampling_rate': 16000, 'decode': True, '_type': 'Audio'}"
        );
        assert_eq!(kinds[3].convert(Value::str("pos")), Ok(Value::Int(1)));
        assert_eq!(kinds[4], Type::Struct(vec![("g".into(), list(Type::Timestamp))]));
        assert_eq!(repr::repr(&feature(&kinds[3])), "{'names': ['neg', 'pos'], '_type': 'ClassLabel'}");
        assert_eq!(kinds[5], Type::Media(MediaKind::Image, None));
        assert_eq!(kinds[6], list(Type::Struct(vec![("j".into(), Type::Bool)])));
    }
}
