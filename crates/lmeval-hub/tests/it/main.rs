//! Tests the client against a stand-in hub on loopback, and the cache against Python's `huggingface_hub`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod addresses;
mod downloads;
mod python;
mod tokens;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lmeval_core::DownloadProgress;
use lmeval_hub::{Client, Error, Kind, Repository, Settings};
use lmeval_testkit::StandInHub;

const ID: &str = "org/name";

/// Large enough for the stand-in hub to redirect to another origin.
fn large() -> Vec<u8> {
    (0..2000).flat_map(|index| format!("line {index}\n").into_bytes()).collect()
}

fn settings(hub: &StandInHub, cache: &Path) -> Settings {
    let mut settings = Settings::isolated(&hub.endpoint(), cache);
    settings.first_wait = Duration::from_millis(1);
    settings.attempts = 3;
    settings
}

fn open(settings: &Settings, kind: Kind) -> Result<Repository, Error> {
    Repository::open(&Arc::new(Client::new(settings)?), kind, ID, "main")
}

/// Reads a file of the model `org/name`.
fn read(settings: &Settings, path: &str) -> Result<Vec<u8>, Error> {
    Ok(fs_err::read(open(settings, Kind::Model)?.fetch(path)?).unwrap())
}

/// Records all progress events.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Notes {
    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn add(&self, note: String) {
        self.0.lock().unwrap().push(note);
    }
}

impl DownloadProgress for Notes {
    fn start(&self, file: &str, done: u64, total: Option<u64>) {
        self.add(format!("start {file} {done} of {total:?}"));
    }

    fn finish(&self, file: &str) {
        self.add(format!("finish {file}"));
    }

    fn waiting(&self, file: &str) {
        self.add(format!("waiting {file}"));
    }

    fn retry(&self, _what: &str, reason: &str, wait: Duration) {
        self.add(format!("retry {reason} {wait:?}"));
    }
}
