//! `tests/golden` is an unchanged copy of the recordings, where the originals are beside the repository.

use std::collections::BTreeMap;
use std::path::Path;

fn contents(folder: &Path, prefix: &str, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs_err::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}/{}", entry.file_name().to_string_lossy());
        if entry.file_type().unwrap().is_dir() {
            contents(&entry.path(), &name, files);
        } else {
            files.insert(name, fs_err::read(entry.path()).unwrap());
        }
    }
}

#[test]
fn the_copy_equals_the_original() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut copy = BTreeMap::new();
    contents(&root.join("tests/golden"), "", &mut copy);
    assert!(copy.len() > 40, "only {} recordings", copy.len());
    let original = root.join("../shared/golden");
    if !original.is_dir() {
        return;
    }
    let mut originals = BTreeMap::new();
    contents(&original, "", &mut originals);
    let names: Vec<&String> = copy.keys().collect();
    assert_eq!(names, originals.keys().collect::<Vec<_>>());
    for (name, bytes) in &copy {
        assert!(originals[name] == *bytes, "{name} differs");
    }
}
