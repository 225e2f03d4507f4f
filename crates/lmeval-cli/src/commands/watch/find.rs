//! Checkpoints in a folder.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use fs_err as fs;
use lmeval_analysis::curve::{StepPattern, step_in, step_of_trainer};
use lmeval_analysis::read::{file_name, has_extension};
use lmeval_hub::{hash_contents, hash_small_files, hexadecimal};

use sha2::{Digest as _, Sha256};

use super::complete;

/// How many folders deep checkpoints are looked for.
const DEPTH: usize = 4;

/// Extensions of checkpoints in one file.
const FOREIGN: [&str; 8] = ["pt", "pth", "ckpt", "bin", "npz", "pkl", "tar", "safetensors"];

/// A checkpoint, complete or not.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// The path below the watched folder, or the revision: names the folder of its results.
    pub name: String,
    /// The path, or the revision.
    pub path: PathBuf,
    /// Its format, and where it is.
    pub kind: Kind,
    /// Its step, if it is known.
    pub step: Option<u64>,
    /// Changes with the files.
    pub signature: String,
    /// The reason why it is incomplete; `None` if it is complete.
    pub missing: Option<String>,
}

/// The format of a checkpoint, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A folder in the format of Hugging Face.
    Folder,
    /// A GGUF file.
    Gguf,
    /// A revision of a model on the hub.
    Revision,
    /// Something that has to be converted.
    Foreign,
}

/// Finds checkpoints, and remembers which are complete.
#[derive(Debug)]
pub(super) struct Finder {
    pub root: PathBuf,
    /// The folder of results, which is not searched.
    pub out: PathBuf,
    pub pattern: Option<StepPattern>,
    /// A file that complete checkpoints have.
    pub ready: Option<String>,
    /// Whether other formats can be converted.
    pub converts: bool,
    /// The reasons by path, each with the signature of the files that it is about.
    pub checked: HashMap<PathBuf, (String, Option<String>)>,
}

impl Finder {
    /// All checkpoints below the folder, by name.
    pub(super) fn scan(&mut self) -> Vec<Candidate> {
        let mut found = Vec::new();
        let root = self.root.clone();
        let files = list(&root).0;
        // The trainer of `transformers` saves the last model beside the folders of its checkpoints.
        if files.iter().any(|path| complete::is_weights(&file_name(path))) {
            let name = file_name(&root);
            found.push(self.folder(&root, name, &files));
        }
        self.walk(&root, "", 0, &mut found);
        found.sort_by(|left, right| left.name.cmp(&right.name));
        found
    }

    /// Adds what a folder has, and returns whether that is anything.
    fn walk(&mut self, folder: &Path, inside: &str, depth: usize, found: &mut Vec<Candidate>) {
        let (files, folders) = list(folder);
        for path in files {
            let name = join(inside, &file_name(&path));
            if has_extension(&path, "gguf") {
                found.extend(self.gguf(path, &name));
            } else if depth == 0 && is_foreign(&path) && self.step(&name, Path::new("")).is_some() {
                found.push(if self.converts {
                    self.foreign(path, name)
                } else {
                    self.waiting(path, name, "it is in another format, which `--convert` converts")
                });
            }
        }
        for path in folders {
            let own = file_name(&path);
            let name = join(inside, &own);
            if own.starts_with('.') || self.is_elsewhere(&path) {
                continue;
            }
            let step = self.step(&name, &path);
            if complete::is_temporary(&own) {
                if step.is_some() {
                    found.push(self.waiting(path, name, "it has a temporary name"));
                }
                continue;
            }
            let files = list(&path).0;
            if complete::is_checkpoint(&files) {
                found.push(self.folder(&path, name, &files));
                continue;
            }
            let before = found.len();
            if depth + 1 < DEPTH {
                self.walk(&path, &name, depth + 1, found);
            }
            let has_own_step = self.step(&own, Path::new("")).is_some();
            if found.len() == before && has_own_step {
                found.push(if self.converts {
                    self.foreign(path, name)
                } else {
                    self.waiting(
                        path,
                        name,
                        "it has no weights yet, or is in another format, which `--convert` converts",
                    )
                });
            }
        }
    }

