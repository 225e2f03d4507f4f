//! The page for users of the library agrees with its crate documentation and examples.

use std::path::Path;

/// The crate documentation has the same code as a tested example.
#[test]
fn rust_page_matches_the_tested_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs_err::read_to_string(root.join("../../docs/rust.md")).unwrap();
    let program = page.split("```rust\n").nth(1).unwrap().split("```").next().unwrap();
    let library = fs_err::read_to_string(root.join("src/lib.rs")).unwrap();
    let tested: Vec<&str> =
        library.lines().filter_map(|line| line.strip_prefix("//!")).map(str::trim).collect();
    for line in program.lines() {
        assert!(tested.contains(&line.trim()), "{line}");
    }
    for name in fs_err::read_dir(root.join("examples")).unwrap() {
        let name = name.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned();
        assert!(page.contains(&format!("--example {name} ")), "{name}");
    }
}
