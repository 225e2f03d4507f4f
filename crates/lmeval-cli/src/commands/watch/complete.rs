//! Whether a checkpoint is complete: a writer may be slow, or have been killed in the middle of a file.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use fs_err as fs;
use lmeval_analysis::read::{file_name, has_extension};
use serde_json::Value;

/// Ends of names that programs give to files they are still writing.
const UNFINISHED: [&str; 8] =
    [".tmp", ".temp", ".part", ".partial", ".incomplete", ".download", ".crdownload", "~"];

/// The largest header of a safetensors file, as its own library has it.
const HEADER: u64 = 100_000_000;

/// The most parts of a split file; larger numbers are part of a name.
const PARTS: u32 = 10_000;

/// Files whose end is checked: half of one cannot be read.
const JSON: [&str; 4] =
    ["tokenizer.json", "tokenizer_config.json", "generation_config.json", "trainer_state.json"];

/// The formats of weights in a folder, the preferred one first: the index, the extension, and names of single files.
const FORMATS: [(&str, &str, [&str; 2]); 2] = [
    ("model.safetensors.index.json", "safetensors", ["model.safetensors", "adapter_model.safetensors"]),
    ("pytorch_model.bin.index.json", "bin", ["pytorch_model.bin", "adapter_model.bin"]),
];

/// Whether a file or folder has a name that a writer gives it while it writes.
pub(super) fn is_temporary(name: &str) -> bool {
    let name = name.to_lowercase();
    let starts = ["tmp-", "tmp_", "temp-", "temp_", ".tmp"].iter().any(|start| name.starts_with(start));
    starts
        || UNFINISHED.iter().any(|end| name.ends_with(end))
        || name.contains(".tmp-")
        || name.contains(".tmp.")
}

/// Whether a folder looks like a checkpoint in the format of Hugging Face, complete or not.
pub(super) fn is_checkpoint(files: &[PathBuf]) -> bool {
    files.iter().any(|path| {
        let name = file_name(path);
        matches!(name.as_str(), "config.json" | "adapter_config.json")
            || is_weights(&name)
            || name.ends_with(".index.json")
    })
}

/// Whether a file has weights, by its name.
pub(super) fn is_weights(name: &str) -> bool {
    let path = Path::new(name);
    let is_of_model = name.starts_with("pytorch_model") || name.starts_with("adapter_model");
    has_extension(path, "safetensors") || has_extension(path, "bin") && is_of_model
}

/// The weight files of a folder, if it is complete; otherwise what is missing.
pub(super) fn folder(folder: &Path, files: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let names: BTreeMap<String, &PathBuf> = files.iter().map(|path| (file_name(path), path)).collect();
    if let Some(name) = names.keys().find(|name| is_being_written(name)) {
        return Err(format!("`{name}` is still being written"));
    }
    let config = ["adapter_config.json", "config.json"].into_iter().find(|name| names.contains_key(*name));
    let Some(config) = config else { return Err("it has no `config.json` yet".to_owned()) };
    read_json(&folder.join(config))?;
    for name in JSON.into_iter().filter(|name| names.contains_key(*name)) {
        ends_like_json(&folder.join(name))?;
    }
    let weights = weights(folder, &names)?;
    for path in &weights {
        file(path)?;
    }
    Ok(weights)
}

/// A hidden copy of a file, as rsync makes it, or one with a temporary name.
fn is_being_written(name: &str) -> bool {
    let is_hidden = name.starts_with('.')
        && [".safetensors", ".bin", ".gguf", ".json"].iter().any(|part| name.contains(part));
    is_hidden || is_temporary(name)
}

fn weights(folder: &Path, names: &BTreeMap<String, &PathBuf>) -> Result<Vec<PathBuf>, String> {
    for (index, extension, single) in FORMATS {
        if names.contains_key(index) {
            return indexed(folder, index, names);
        }
        let ending = format!(".{extension}");
        let own: Vec<&String> =
            names.keys().filter(|name| is_weights(name) && name.ends_with(&ending)).collect();
        if let Some(name) = own.iter().find(|name| shard(name).is_some()) {
            return Err(format!("`{name}` is one of several parts, and `{index}` is not there yet"));
        }
        // The trainer may write other tensors beside those of the model.
        let named: Vec<PathBuf> =
            own.iter().filter(|name| single.contains(&name.as_str())).map(|name| folder.join(name)).collect();
        if !named.is_empty() {
            return Ok(named);
        }
        if !own.is_empty() {
            return Ok(own.into_iter().map(|name| folder.join(name)).collect());
        }
    }
    Err("it has no weights yet".to_owned())
}

