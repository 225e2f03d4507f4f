//! Compressed logs of Inspect: archives with a header, and a file for each sample.

use std::io::{BufReader, Read};
use std::path::Path;

use fs_err as fs;
use lmeval_core::Diagnostic;
use lmeval_pycompat::{Dict, Value, json};
use zip::{CompressionMethod, ZipArchive};

use super::wrong;
use crate::Error;

/// The most bytes of a file in an archive.
const MOST: u64 = 1 << 30;

/// Where the samples are.
const SAMPLES: &str = "samples/";

type Archive = ZipArchive<BufReader<fs::File>>;

/// The log without its samples.
pub(super) fn header(path: &Path) -> Result<Dict, Error> {
    let mut archive = open(path)?;
    let index = archive.index_for_name("header.json").ok_or_else(|| {
        wrong(path, "the archive has no `header.json`, so the run has not ended")
            .hint("`inspect log recover` completes the log of a run that was cut off")
    })?;
    object(path, &mut archive, index)
}

/// The log as its JSON form has it.
pub(super) fn read(path: &Path) -> Result<Dict, Error> {
    let mut whole = header(path)?;
    let mut archive = open(path)?;
    let is_sample = |index: &usize| {
        let name = archive.name_for_index(*index).and_then(Result::ok);
        name.is_some_and(|name| name.starts_with(SAMPLES) && name.ends_with(".json"))
    };
    let names: Vec<usize> = (0..archive.len()).filter(is_sample).collect();
    let samples = names.into_iter().map(|index| Ok(Value::from(object(path, &mut archive, index)?)));
    let samples: Vec<Value> = samples.collect::<Result<_, Error>>()?;
    whole.insert("samples", Value::list(samples));
    Ok(whole)
}

fn open(path: &Path) -> Result<Archive, Error> {
    let file = fs::File::open(path).map_err(|error| Diagnostic::cannot_read(path, error))?;
    let archive = ZipArchive::new(BufReader::new(file));
    archive.map_err(|error| wrong(path, "not an archive of Inspect").caused_by(error).into())
}

/// A file of an archive.
fn object(path: &Path, archive: &mut Archive, index: usize) -> Result<Dict, Error> {
    let mut text = String::new();
    let raw = archive.by_index_raw(index).map_err(|error| damaged(path, index, error))?;
    let name = raw.name().map_or_else(|_| format!("file {index}"), std::borrow::Cow::into_owned);
    let is_zstandard = raw.compression() == CompressionMethod::ZSTD;
    let read = if is_zstandard {
        zstd::Decoder::new(raw).and_then(|input| input.take(MOST).read_to_string(&mut text))
    } else {
        drop(raw);
        let input = archive.by_index(index).map_err(|error| damaged(path, index, error))?;
        input.take(MOST).read_to_string(&mut text)
    };
    read.map_err(|error| wrong(path, &format!("`{name}` cannot be read")).caused_by(error))?;
    match json::loads(&text) {
        Ok(Value::Dict(content)) => Ok((*content).clone()),
        Ok(_) => Err(wrong(path, &format!("`{name}` is not a JSON object")).into()),
        Err(error) => Err(wrong(path, &format!("`{name}` is not JSON")).caused_by(error).into()),
    }
}

fn damaged(path: &Path, index: usize, error: zip::result::ZipError) -> Diagnostic {
    wrong(path, &format!("file {index} of the archive is damaged")).caused_by(error)
}
