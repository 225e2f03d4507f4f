//! Compares every YAML file of the released task library with PyYAML.
//!
//! Slow, because PyYAML needs seconds for fourteen thousand files, and there is nothing else to compare with.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lmeval_pycompat::yaml::Loader;

use crate::yaml_typed::{typed, write_string};

#[test]
fn every_file_loads_as_in_pyyaml() {
    let environment = (lmeval_testkit::test_environment(), lmeval_testkit::reference_library());
    let (Some(python), Some(library)) = environment else {
        return;
    };
    let mut files = Vec::new();
    yaml_files(&library, &mut files);
    files.sort();
    assert!(files.len() > 14_000, "only {} files", files.len());
    let theirs = pyyaml(&python, &files);
    let loader = Loader { functions: true, ..Loader::default() };
    let mut count = 0;
    for (path, theirs) in files.iter().zip(theirs.lines()) {
        let mut ours = String::from(r#"{"path":"#);
        write_string(&path.to_string_lossy(), &mut ours);
        match loader.load_bytes(&fs_err::read(path).unwrap()) {
            Ok(loaded) => write!(ours, r#","value":{}}}"#, typed(&loaded.value)).unwrap(),
            Err(_) => ours.push_str(r#","error":true}"#),
        }
        assert_eq!(ours, theirs);
        count += 1;
    }
    assert_eq!(count, files.len());
}

/// The output of `tests/record/yaml_dump.py` for the files.
fn pyyaml(python: &Path, files: &[PathBuf]) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/record/yaml_dump.py");
    let mut child =
        Command::new(python).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut list = String::new();
    for path in files {
        writeln!(list, "{}", path.display()).unwrap();
    }
    let writer = std::thread::spawn(move || input.write_all(list.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn yaml_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs_err::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().unwrap().is_dir() {
            yaml_files(&entry.path(), files);
        } else if name.to_lowercase().ends_with("yaml") {
            files.push(entry.path());
        }
    }
}