    /// Whether a folder is that of the results, or a link to something that is found without it.
    fn is_elsewhere(&self, path: &Path) -> bool {
        let Ok(target) = fs::canonicalize(path) else { return true };
        let is_link = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink());
        target == self.out
            || is_link && fs::canonicalize(&self.root).is_ok_and(|root| target.starts_with(root))
    }

    fn step(&self, name: &str, path: &Path) -> Option<u64> {
        match &self.pattern {
            Some(pattern) => pattern.find(name),
            None => step_in(name).or_else(|| step_of_trainer(path)),
        }
    }

    fn folder(&mut self, path: &Path, name: String, files: &[PathBuf]) -> Candidate {
        let signature = signature(files);
        let missing = self.check(path, &signature, |ready| {
            complete::folder(path, files)?;
            ready.map_or(Ok(()), |ready| is_there(path, ready))
        });
        Candidate {
            step: self.step(&name, path),
            name,
            path: path.to_owned(),
            kind: Kind::Folder,
            signature,
            missing,
        }
    }

    /// A GGUF file, unless it is a further part of one.
    fn gguf(&mut self, path: PathBuf, name: &str) -> Option<Candidate> {
        let parts = complete::gguf_parts(&path)?;
        let signature = signature(&parts);
        let missing = self.check(&path, &signature, |_| {
            if let Some(part) = parts.iter().find(|part| !part.is_file()) {
                return Err(format!("`{}` is not there yet", file_name(part)));
            }
            complete::file(&path)
        });
        // The last directory may have the step: `step1000/model.gguf`.
        let stem = name.trim_end_matches(".gguf").to_owned();
        let step = self.step(&stem, Path::new(""));
        Some(Candidate { step, name: stem, path, kind: Kind::Gguf, signature, missing })
    }

    /// Something in another format: complete when its files stay as they are, and when the file that says so is there.
    fn foreign(&mut self, path: PathBuf, name: String) -> Candidate {
        let files = if path.is_dir() { all_files(&path) } else { vec![path.clone()] };
        let signature = signature(&files);
        let missing = self.check(&path, &signature, |ready| {
            if files.is_empty() {
                return Err("it is empty".to_owned());
            }
            if let Some(file) = files.iter().find(|file| complete::is_temporary(&file_name(file))) {
                return Err(format!("`{}` is still being written", file_name(file)));
            }
            ready.map_or(Ok(()), |ready| is_there(&path, ready))
        });
        Candidate { step: self.step(&name, &path), name, path, kind: Kind::Foreign, signature, missing }
    }

    fn waiting(&self, path: PathBuf, name: String, reason: &str) -> Candidate {
        let step = self.step(&name, &path);
        Candidate {
            step,
            name,
            path,
            kind: Kind::Folder,
            signature: String::new(),
            missing: Some(reason.to_owned()),
        }
    }

    /// The reason why files are incomplete, computed again when they have changed.
    fn check(
        &mut self,
        path: &Path,
        signature: &str,
        check: impl FnOnce(Option<&str>) -> Result<(), String>,
    ) -> Option<String> {
        if let Some((_, missing)) = self.checked.get(path).filter(|(known, _)| known == signature) {
            return missing.clone();
        }
        let missing = check(self.ready.as_deref()).err();
        self.checked.insert(path.to_owned(), (signature.to_owned(), missing.clone()));
        missing
    }
}

/// Whether a file is a checkpoint in a format that no model reads.
fn is_foreign(path: &Path) -> bool {
    FOREIGN.iter().any(|extension| has_extension(path, extension))
}

fn is_there(folder: &Path, name: &str) -> Result<(), String> {
    if folder.join(name).exists() { Ok(()) } else { Err(format!("`{name}` is not there yet")) }
}

fn join(inside: &str, name: &str) -> String {
    if inside.is_empty() { name.to_owned() } else { format!("{inside}/{name}") }
}

/// The files and the folders of a folder. One that cannot be read is empty; the next look may see more.
fn list(folder: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths.into_iter().partition(|path| !path.is_dir())
}

fn all_files(folder: &Path) -> Vec<PathBuf> {
    let (mut files, folders) = list(folder);
    files.extend(folders.iter().flat_map(|folder| all_files(folder)));
    files
}

/// Names, sizes and times of files, hashed.
fn signature(files: &[PathBuf]) -> String {
    let mut hash = Sha256::new();
    for path in files {
        let of_file = fs::metadata(path).ok().map(|meta| {
            let time = meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            (meta.len(), time.map_or(0, |time| time.as_nanos()))
        });
        hash.update(format!("{} {of_file:?}\n", file_name(path)));
    }
    hexadecimal(&hash.finalize())
}

/// Identifies the content of a checkpoint by its sizes and by parts of its files, so that a renamed or copied one is recognised.
pub(super) fn identity(candidate: &Candidate) -> std::io::Result<String> {
    let path = &candidate.path;
    Ok(match candidate.kind {
        Kind::Revision => candidate.signature.clone(),
        Kind::Gguf => hash_contents(&complete::gguf_parts(path).unwrap_or_default())?,
        Kind::Foreign if !path.is_dir() => hash_contents(std::slice::from_ref(path))?,
        Kind::Foreign => hash_contents(&all_files(path))?,
        Kind::Folder => {
            let files = list(path).0;
            let weights = complete::folder(path, &files).map_err(std::io::Error::other)?;
            format!("{}{}", hash_contents(&weights)?, hash_small_files(path, path)?)
        }
    })
}
