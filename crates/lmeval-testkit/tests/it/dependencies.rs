//! `docs/dev/dependencies.md` lists the external crates of the workspace, with the versions of the manifests.

use std::collections::BTreeMap;

use crate::{metadata, repository};

/// Crate and version of each row whose first two cells are a name in backticks and a version.
fn documented() -> BTreeMap<String, String> {
    let row = |line: &str| {
        let (name, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        let (version, _) = rest.split_once(" | ")?;
        Some((name.to_owned(), version.to_owned()))
    };
    let page = fs_err::read_to_string(repository("docs/dev/dependencies.md")).unwrap();
    page.lines().filter_map(row).collect()
}

/// External crates that the packages of a workspace depend on, with the versions they require.
fn required(manifest: &str) -> BTreeMap<String, String> {
    let metadata = metadata(manifest);
    let packages = metadata["packages"].as_array().unwrap();
    let dependencies = packages.iter().flat_map(|package| package["dependencies"].as_array().unwrap());
    dependencies
        .filter(|dependency| !dependency["source"].is_null())
        .map(|dependency| {
            let version = dependency["req"].as_str().unwrap().trim_start_matches('^');
            (dependency["name"].as_str().unwrap().to_owned(), version.to_owned())
        })
        .collect()
}

#[test]
fn the_page_lists_every_dependency_and_no_other() {
    let documented = documented();
    let mut required_crates = required("fuzz/Cargo.toml");
    required_crates.extend(required("Cargo.toml"));
    assert!(required_crates.len() > 50, "{required_crates:?}");
    let missing: Vec<_> = required_crates.keys().filter(|name| !documented.contains_key(*name)).collect();
    let extra: Vec<_> = documented.keys().filter(|name| !required_crates.contains_key(*name)).collect();
    assert!(missing.is_empty(), "docs/dev/dependencies.md lacks {missing:?}");
    assert!(extra.is_empty(), "docs/dev/dependencies.md lists {extra:?}, which no manifest has");
    for (name, version) in &required_crates {
        let page = &documented[name];
        let same = version == page || version.starts_with(&format!("{page}."));
        assert!(same, "docs/dev/dependencies.md has `{name}` {page}, the manifest {version}");
    }
}
