//! Every function of the public task library can be imported.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use lmeval_host::{PythonHost, PythonOptions};
use lmeval_scoring::HostError;

use crate::support::{function, python};

/// Errors that are not our fault: the reference fails on these too.
const FOREIGN: [&str; 7] = [
    // A metric that the package `evaluate` downloads.
    "Couldn't find a module script",
    // Missing names.
    "cannot import name 'load_metric' from 'datasets'",
    "has no attribute 'filter_per_entities_from_lines'",
    // A module that newer versions of an installed package lack.
    "No module named 'transformers.data.metrics'",
    // A folder that is a template for others.
    "KeyError: 'template'",
    // A command that is not installed.
    "SWI-Prolog (swipl) is not installed",
    // Modules that run a program on import, which needs permission.
    "Running code that a model generated is not allowed",
];

/// The functions referenced by the files below a folder, with their folders.
fn references(folder: &Path, found: &mut BTreeSet<(String, String)>) {
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            references(&path, found);
            continue;
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.contains("yaml") && !name.contains("yml") {
            continue;
        }
        let text = String::from_utf8_lossy(&fs_err::read(&path).unwrap()).into_owned();
        for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
            for reference in line.split("!function ").skip(1) {
                let reference = reference.split_whitespace().next().unwrap_or_default();
                let reference = reference.trim_matches(['"', '\'', ',', '}', ']']);
                found.insert((folder.to_str().unwrap().to_owned(), reference.to_owned()));
            }
        }
    }
}

#[test]
fn finds_every_function_of_the_library() {
    let Some(library) = lmeval_testkit::reference_library() else { return };
    let mut found = BTreeSet::new();
    references(&library, &mut found);
    let host = PythonHost::new(PythonOptions {
        python: Some(python()),
        workers: 1,
        time_limit: Duration::from_mins(2),
        task_roots: vec![library.clone()],
        ..PythonOptions::default()
    });
    let mut lacking: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut failed = Vec::new();
    let mut skipped = BTreeSet::new();
    for (folder, reference) in &found {
        let module = (folder, reference.rsplit_once('.').map_or("", |(module, _)| module));
        if skipped.contains(&module) {
            continue;
        }
        let relative = folder.strip_prefix(library.to_str().unwrap()).unwrap_or(folder);
        let Err(error) = host.check(&function(Path::new(folder), reference)) else { continue };
        let HostError::Failed { message, traceback, hint, .. } = error else { panic!("{error}") };
        if !message.starts_with("AttributeError") {
            skipped.insert(module);
        }
        let hint = hint.unwrap_or_default();
        if let Some((_, rest)) = hint.split_once("pip install ") {
            let package = rest.split('`').next().unwrap_or_default();
            lacking.entry(package.to_owned()).or_default().insert(relative.to_owned());
        } else if !FOREIGN.iter().any(|foreign| message.contains(foreign)) {
            failed.push(format!("{relative} {reference}: {message}\n{}", traceback.unwrap_or_default()));
        }
    }
    println!("{} functions", found.len());
    for (package, folders) in &lacking {
        println!("without the package `{package}`: {folders:?}");
    }
    assert!(failed.is_empty(), "{} of {} functions:\n{}", failed.len(), found.len(), failed.join("\n"));
}
