//! Local and embedded files: where they are searched, and the errors of invalid ones.

use std::path::Path;

use lmeval_core::{DatasetRequest, Diagnose as _};
use lmeval_data::{ErrorKind, load};
use lmeval_pycompat::Value;

use crate::support::{load_in, message, offline, printed, request, write};

fn data_files(path: &str) -> [(&'static str, Value); 1] {
    [("data_files", Value::dict([("test", path.into())]))]
}

fn test_rows(folder: &Path, request: &DatasetRequest) -> String {
    printed(load_in(folder, request).unwrap().get("test").unwrap()).unwrap()
}

#[test]
fn working_directory_precedes_task_folder() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "tasks/only_there.jsonl", "{\"a\": 1}\n");
    write(folder.path(), "tasks/both.jsonl", "{\"a\": 2}\n");
    write(folder.path(), "both.jsonl", "{\"a\": 3}\n");
    write(folder.path(), "tasks/set/test.csv", "a\n4\n");
    let rows = |path: &str, kwargs: &[(&str, Value)]| {
        let mut request = request(path, &["test"], kwargs);
        request.base = Some("tasks".into());
        test_rows(folder.path(), &request)
    };
    assert_eq!(rows("json", &data_files("only_there.jsonl")), "[{'a': 1}]");
    assert_eq!(rows("json", &data_files("both.jsonl")), "[{'a': 3}]");
    assert_eq!(rows("json", &data_files("only_*.jsonl")), "[{'a': 1}]");
    assert_eq!(rows("set", &[]), "[{'a': 4}]");

    let mut missing = request("json", &["test"], &data_files("nothing.jsonl"));
    missing.base = Some(folder.path().join("tasks"));
    let error = load_in(folder.path(), &missing).unwrap_err();
    let text = error.to_string();
    let quoted = |path: &str| format!("`{}`", folder.path().join(path).display());
    assert!(
        text.contains(&quoted("nothing.jsonl")) && text.contains(&quoted("tasks/nothing.jsonl")),
        "{text}"
    );
    assert_eq!(error.hints().len(), 1);
}

#[test]
fn reads_embedded_files() {
    fn virtual_file(path: &Path) -> Option<&'static [u8]> {
        (path == Path::new("builtin:demo/test.jsonl")).then_some(b"{\"a\": 5}\n")
    }
    let folder = tempfile::tempdir().unwrap();
    let mut settings = offline(folder.path());
    settings.virtual_files = Some(virtual_file);
    for (path, base) in [("builtin:demo/test.jsonl", None), ("test.jsonl", Some("builtin:demo"))] {
        let mut request = request("json", &["test"], &data_files(path));
        request.base = base.map(Into::into);
        let data = load(&request, &settings).unwrap();
        assert_eq!(printed(data.get("test").unwrap()).unwrap(), "[{'a': 5}]");
    }
    let error =
        load(&request("json", &["test"], &data_files("builtin:demo/x.jsonl")), &settings).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotFound { .. }), "{error}");
}

#[test]
fn errors_name_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let failure = |loader: &str, content: &[u8]| {
        write(folder.path(), "x", content);
        message(&load_in(folder.path(), &request(loader, &["test"], &data_files("x"))).unwrap_err())
    };
    let x = folder.path().join("x").display().to_string();
    let cases: [(&str, &[u8], &str); 12] = [
        ("json", b"{\"a\": 1}\n{\"a\": bad}\n", ":2: Not a JSON value, at column 7 of the value"),
        (
            "json",
            b"{\"a\": 1}\n\n{\"a\": 1\n",
            ":3: A comma or the closing bracket is missing, at column 8 of the value",
        ),
        (
            "json",
            b"{\"a\": 1}\n{\"a\": 2\n{\"a\": 3}\n{\"a\": 4}\n",
            ":2: A comma or the closing bracket is missing, at column 8 of the value",
        ),
        ("json", b"{\"a\": 1}\n7\n", ":2: expected an object: each row is a JSON object"),
        ("json", b"[{\"a\": 1}\n{\"a\": 2}]", ":2: expected `,` or `]` in the array"),
        ("json", b"[{\"a\": 1}]\nx", ":2: unexpected characters after the array"),
        ("json", b"{\"a\": \"\n\xff\"}", ":2: invalid UTF-8"),
        ("csv", b"a,b\n1,2\n1,2,3\n", ":3: expected 2 cells, found 3"),
        ("csv", b"a,b\n1,\"2\n", ":2: a quoted cell is not closed"),
        ("csv", b"a\n\xff\n", ":2: invalid UTF-8"),
        ("csv", b"", ":1: the file has no columns"),
        ("text", b"a\n\xff\n", ":2: invalid UTF-8"),
    ];
    for (loader, content, expected) in cases {
        assert_eq!(failure(loader, content), format!("{x}{expected}"), "{loader} {content:?}");
    }
    for loader in ["parquet", "arrow"] {
        for content in [&b""[..], b"PAR1 and nothing else", b"ARROW1\0\0\xff\xff\xff\xff\xff\xff\xff\x7f"] {
            let text = failure(loader, content);
            assert!(text.starts_with(&format!("Cannot decode `{x}`: ")), "{text}");
        }
    }
    for content in [&b""[..], b"[]", b"\n\n", b"{}\n"] {
        assert_eq!(failure("json", content), "Split `test` of `json` has no rows");
    }
    assert_eq!(failure("csv", b"a,b\n"), "Split `test` of `json` has no rows".replace("json", "csv"));
}

