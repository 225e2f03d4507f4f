//! Folders of images: rows, labels and metadata as `datasets` 5.2 gives them.

use std::path::Path;

use lmeval_data::{DatasetDict, Error};
use lmeval_pycompat::{Dict, Value, repr};

use crate::support::{load_in, request, write};

fn loaded(folder: &Path, loader: &str, kwargs: &[(&str, Value)]) -> Result<DatasetDict, Error> {
    load_in(folder, &request(loader, &[], kwargs))
}

/// The rows of a split, with the names of files for files.
fn rows(data: &DatasetDict, split: &str) -> Vec<String> {
    let rows = data.get(split).unwrap().iter();
    rows.map(|row| repr::repr(&names(&Value::from(row.unwrap())))).collect()
}

fn names(value: &Value) -> Value {
    match value {
        Value::Media(media) => {
            let name = media.name().unwrap().replace('\\', "/");
            Value::str(name.rsplit_once("/data/").map_or(name.as_str(), |(_, name)| name))
        }
        Value::List(items) => Value::list(items.iter().map(names)),
        Value::Dict(dict) => {
            Value::from(dict.iter().map(|(key, value)| (key.clone(), names(value))).collect::<Dict>())
        }
        other => other.clone(),
    }
}

#[test]
fn folders_are_splits_and_labels() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["train/cat/1.png", "train/dog/2.png", "train/cat/3.jpg", "test/dog/1.png"] {
        write(folder.path(), &format!("data/{name}"), "x");
    }
    let expected = [
        "{'image': 'train/cat/1.png', 'label': 0}",
        "{'image': 'train/cat/3.jpg', 'label': 0}",
        "{'image': 'train/dog/2.png', 'label': 1}",
    ];
    for data in [
        loaded(folder.path(), "imagefolder", &[("data_dir", "data".into())]).unwrap(),
        loaded(folder.path(), "data", &[]).unwrap(),
    ] {
        assert_eq!(rows(&data, "train"), expected);
        assert_eq!(rows(&data, "test"), ["{'image': 'test/dog/1.png', 'label': 1}"]);
    }
    let bare = [("data_dir", "data".into()), ("drop_labels", Value::Bool(true))];
    let data = loaded(folder.path(), "imagefolder", &bare).unwrap();
    assert_eq!(rows(&data, "test"), ["{'image': 'test/dog/1.png'}"]);
    let error = loaded(folder.path(), "audiofolder", &[("data_dir", "data".into())]).unwrap_err();
    assert!(error.to_string().contains("no files for the loader `audiofolder`"), "{error}");
}

#[test]
fn flat_folders_have_no_labels() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["data/2.wav", "data/10.wav", "data/1.wav"] {
        write(folder.path(), name, "");
    }
    let data = loaded(folder.path(), "data", &[]).unwrap();
    assert_eq!(rows(&data, "train"), ["{'audio': '1.wav'}", "{'audio': '10.wav'}", "{'audio': '2.wav'}"]);
}

#[test]
fn metadata_files_give_the_rows() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "data/2.png", "");
    write(folder.path(), "data/x/1.png", "");
    write(folder.path(), "data/metadata.csv", "file_name,q,a\n2.png,two,2\nx/1.png,one,1\n");
    let data = loaded(folder.path(), "data", &[]).unwrap();
    assert_eq!(
        rows(&data, "train"),
        ["{'image': '2.png', 'q': 'two', 'a': 2}", "{'image': 'x/1.png', 'q': 'one', 'a': 1}"]
    );
    let line = "{\"file_name\": \"2.png\", \"left_file_name\": \"x/1.png\", \"images_file_names\": [\"x/1.png\", \"2.png\"], \"n\": 2}\n";
    fs_err::remove_file(folder.path().join("data/metadata.csv")).unwrap();
    write(folder.path(), "data/metadata.jsonl", line);
    let data = loaded(folder.path(), "imagefolder", &[("data_dir", "data".into())]).unwrap();
    let expected = "{'image': '2.png', 'left': 'x/1.png', 'images': ['x/1.png', '2.png'], 'n': 2}";
    assert_eq!(rows(&data, "train"), [expected]);
}