/// The files of an index, each of which has the tensors that the index says.
fn indexed(folder: &Path, index: &str, names: &BTreeMap<String, &PathBuf>) -> Result<Vec<PathBuf>, String> {
    let content = read_json(&folder.join(index))?;
    let map = content
        .get("weight_map")
        .and_then(Value::as_object)
        .ok_or_else(|| format!("`{index}` has no `weight_map`"))?;
    let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (tensor, file) in map {
        let file = file.as_str().ok_or_else(|| format!("`{index}` names no file for `{tensor}`"))?;
        files.entry(file).or_default().push(tensor);
    }
    for (name, tensors) in &files {
        if !names.contains_key(*name) {
            return Err(format!("`{name}` of `{index}` is not there yet"));
        }
        if name.ends_with(".safetensors") {
            let stored = safetensors(&folder.join(name))?;
            if let Some(tensor) = tensors.iter().find(|tensor| !stored.contains(**tensor)) {
                return Err(format!("`{name}` lacks `{tensor}`, which `{index}` names"));
            }
        }
    }
    Ok(files.into_keys().map(|name| folder.join(name)).collect())
}

/// The index and the number of shards in a name such as `model-00001-of-00003.safetensors`.
fn shard(name: &str) -> Option<(u32, u32)> {
    let stem = name.rsplit_once('.')?.0;
    let (front, count) = stem.rsplit_once("-of-")?;
    let (_, index) = front.rsplit_once('-')?;
    Some((index.parse().ok()?, count.parse().ok()?))
}

/// The further parts of a GGUF file that is split; the file itself if it is not. `None` for a part that is not the first.
pub(super) fn gguf_parts(path: &Path) -> Option<Vec<PathBuf>> {
    let name = file_name(path);
    let Some((index, count)) = shard(&name) else { return Some(vec![path.to_owned()]) };
    let front = name.rsplit_once("-of-").and_then(|(front, _)| front.rsplit_once('-'))?.0;
    (index == 1 && count <= PARTS).then(|| {
        (1..=count)
            .map(|index| path.with_file_name(format!("{front}-{index:05}-of-{count:05}.gguf")))
            .collect()
    })
}

/// Checks that a file of weights is as long as it says, as far as its format says it.
pub(super) fn file(path: &Path) -> Result<(), String> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("safetensors") => safetensors(path).map(drop),
        Some("gguf") => gguf(path),
        Some("bin") => torch(path),
        _ => Ok(()),
    }
}

/// The names of the tensors in a safetensors file, whose header says how long the file is.
fn safetensors(path: &Path) -> Result<BTreeSet<String>, String> {
    let name = file_name(path);
    let short = |length: u64, wanted: u64| format!("`{name}` has {length} of {wanted} bytes");
    let mut file = fs::File::open(path).map_err(|error| error.to_string())?;
    let length = file.metadata().map_err(|error| error.to_string())?.len();
    let mut size = [0; 8];
    if length < 8 {
        return Err(short(length, 8));
    }
    file.read_exact(&mut size).map_err(|error| error.to_string())?;
    let size = u64::from_le_bytes(size);
    if size > HEADER {
        return Err(format!("`{name}` is not a safetensors file"));
    }
    if length < 8 + size {
        return Err(short(length, 8 + size));
    }
    let mut header = Vec::new();
    file.take(size).read_to_end(&mut header).map_err(|error| error.to_string())?;
    // A file system may show the length of a file before its content.
    let broken = |problem: String| format!("the header of `{name}` cannot be read: {problem}");
    let Value::Object(tensors) =
        serde_json::from_slice(&header).map_err(|error| broken(error.to_string()))?
    else {
        return Err(broken("it is not an object".to_owned()));
    };
    let mut end = 0;
    let mut names = BTreeSet::new();
    for (tensor, entry) in tensors.iter().filter(|(tensor, _)| *tensor != "__metadata__") {
        let offsets = entry.get("data_offsets").and_then(|offsets| offsets.get(1)).and_then(Value::as_u64);
        end = end.max(offsets.ok_or_else(|| broken(format!("`{tensor}` has no end")))?);
        names.insert(tensor.clone());
    }
    let wanted = (8 + size).saturating_add(end);
    if length == wanted { Ok(names) } else { Err(short(length, wanted)) }
}

/// Checks the archive that PyTorch writes, whose directory is at its end. Older files do not say how long they are.
fn torch(path: &Path) -> Result<(), String> {
    let mut file = fs::File::open(path).map_err(|error| error.to_string())?;
    let mut magic = [0; 2];
    let is_archive = file.read_exact(&mut magic).is_ok() && magic == *b"PK";
    if is_archive && zip::ZipArchive::new(file).is_err() {
        return Err(format!("`{}` is only a part of an archive", file_name(path)));
    }
    Ok(())
}

