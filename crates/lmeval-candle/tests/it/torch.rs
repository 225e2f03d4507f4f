//! PyTorch weight files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::{DType, Device};
use lmeval_candle::{Config, Source as _, TorchFiles, Weights, arch};
use serde_json::Value as Json;

use crate::architectures::{TOLERANCE, alone, device, difference, fixtures, numbers, tokens};
use crate::model::{answer, create, damaged, fixture, logprob, pair};

const PARTS: [&str; 3] =
    ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin", "pytorch_model.bin.index.json"];

fn written(name: &str) -> PathBuf {
    fixtures().join("torch").join(name)
}

fn open(path: &Path) -> Result<TorchFiles, lmeval_candle::Error> {
    TorchFiles::open(&[path.to_owned()])
}

#[test]
fn log_probabilities_match_safetensors() {
    let source = open(&written("opt.bin")).unwrap();
    assert_eq!(source.stored(), DType::BF16);
    assert!(source.shape("steps").is_none());
    let config = Config::read(&fixtures().join("opt/config.json")).unwrap();
    let weights = Weights::new(Arc::new(source), DType::F32, device());
    let model = (arch::find(&config).unwrap().build)(&config, &weights).unwrap();
    let expected = fs_err::read(fixtures().join("opt/expected.json")).unwrap();
    let expected: Json = serde_json::from_slice(&expected).unwrap();
    for sequence in expected["sequences"].as_array().unwrap() {
        let found = alone(model.as_ref(), &tokens(&sequence["tokens"]));
        let apart = difference(found.last().unwrap(), &numbers(&sequence["last_distribution"]));
        let is_close = apart < TOLERANCE;
        assert!(is_close, "{apart}");
    }
}

/// The fixture checkpoint with PyTorch shards instead of safetensors.
fn folder() -> tempfile::TempDir {
    let folder = damaged("model.safetensors", None);
    for name in PARTS {
        fs_err::copy(written(name), folder.path().join(name)).unwrap();
    }
    folder
}

#[test]
fn loads_shards_without_safetensors() {
    let folder = folder();
    let (own, expected) = (create(folder.path(), &[]).unwrap(), create(&fixture(), &[]).unwrap());
    for name in ["model_num_parameters", "model_dtype"] {
        assert_eq!(own.facts().config.get_str(name), expected.facts().config.get_str(name));
    }
    for asked in [pair("abc", " d"), pair("", "a longer text than the other")] {
        let [found, expected] =
            [&own, &expected].map(|model| logprob(&answer(model.as_ref(), vec![asked.clone()])[0]));
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    }
    fs_err::remove_file(folder.path().join(PARTS[1])).unwrap();
    let error = create(folder.path(), &[]).unwrap_err().to_string();
    assert!(error.contains(PARTS[1]) && error.contains("is missing"), "{error}");
    // Safetensors take precedence.
    fs_err::copy(fixture().join("model.safetensors"), folder.path().join("model.safetensors")).unwrap();
    create(folder.path(), &[]).unwrap();
    for name in ["model.safetensors", PARTS[2]] {
        fs_err::remove_file(folder.path().join(name)).unwrap();
    }
    let error = create(folder.path(), &[]).unwrap_err().to_string();
    assert!(error.contains("neither `model.safetensors` nor `pytorch_model.bin`"), "{error}");
}

#[test]
fn refuses_shards_that_contradict_each_other() {
    let folder = folder();
    let [shard, copy] = [folder.path().join(PARTS[1]), folder.path().join("copy.bin")];
    let mut bytes = fs_err::read(&shard).unwrap();
    fs_err::write(&copy, &bytes).unwrap();
    assert!(TorchFiles::open(&[shard.clone(), copy.clone()]).is_ok());
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs_err::write(&copy, &bytes).unwrap();
    assert!(TorchFiles::open(std::slice::from_ref(&copy)).is_ok());
    let error = TorchFiles::open(&[shard, copy]).err().unwrap().to_string();
    assert!(error.contains("is also in `") && error.contains("with other numbers"), "{error}");
}

#[test]
fn refuses_pickles_of_more_than_tensors() {
    for (name, expected) in [("hostile.bin", "it refers to `posix.system`"), ("older.bin", "older than 1.6")]
    {
        let error = open(&written(name)).err().unwrap().to_string();
        assert!(error.contains(name) && error.contains(expected), "{error}");
    }
    assert!(!Path::new("lmeval-was-here").exists());
}

#[test]
fn refuses_damaged_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.bin");
    let whole = fs_err::read(written(PARTS[0])).unwrap();
    for end in (0..whole.len()).step_by(97) {
        fs_err::write(&path, &whole[..end]).unwrap();
        assert!(open(&path).is_err(), "{end}");
    }
    // Must not panic or read outside the file.
    for index in (0..whole.len()).step_by(61) {
        let mut changed = whole.clone();
        changed[index] ^= 0xff;
        fs_err::write(&path, &changed).unwrap();
        if let Ok(source) = open(&path) {
            for name in source.names() {
                let _ = source.load(&name, &Device::Cpu);
            }
        }
    }
}