#[test]
fn conversion_errors_name_the_row() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.jsonl", "{\"x\": 1}\n");
    write(folder.path(), "b.jsonl", "{\"x\": \"7\"}\n{\"x\": \"seven\"}\n");
    let files = Value::dict([("train", "a.jsonl".into()), ("test", "b.jsonl".into())]);
    let data = load_in(folder.path(), &request("json", &["test"], &[("data_files", files)])).unwrap();
    let split = data.get("test").unwrap();
    assert_eq!(split.get(0).unwrap().unwrap().get_str("x"), Some(&Value::Int(7)));
    let text = split.get(1).unwrap().unwrap_err().to_string();
    assert!(text.ends_with("row 1, column `x`: cannot convert `'seven'` (str) to an integer"), "{text}");
    assert!(split.get(2).is_none());
}

#[test]
fn rejects_unknown_options_and_loaders() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "x.csv", "a\n1\n");
    let failure = |path: &str, kwargs: &[(&str, Value)]| {
        load_in(folder.path(), &request(path, &["train"], kwargs)).unwrap_err().to_string()
    };
    let with = |key, value| [("data_files", Value::str("x.csv")), (key, value)];
    assert!(
        failure("csv", &with("thousands", ",".into()))
            .contains("`thousands` of the `csv` loader: is unknown")
    );
    assert!(failure("csv", &with("sep", "::".into())).contains("single ASCII character"));
    assert!(failure("json", &[]).contains("at least one data file"));
    assert_eq!(failure("webdataset", &[]), "The loader `webdataset` is not supported");
    assert!(failure("./nothing", &[]).starts_with("Cannot find `./nothing`"));
    assert!(failure("org/name", &[]).contains("offline mode"));
    assert!(failure("script.py", &[]).contains("scripts are not run"));
    let data = load_in(folder.path(), &request("csv", &[], &with("trust_remote_code", true.into()))).unwrap();
    assert_eq!(data.names().collect::<Vec<_>>(), ["train"]);
    let single = load_in(folder.path(), &request("x.csv", &["train"], &[])).unwrap();
    assert_eq!(single.get("train").unwrap().columns(), ["a"]);
}

#[test]
fn limits_and_slices_rows() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.txt", "0\n1\n2\n");
    write(folder.path(), "b.txt", "3\n4\n");
    let files = Value::list([Value::str("a.txt"), Value::str("b.txt")]);
    let mut request =
        request("text", &["train", "train[1:4]", "train[4:]+train[:1]"], &[("data_files", files)]);
    request.limit_rows = Some(4);
    let data = load_in(folder.path(), &request).unwrap();
    let texts = |split: &str| {
        let rows = data.get(split).unwrap().iter();
        rows.map(|row| row.unwrap().get_str("text").unwrap().as_str().unwrap().to_owned()).collect::<String>()
    };
    assert_eq!([texts("train"), texts("train[1:4]"), texts("train[4:]+train[:1]")], ["0123", "123", "40"]);
    let split = data.get("train[1:4]").unwrap();
    assert_eq!(split.range(1..9).len(), 2);
    assert_eq!(split.slice(2..3).get(0).unwrap().unwrap().get_str("text"), Some(&Value::str("3")));
}
