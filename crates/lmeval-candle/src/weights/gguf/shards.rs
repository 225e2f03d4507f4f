//! The files of a model that is split into several.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::mapped::Mapped;
use super::header::{Entry, Header};
use crate::error::{Error, Result};

/// More files than any model is split into.
const MOST: i64 = 99_999;

/// Opens a file and, if it is the first of several, the others. Returns the metadata of the first with the tensors of all.
pub(super) fn open(path: &Path) -> Result<(Vec<Arc<Mapped>>, Header)> {
    let (first, mut header) = read(path)?;
    let mut files = vec![Arc::new(first)];
    let count = whole(&header, "split.count").unwrap_or(1);
    if count <= 1 {
        return Ok((files, header));
    }
    let broken = |problem: String| Error::file(path, problem);
    if count > MOST {
        return Err(broken(format!("its metadata entry `split.count` is {count}")));
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some(stem) = name.strip_suffix(&format!("-00001-of-{count:05}.gguf")) else {
        return Err(broken(format!(
            "it is one of {count} files; give the first of them, whose name ends in `-00001-of-{count:05}.gguf`"
        )));
    };
    if whole(&header, "split.no") != Some(0) {
        return Err(broken(format!(
            "its name says that it is the first of {count} files, but its metadata does not"
        )));
    }
    for index in 1..count {
        let name = format!("{stem}-{:05}-of-{count:05}.gguf", index + 1);
        let path: PathBuf = path.with_file_name(name);
        if !path.is_file() {
            let problem =
                format!("it is missing, but `{}` is the first of {count} files", files[0].path.display());
            return Err(Error::file(&path, problem));
        }
        let (file, own) = read(&path)?;
        if whole(&own, "split.no") != Some(index) || whole(&own, "split.count") != Some(count) {
            return Err(Error::file(
                &path,
                format!("its metadata does not say that it is number {} of {count}", index + 1),
            ));
        }
        for (name, mut tensor) in own.tensors {
            tensor.shard = files.len();
            if header.tensors.insert(name.clone(), tensor).is_some() {
                return Err(Error::file(&path, format!("another file has its tensor `{name}`, too")));
            }
        }
        files.push(Arc::new(file));
    }
    let listed = whole(&header, "split.tensors.count");
    if listed.is_some_and(|listed| listed != header.tensors.len() as i64) {
        return Err(broken(format!(
            "it says that all files together have {} tensors, but they have {}",
            listed.unwrap_or_default(),
            header.tensors.len()
        )));
    }
    Ok((files, header))
}

fn read(path: &Path) -> Result<(Mapped, Header)> {
    let file = Mapped::open(path)?;
    let header = Header::read(&*file.bytes, file.bytes.len() as u64);
    let header = header.map_err(|problem| Error::file(path, problem))?;
    Ok((file, header))
}

fn whole(header: &Header, key: &str) -> Option<i64> {
    match header.entries.get(key) {
        Some(Entry::Whole(number)) => Some(*number),
        _ => None,
    }
}
