//! Folders written by `save_to_disk`, and the folder of copies that replaces paths.

use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use lmeval_data::ErrorKind;

use crate::support::{load_in, printed, request, write};

fn batch(numbers: &[i64]) -> RecordBatch {
    let texts: Vec<String> = numbers.iter().map(|number| format!("t{number}")).collect();
    RecordBatch::try_from_iter([
        ("n", Arc::new(Int64Array::from(numbers.to_vec())) as _),
        ("t", Arc::new(StringArray::from(texts)) as _),
    ])
    .unwrap()
}

/// Rows in the stream format.
pub(crate) fn stream(batches: &[&[i64]]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch(&[]).schema()).unwrap();
    for numbers in batches {
        writer.write(&batch(numbers)).unwrap();
    }
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

fn save(folder: &std::path::Path, path: &str, split: &str) {
    write(folder, &format!("{path}/data-0.arrow"), stream(&[&[1, 2], &[], &[3]]));
    let state = format!("{{\"_data_files\": [{{\"filename\": \"data-0.arrow\"}}], \"_split\": {split}}}");
    write(folder, &format!("{path}/state.json"), state);
    write(folder, &format!("{path}/dataset_info.json"), "{}");
}

const ROWS: &str = "[{'n': 1, 't': 't1'}, {'n': 2, 't': 't2'}, {'n': 3, 't': 't3'}]";

#[test]
fn reads_all_layouts_of_saved_folders() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    save(root, "one", "\"validation\"");
    save(root, "nameless", "null");
    save(root, "dict/test", "\"test\"");
    save(root, "dict/train", "\"train\"");
    write(root, "dict/dataset_dict.json", "{\"splits\": [\"train\", \"test\"]}");
    save(root, "copies/org/set/config/validation", "\"validation\"");
    save(root, "copies/org/two/a/test", "\"test\"");
    save(root, "copies/org/two/b/test", "\"test\"");

    let rows = |path: &str, name: Option<&str>, split: &str, copies: bool| {
        let mut request = request(path, &[split], &[]);
        request.name = name.map(str::to_owned);
        request.dataset_dir = copies.then(|| "copies".into());
        load_in(root, &request).and_then(|data| printed(data.get(split).unwrap()))
    };
    assert_eq!(rows("one", None, "validation", false).unwrap(), ROWS);
    assert_eq!(rows("nameless", None, "train", false).unwrap(), ROWS);
    assert_eq!(rows("dict", None, "test", false).unwrap(), ROWS);
    assert_eq!(rows("org/set", Some("config"), "validation", true).unwrap(), ROWS);
    assert_eq!(rows("org/set", None, "validation", true).unwrap(), ROWS);
    assert_eq!(rows("org/two", Some("b"), "test", true).unwrap(), ROWS);
    let missing = rows("org/two", None, "test", true).unwrap_err();
    assert!(matches!(missing.kind(), ErrorKind::MissingConfig { .. }), "{missing}");
    let unknown = rows("org/two", Some("c"), "test", true).unwrap_err();
    assert!(matches!(unknown.kind(), ErrorKind::UnknownConfig { .. }), "{unknown}");
    let split = rows("dict", None, "dev", false).unwrap_err();
    assert_eq!(split.to_string(), "Unknown split `dev`. Should be one of `train`, `test`");
    assert_eq!(
        load_in(root, &request("dict", &[], &[])).unwrap().names().collect::<Vec<_>>(),
        ["train", "test"]
    );
}

#[test]
fn reads_file_format_and_truncated_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = FileWriter::try_new(Vec::new(), &batch(&[]).schema()).unwrap();
    writer.write(&batch(&[1, 2])).unwrap();
    writer.write(&batch(&[3])).unwrap();
    writer.finish().unwrap();
    let content = writer.into_inner().unwrap();
    write(folder.path(), "x.arrow", &content);
    let request = request("arrow", &["train"], &[("data_files", "x.arrow".into())]);
    let data = load_in(folder.path(), &request).unwrap();
    let split = data.get("train").unwrap();
    assert_eq!(printed(split).unwrap(), ROWS);
    assert_eq!(split.get(2).unwrap().unwrap().len(), 2);

    // A file truncated anywhere gives an error or its complete rows, never a panic.
    let stream = stream(&[&[1, 2], &[3]]);
    for end in 0..stream.len() {
        write(folder.path(), "x.arrow", &stream[..end]);
        if let Ok(data) = load_in(folder.path(), &request) {
            let rows = printed(data.get("train").unwrap()).unwrap();
            assert!(ROWS.starts_with(rows.trim_end_matches(']')), "{rows}");
        }
    }
}
