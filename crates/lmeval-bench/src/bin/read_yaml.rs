//! Times loading every YAML file of a task library from memory.
//!
//! `read-yaml LIBRARY ROUNDS` prints one line of JSON: the number of files and bytes, and the shortest and median time of
//! a round in seconds.

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use lmeval_pycompat::yaml::Loader;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [library, rounds] = words.as_slice() else {
        return Err("usage: read-yaml LIBRARY ROUNDS".into());
    };
    let mut files = Vec::new();
    read_files(Path::new(library), &mut files)?;
    let loader = Loader { functions: true, ..Loader::default() };
    let mut times = Vec::new();
    for _ in 0..rounds.parse::<usize>()?.max(1) {
        let start = Instant::now();
        for (path, bytes) in &files {
            let loaded = loader.load_bytes(bytes).map_err(|error| format!("{}: {error}", path.display()))?;
            std::hint::black_box(loaded);
        }
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    let bytes: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
    let (count, best, median) = (files.len(), times[0], times[times.len() / 2]);
    let mut out = std::io::stdout().lock();
    writeln!(out, "{{\"files\": {count}, \"bytes\": {bytes}, \"best\": {best}, \"median\": {median}}}")?;
    Ok(())
}

fn read_files(folder: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) -> Result<(), Box<dyn Error>> {
    for entry in fs_err::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            let bytes = fs_err::read(&path)?;
            files.push((path, bytes));
        }
    }
    Ok(())
}
