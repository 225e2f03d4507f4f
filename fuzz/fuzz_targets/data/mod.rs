//! Loads datasets from bytes.

use lmeval_core::DatasetRequest;
use lmeval_data::{Settings, load};
use lmeval_pycompat::Value;

/// Writes a file and reads all of its rows with a loader.
pub fn read(loader: &str, bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("the disk has space");
    std::fs::write(folder.path().join("x"), bytes).expect("the disk has space");
    let mut settings = Settings::isolated("http://127.0.0.1:9", &folder.path().join("cache"), folder.path());
    settings.hub.offline = true;
    let mut request =
        DatasetRequest { path: loader.into(), splits: vec!["train".into()], ..DatasetRequest::default() };
    request.kwargs.insert("data_files", Value::str("x"));
    if let Ok(data) = load(&request, &settings) {
        let rows = data.get("train").expect("the split was requested");
        for row in rows.iter() {
            let _ = row;
        }
    }
}
