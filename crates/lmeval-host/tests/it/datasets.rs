//! Splits as `process_docs` sees them.

use std::sync::Arc;

use lmeval_core::{DocumentError, Documents, MemoryDocuments};
use lmeval_pycompat::repr::repr;
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::Host;

use crate::support::{Folder, document};

const UTILS: &str = r#"
import datasets
from datasets import Dataset

def as_list(dataset):
    return [{"i": i, **doc} for i, doc in enumerate(dataset) if doc["n"] % 2]

def chain(dataset: datasets.Dataset) -> Dataset:
    def build(doc, index, suffix):
        doc["q"] = doc["q"] + suffix
        doc["index"] = index
        return doc
    dataset = dataset.map(build, with_indices=True, fn_kwargs={"suffix": "?"})
    dataset = dataset.filter(lambda doc: doc["n"] > 1)
    dataset = dataset.map(lambda doc: {"pair": (doc["n"], 0.5)}, remove_columns=["n"])
    dataset = dataset.rename_column("q", "question").add_column("new", list("abc"))
    assert dataset.column_names == ["question", "index", "pair", "new"], dataset.column_names
    assert dataset.num_rows == len(dataset) == 3 and dataset[-1]["new"] == "c"
    assert dataset[:2]["new"] == ["a", "b"] and list(dataset["new"]) == list("abc")
    assert "question" in dataset.features
    dataset = dataset.select(range(2)).map(
        lambda batch: {"new": [n * 2 for n in batch["new"]]}, batched=True, batch_size=1)
    return dataset.remove_columns("index")

def shuffled(dataset):
    return dataset.shuffle(seed=42)

def nothing(dataset):
    return dataset.filter(lambda doc: False)

def labels(dataset):
    label = dataset.features["label"]
    assert label.names == ["no", "yes"] and label.num_classes == 2, label
    assert label.int2str(1) == "yes" and label.int2str([0, 1]) == ["no", "yes"] and label.str2int("no") == 0
    assert dataset.features["many"].feature.names == ["a", "b"]
    assert dataset.features["text"].dtype == "string"
    kept = dataset.filter(lambda doc: True).select(range(len(dataset))).rename_column("label", "l")
    kept = kept.map(lambda doc: {"text": doc["text"] + "!"}).shuffle(seed=1)
    assert kept.features["l"].int2str(0) == "no", kept.features
    changed = dataset.map(lambda doc: {"label": label.int2str(doc["label"])}, features=None)
    return changed if isinstance(changed[0]["label"], str) else kept.map(lambda doc: {"name": label.int2str(doc["l"])})

def wrong(dataset):
    return {"a": 1}

def rows(dataset):
    return [1, 2]
"#;

fn split() -> Arc<dyn Documents> {
    let rows =
        (0..5).map(|number| document([("q", Value::str(format!("q{number}"))), ("n", Value::Int(number))]));
    Arc::new(MemoryDocuments::with_columns(vec!["q".into(), "n".into()], rows.collect()))
}

fn shown(documents: &dyn Documents) -> String {
    repr(&Value::list((0..documents.len()).map(|index| Value::Dict(documents.get(index).unwrap()))))
}

#[test]
fn splits_behave_like_datasets_with_and_without_library() {
    // A bare interpreter, and that of the tests, which may have the library.
    for bare in [true, false] {
        let folder = Folder::with(UTILS, |options| {
            if bare {
                options.python = Some("python3".into());
            }
        });
        let process = |name: &str| folder.host.process_documents(&folder.function(name), split());
        let odd = process("utils.as_list").unwrap();
        assert_eq!(shown(&*odd), "[{'i': 1, 'q': 'q1', 'n': 1}, {'i': 3, 'q': 'q3', 'n': 3}]");
        assert_eq!(odd.columns(), ["i", "q", "n"]);
        let chain = process("utils.chain").unwrap();
        let expected = "[{'question': 'q2?', 'pair': [2.0, 0.5], 'new': 'aa'}, {'question': 'q3?', 'pair': [3.0, 0.5], 'new': 'bb'}]";
        let text = shown(&*chain);
        // The library has one type for the items of a list.
        assert!(text == expected || text == expected.replace("2.0", "2").replace("3.0", "3"), "{text}");
        // The order that numpy's generator gives for this seed and five rows.
        let order = process("utils.shuffled").unwrap();
        let order = (0..5).map(|index| order.get(index).unwrap().get_str("n").and_then(Value::as_i64));
        assert!(order.eq([4, 2, 3, 1, 0].map(Some)));
        let nothing = process("utils.nothing").unwrap();
        assert_eq!((nothing.len(), nothing.columns().len()), (0, 2));
        assert!(process("utils.wrong").unwrap_err().to_string().contains("expected documents"));
        assert!(process("utils.rows").unwrap_err().to_string().contains("dictionaries"));
    }
}

/// Documents with class labels.
#[derive(Debug)]
struct Labelled(MemoryDocuments);

impl Documents for Labelled {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn columns(&self) -> &[String] {
        self.0.columns()
    }

    fn get(&self, index: usize) -> Result<Arc<Dict>, DocumentError> {
        self.0.get(index)
    }

    fn features(&self) -> Option<Dict> {
        let label = |names: [&str; 2]| {
            Value::dict([("names", Value::list(names.map(Value::str))), ("_type", Value::str("ClassLabel"))])
        };
        let text = Value::dict([("dtype", Value::str("string")), ("_type", Value::str("Value"))]);
        let many = Value::dict([("feature", label(["a", "b"])), ("_type", Value::str("List"))]);
        let features = [("text", text), ("label", label(["no", "yes"])), ("many", many)];
        Some(features.into_iter().map(|(name, feature)| (Value::str(name), feature)).collect())
    }
}

#[test]
fn class_labels_keep_names_with_and_without_library() {
    for bare in [true, false] {
        let folder = Folder::with(UTILS, |options| {
            if bare {
                options.python = Some("python3".into());
            }
        });
        let row = |number: i64| {
            document([
                ("text", Value::str(format!("t{number}"))),
                ("label", Value::Int(number % 2)),
                ("many", Value::list([Value::Int(1)])),
            ])
        };
        let columns = ["text", "label", "many"].map(str::to_owned).to_vec();
        let split = Arc::new(Labelled(MemoryDocuments::with_columns(columns, (0..4).map(row).collect())));
        let made = folder.host.process_documents(&folder.function("utils.labels"), split).unwrap();
        assert_eq!(made.len(), 4);
    }
}
