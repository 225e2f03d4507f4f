//! Access to recordings.

use std::path::Path;

use lmeval_pycompat::{Value, json};

/// Loads a file below the folder `tests` of the repository.
pub(crate) fn load(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests").join(name);
    let text = String::from_utf8(read(&path)).unwrap();
    json::loads(&text).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the path is in the message")]
fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The recording of one kind from CPython.
pub(crate) fn python(name: &str) -> Value {
    load(&format!("vectors/python_{name}.json"))
}

/// The value of a key.
pub(crate) fn get<'a>(value: &'a Value, key: &str) -> &'a Value {
    value.as_dict().and_then(|dict| dict.get_str(key)).unwrap_or_else(|| panic!("no `{key}`"))
}

/// The items of a list.
pub(crate) fn items(value: &Value) -> &[Value] {
    value.as_list().unwrap()
}

/// The content of a string.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// A non-negative integer.
pub(crate) fn size(value: &Value) -> usize {
    usize::try_from(value.as_i64().unwrap()).unwrap()
}
