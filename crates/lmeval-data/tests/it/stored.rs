//! Images and sounds stay in the files of a dataset until they are needed.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    Array as _, ArrayRef, BinaryArray, FixedSizeListArray, RecordBatch, StringArray, StructArray,
};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, Fields, Schema};
use lmeval_data::Split;
use lmeval_pycompat::{Media, Value};

use crate::support::{load_in, request, write};

const FEATURES: &str = r#"{"info": {"features": {
    "image": {"_type": "Image"},
    "more": {"_type": "List", "feature": {"_type": "Image"}},
    "nested": {"clip": {"_type": "Audio"}, "n": {"_type": "Value", "dtype": "string"}}
}}}"#;

/// The content of the `index`th file.
fn content(index: usize) -> Vec<u8> {
    (0..3000 + index % 7).map(|at| ((at * 31) ^ (index * 7)) as u8).collect()
}

/// A column of `{bytes, path}`; every fifth is missing.
fn cells(range: std::ops::Range<usize>) -> StructArray {
    let bytes: Vec<Option<Vec<u8>>> =
        range.clone().map(|index| (index % 5 != 4).then(|| content(index))).collect();
    let names = range.map(|index| (index % 2 == 0 && index % 5 != 4).then(|| format!("{index}.png")));
    StructArray::from(vec![
        (
            Arc::new(Field::new("bytes", DataType::Binary, true)),
            Arc::new(BinaryArray::from_iter(bytes)) as ArrayRef,
        ),
        (
            Arc::new(Field::new("path", DataType::Utf8, true)),
            Arc::new(names.collect::<StringArray>()) as ArrayRef,
        ),
    ])
}

/// An Arrow file with batches of four rows: an image, two images in a list, and a sound in a structure.
fn arrow(path: &Path, batches: usize) {
    let batch = |number: usize| {
        let start = number * 100;
        let image = cells(start..start + 4);
        let item = Arc::new(Field::new("item", image.data_type().clone(), true));
        let more = FixedSizeListArray::new(item, 2, Arc::new(cells(start + 10..start + 18)), None);
        let clip: ArrayRef = Arc::new(cells(start + 20..start + 24));
        let words: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c", "d"]));
        let inner = Fields::from(vec![
            Field::new("clip", clip.data_type().clone(), true),
            Field::new("n", DataType::Utf8, true),
        ]);
        let nested = StructArray::new(inner, vec![clip, words], None);
        let columns: Vec<(&str, ArrayRef)> =
            vec![("image", Arc::new(image)), ("more", Arc::new(more)), ("nested", Arc::new(nested))];
        let fields: Vec<Field> = columns
            .iter()
            .map(|(name, column)| Field::new(*name, column.data_type().clone(), true))
            .collect();
        let schema = Schema::new(fields)
            .with_metadata(HashMap::from([("huggingface".to_owned(), FEATURES.to_owned())]));
        let columns = columns.into_iter().map(|(_, column)| column).collect();
        RecordBatch::try_new(Arc::new(schema), columns).unwrap()
    };
    let mut writer = StreamWriter::try_new(fs_err::File::create(path).unwrap(), &batch(0).schema()).unwrap();
    for number in 0..batches {
        writer.write(&batch(number)).unwrap();
    }
    writer.finish().unwrap();
}

/// The files of a value, in order.
fn files(value: &Value) -> Vec<Arc<Media>> {
    match value {
        Value::Media(media) => vec![Arc::clone(media)],
        Value::List(items) => items.iter().flat_map(files).collect(),
        Value::Dict(fields) => fields.values().flat_map(files).collect(),
        _ => Vec::new(),
    }
}

fn all_files(split: &Split) -> Vec<Vec<Arc<Media>>> {
    split.iter().map(|row| files(&Value::from(row.unwrap()))).collect()
}

fn bytes(files: &[Arc<Media>]) -> Vec<Vec<u8>> {
    files.iter().map(|file| file.bytes().unwrap().to_vec()).collect()
}

#[test]
fn files_of_arrow_are_read_when_needed() {
    let folder = tempfile::tempdir().unwrap();
    arrow(&folder.path().join("a.arrow"), 6);
    let data = load_in(folder.path(), &request("arrow", &["train[3:]"], &[("data_files", "a.arrow".into())]));
    let data = data.unwrap();
    let split = data.get("train[3:]").unwrap();
    let rows = all_files(split);
    assert_eq!(rows.len(), 21);
    drop(data);
    // Row 3 of the file has the images 3, 16 and 17 and the sound 23; row 4 has 100, 110, 111 and 120.
    let first: Vec<usize> = vec![3, 16, 17, 23];
    let second: Vec<usize> = vec![100, 110, 111, 120];
    for (row, expected) in rows.iter().zip([first, second]) {
        assert!(row.iter().all(|file| !file.is_in_memory()));
        assert_eq!(bytes(row), expected.iter().map(|index| content(*index)).collect::<Vec<_>>());
        let name = expected.iter().map(|index| (index % 2 == 0).then(|| format!("{index}.png")));
        assert_eq!(row.iter().map(|file| file.name()).collect::<Vec<_>>(), name.collect::<Vec<_>>());
    }
    let (forward, backward): (Vec<_>, Vec<_>) =
        (rows.iter().map(|row| bytes(row)).collect(), rows.iter().rev().map(|row| bytes(row)).collect());
    assert!(forward.iter().eq(backward.iter().rev()));
}

#[test]
fn files_in_json_rows_are_read_when_needed() {
    let folder = tempfile::tempdir().unwrap();
    let card = "---\ndataset_info:\n  features:\n  - name: n\n    dtype: int64\n  - name: image\n    dtype: image\n---\n";
    write(folder.path(), "data/README.md", card);
    let rows = ["R0lGODlhAAAA", "R0lGODlhAAAB"].map(|start| start.to_owned() + &"A".repeat(400));
    let lines = rows.each_ref().map(|text| format!("{{\"n\": 1, \"image\": \"{text}\"}}\n"));
    write(folder.path(), "data/train.jsonl", lines.concat());
    let data = load_in(folder.path(), &request("data", &["train"], &[])).unwrap();
    let found = all_files(data.get("train").unwrap());
    let ends: Vec<u8> = found.iter().map(|files| files[0].bytes().unwrap()[8]).collect();
    assert_eq!(ends, [0, 1]);
    assert!(found.iter().all(|files| !files[0].is_in_memory()));
    assert_ne!(found[0][0], found[1][0]);
}
