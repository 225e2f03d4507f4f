//! Damaged weights give an error or tensors, never a panic.

use std::path::{Path, PathBuf};

use candle_core::Device;
use lmeval_candle::{Error, Gguf, Safetensors, Source, TorchFiles};
use lmeval_testkit::mutate;

use crate::architectures::fixtures;

fn load_all(source: Result<Box<dyn Source>, Error>) {
    let Ok(source) = source else { return };
    for name in source.names() {
        let _ = (source.shape(&name), source.load(&name, &Device::Cpu));
        if let Ok(Some(matrix)) = source.stored_matrix(&name) {
            let (rows, columns) = matrix.shape();
            matrix.read(rows.saturating_sub(1), 0, &mut vec![0.0; columns]);
        }
    }
}

fn check(sample: PathBuf, open: impl Fn(&Path) -> Result<Box<dyn Source>, Error>) {
    let folder = tempfile::tempdir().unwrap();
    let sample = fs_err::read(sample).unwrap();
    let mut copy = 0;
    mutate(&[&sample], 300, |bytes| {
        // A new file per copy, because a mapped file must not change.
        let path = folder.path().join(copy.to_string());
        copy += 1;
        fs_err::write(&path, bytes).unwrap();
        load_all(open(&path));
        fs_err::remove_file(&path).unwrap();
    });
}

#[test]
fn safetensors() {
    check(fixtures().join("llama/model.safetensors"), |path| {
        Safetensors::open(&[path.to_owned()]).map(|source| Box::new(source) as Box<dyn Source>)
    });
}

#[test]
fn gguf() {
    for sample in ["gguf/llama.gguf", "quantised/gguf_mixed.gguf"] {
        check(fixtures().join(sample), |path| {
            Gguf::open(path).map(|source| Box::new(source) as Box<dyn Source>)
        });
    }
}

#[test]
fn torch() {
    check(fixtures().join("torch/opt.bin"), |path| {
        TorchFiles::open(&[path.to_owned()]).map(|source| Box::new(source) as Box<dyn Source>)
    });
}