/// Checks the tensors of a GGUF file, which have their places in its header.
#[cfg(feature = "local-models")]
fn gguf(path: &Path) -> Result<(), String> {
    // Other programs read architectures that ours does not.
    match lmeval_candle::Gguf::open(path) {
        Ok(_) | Err(lmeval_candle::Error::Unsupported { .. }) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(not(feature = "local-models"))]
fn gguf(path: &Path) -> Result<(), String> {
    let mut magic = [0; 4];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    if read.is_ok() && magic == *b"GGUF" {
        Ok(())
    } else {
        Err(format!("`{}` is not a GGUF file yet", file_name(path)))
    }
}

fn read_json(path: &Path) -> Result<Value, String> {
    let content = fs::read(path).map_err(|error| error.to_string())?;
    serde_json::from_slice(&content)
        .map_err(|error| format!("`{}` is not JSON yet: {error}", file_name(path)))
}

/// Whether the last characters of a large file can be the end of an object.
fn ends_like_json(path: &Path) -> Result<(), String> {
    let content = fs::read(path).map_err(|error| error.to_string())?;
    if content.trim_ascii_end().ends_with(b"}") {
        Ok(())
    } else {
        Err(format!("`{}` has no end yet", file_name(path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensors(bytes: usize) -> Vec<u8> {
        let header = format!(
            "{{\"__metadata__\":{{}},\"w\":{{\"dtype\":\"U8\",\"shape\":[{bytes}],\"data_offsets\":[0,{bytes}]}}}}"
        );
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.as_bytes());
        file.extend(vec![7; bytes]);
        file
    }

    fn check(path: &Path) -> Result<Vec<PathBuf>, String> {
        let files = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
        folder(path, &files)
    }

    #[test]
    fn every_cut_of_a_checkpoint_is_incomplete() {
        let temporary = tempfile::tempdir().unwrap();
        let (path, content) = (temporary.path(), tensors(40));
        fs::write(path.join("model.safetensors"), &content).unwrap();
        assert!(check(path).unwrap_err().contains("no `config.json`"));
        let config = b"{\"model_type\": \"llama\"}";
        fs::write(path.join("config.json"), config).unwrap();
        assert_eq!(check(path).unwrap(), [path.join("model.safetensors")]);
        for length in 0..content.len() {
            fs::write(path.join("model.safetensors"), &content[..length]).unwrap();
            assert!(check(path).is_err(), "{length}");
        }
        let longer = [&content[..], b"x"].concat();
        fs::write(path.join("model.safetensors"), longer).unwrap();
        assert!(check(path).is_err());
        fs::write(path.join("model.safetensors"), &content).unwrap();
        for length in 0..config.len() {
            fs::write(path.join("config.json"), &config[..length]).unwrap();
            assert!(check(path).is_err(), "{length}");
        }
        fs::write(path.join("config.json"), config).unwrap();
        for name in ["model.safetensors.tmp", ".model.safetensors.Xy12", "tokenizer.json"] {
            fs::write(path.join(name), "{").unwrap();
            assert!(check(path).is_err(), "{name}");
            fs::remove_file(path.join(name)).unwrap();
        }
        fs::write(path.join(".gitattributes"), "x").unwrap();
        assert!(check(path).is_ok());
    }

    #[test]
    fn an_index_needs_all_its_files() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path();
        fs::write(path.join("config.json"), "{}").unwrap();
        for name in ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"] {
            fs::write(path.join(name), tensors(9)).unwrap();
        }
        assert!(check(path).unwrap_err().contains("one of several parts"));
        let index = |file: &str, tensor: &str| {
            let map = format!(
                "{{\"weight_map\": {{\"w\": \"model-00001-of-00002.safetensors\", \"{tensor}\": \"{file}\"}}}}"
            );
            fs::write(path.join("model.safetensors.index.json"), map).unwrap();
        };
        index("model-00003-of-00003.safetensors", "v");
        assert!(check(path).unwrap_err().contains("is not there yet"));
        index("model-00002-of-00002.safetensors", "v");
        assert!(check(path).unwrap_err().contains("lacks `v`"));
        index("model-00002-of-00002.safetensors", "w");
        assert!(check(path).is_ok());
    }

    #[test]
    fn names_of_writers_are_temporary() {
        for name in [
            "tmp-checkpoint-10",
            "checkpoint-10.tmp",
            "model.gguf.part",
            "checkpoint-10.incomplete",
            "step1.tmp-99",
        ] {
            assert!(is_temporary(name), "{name}");
        }
        for name in ["checkpoint-10", "model.safetensors", "template.json", "attempt-3"] {
            assert!(!is_temporary(name), "{name}");
        }
    }

    #[test]
    fn parts_of_split_files_follow_the_first() {
        let parts = gguf_parts(Path::new("a/m-step5-00001-of-00002.gguf")).unwrap();
        assert_eq!(
            parts,
            [Path::new("a/m-step5-00001-of-00002.gguf"), Path::new("a/m-step5-00002-of-00002.gguf")]
        );
        assert_eq!(gguf_parts(Path::new("a/m-step5-00002-of-00002.gguf")), None);
        assert_eq!(gguf_parts(Path::new("m.gguf")).unwrap(), [Path::new("m.gguf")]);
    }
}
