//! Lists the Python modules to embed into the binary.

use std::env;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

fn main() -> io::Result<()> {
    let manifest = PathBuf::from(env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?);
    // A symlink to the Python package, which `cargo package` follows; on systems that check out symlinks as plain
    // files, the package itself.
    let mut package = manifest.join("python");
    if !package.join("lm_eval").is_dir() {
        package = manifest.join("../../python");
    }
    let mut files = Vec::new();
    list(&package.join("lm_eval"), &mut files)?;
    files.sort();
    let mut list = String::from("&[\n");
    for file in &files {
        let name = file.strip_prefix(&package).map_err(io::Error::other)?;
        let name = name.to_string_lossy().replace('\\', "/");
        writeln!(list, "    ({name:?}, include_str!({:?})),", file.display().to_string())
            .map_err(io::Error::other)?;
    }
    list.push(']');
    let target = PathBuf::from(env::var("OUT_DIR").map_err(io::Error::other)?);
    fs_err::write(target.join("modules.rs"), list)
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in fs_err::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "__pycache__") {
            list(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "py") {
            files.push(path);
        }
    }
    Ok(())
}
