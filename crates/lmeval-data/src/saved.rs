//! Folders written by `save_to_disk`.

use std::path::{Path, PathBuf};

use lmeval_pycompat::{Dict, Value, json};

use crate::error::{Error, ErrorKind};
use crate::formats::Format;
use crate::plan::{Plan, Splits, split_rank};
use crate::tree::Location;

const STATE: &str = "state.json";

/// The plan of a folder with saved splits, directly or in one folder per configuration; `None` if it has none.
pub(crate) fn plan(folder: &Path, name: Option<&str>) -> Result<Option<Plan>, Error> {
    let dataset = folder.display().to_string();
    if let Some(name) = name
        && let Some(splits) = splits(&folder.join(name))?
    {
        return Ok(Some(finished(dataset, splits)));
    }
    if let Some(splits) = splits(folder)? {
        return match name {
            None | Some("default") => Ok(Some(finished(dataset, splits))),
            Some(name) => {
                Err(ErrorKind::UnknownConfig { dataset, name: name.into(), available: Vec::new() }.into())
            }
        };
    }
    let mut configs = Vec::new();
    for config in folders(folder)? {
        if let Some(splits) = splits(&config)? {
            configs.push((file_name(&config), splits));
        }
    }
    let available: Vec<String> = configs.iter().map(|(config, _)| config.clone()).collect();
    match (name, &mut configs[..]) {
        (_, []) => Ok(None),
        (None, [(_, splits)]) => Ok(Some(finished(dataset, std::mem::take(splits)))),
        (None, _) => Err(ErrorKind::MissingConfig { dataset, available }.into()),
        (Some(name), _) => Err(ErrorKind::UnknownConfig { dataset, name: name.into(), available }.into()),
    }
}

fn finished(dataset: String, splits: Splits) -> Plan {
    Plan { dataset, format: Format::Arrow, options: Dict::new(), splits, features: None }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The folders in a folder, sorted by name.
fn folders(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let fail = |error| Error::io(folder, error);
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if path.is_dir() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The saved splits of one configuration.
fn splits(folder: &Path) -> Result<Option<Splits>, Error> {
    if !folder.is_dir() {
        return Ok(None);
    }
    if folder.join(STATE).is_file() {
        let state = read(&folder.join(STATE))?;
        let split = state.as_dict().and_then(|state| state.get_str("_split")?.as_str()).unwrap_or("train");
        return Ok(Some(vec![(split.to_owned(), files(folder, &state)?)]));
    }
    let listed = folder.join("dataset_dict.json");
    let names: Vec<String> = if listed.is_file() {
        let dict = read(&listed)?;
        let names = dict.as_dict().and_then(|dict| dict.get_str("splits")?.as_list());
        names.unwrap_or_default().iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
    } else {
        let mut names: Vec<String> = folders(folder)?
            .iter()
            .filter(|split| split.join(STATE).is_file())
            .map(|split| file_name(split))
            .collect();
        names.sort_by_key(|name| split_rank(name));
        names
    };
    if names.is_empty() {
        return Ok(None);
    }
    let split = |name: String| {
        let folder = folder.join(&name);
        let state = read(&folder.join(STATE))?;
        Ok((name, files(&folder, &state)?))
    };
    names.into_iter().map(split).collect::<Result<Splits, Error>>().map(Some)
}

fn read(path: &Path) -> Result<Value, Error> {
    let text = fs_err::read_to_string(path).map_err(|error| Error::io(path, error))?;
    json::loads(&text)
        .map_err(|error| Error::syntax(&path.display().to_string(), error.line as u64, error.message))
}

fn files(folder: &Path, state: &Value) -> Result<Vec<Location>, Error> {
    let bad = |message: &str| -> Error {
        ErrorKind::Metadata { file: folder.join(STATE).display().to_string(), message: message.into() }.into()
    };
    let state = state.as_dict().ok_or_else(|| bad("expected an object"))?;
    if state.get_str("_indices_data_files").is_some_and(Value::is_truthy) {
        return Err(bad("the split has an indices mapping; save it again with a newer `datasets`"));
    }
    let names = state
        .get_str("_data_files")
        .and_then(Value::as_list)
        .ok_or_else(|| bad("`_data_files` is missing"))?;
    let name = |entry: &Value| {
        let name = entry.as_dict().and_then(|entry| entry.get_str("filename")?.as_str());
        name.map(|name| Location::Disk(folder.join(name))).ok_or_else(|| bad("an entry has no `filename`"))
    };
    names.iter().map(name).collect()
}
