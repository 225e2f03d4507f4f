//! Loads weights from bytes.

use std::path::Path;

use candle_core::Device;
use lmeval_candle::{Result, Source};

/// Writes a file, opens it, and loads every tensor.
pub fn load<S: Source>(bytes: &[u8], open: impl Fn(&Path) -> Result<S>) {
    let folder = tempfile::tempdir().expect("the disk has space");
    let path = folder.path().join("weights");
    std::fs::write(&path, bytes).expect("the disk has space");
    let Ok(source) = open(&path) else { return };
    for name in source.names() {
        let _ = (source.shape(&name), source.load(&name, &Device::Cpu));
        if let Ok(Some(matrix)) = source.stored_matrix(&name) {
            let (rows, columns) = matrix.shape();
            matrix.read(rows.saturating_sub(1), 0, &mut vec![0.0; columns]);
        }
    }
}
