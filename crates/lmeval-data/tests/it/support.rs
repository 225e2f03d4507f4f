//! Test helpers.

use std::path::Path;

use lmeval_core::DatasetRequest;
use lmeval_data::{DatasetDict, Error, Settings, Split, load};
use lmeval_pycompat::repr::repr;
use lmeval_pycompat::{Dict, Value};

/// Writes a file and creates its folders.
pub(crate) fn write(folder: &Path, path: &str, content: impl AsRef<[u8]>) {
    let path = folder.join(path);
    fs_err::create_dir_all(path.parent().unwrap()).unwrap();
    fs_err::write(path, content).unwrap();
}

/// Settings without access to a hub.
pub(crate) fn offline(folder: &Path) -> Settings {
    let mut settings = Settings::isolated("http://127.0.0.1:9", &folder.join("cache"), folder);
    settings.hub.offline = true;
    settings
}

pub(crate) fn request(path: &str, splits: &[&str], kwargs: &[(&str, Value)]) -> DatasetRequest {
    DatasetRequest {
        path: path.into(),
        splits: splits.iter().map(|split| (*split).to_owned()).collect(),
        kwargs: kwargs.iter().map(|(key, value)| (Value::str(*key), value.clone())).collect::<Dict>(),
        ..DatasetRequest::default()
    }
}

pub(crate) fn load_in(folder: &Path, request: &DatasetRequest) -> Result<DatasetDict, Error> {
    load(request, &offline(folder))
}

/// All rows as Python prints them.
pub(crate) fn printed(split: &Split) -> Result<String, Error> {
    let rows = split.iter().map(|row| row.map(Value::from)).collect::<Result<Vec<_>, _>>()?;
    Ok(repr(&Value::from(rows)))
}

/// The message of an error with its causes.
pub(crate) fn message(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", message(source)),
        None => error.to_string(),
    }
}
