//! Checks of the repository as a whole.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod dependencies;
mod layers;

use std::path::{Path, PathBuf};
use std::process::Command;

/// A path of the repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The output of `cargo metadata` for a workspace.
fn metadata(manifest: &str) -> serde_json::Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--manifest-path"])
        .arg(repository(manifest))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}
