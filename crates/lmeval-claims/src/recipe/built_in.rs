//! The recipes in the binary.

use std::path::PathBuf;

use crate::Error;
use crate::document::Document;

/// The folder that their paths begin with in messages.
pub const FOLDER: &str = "builtin:/recipes";

/// Embeds files below `recipes/`.
macro_rules! table {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/recipes/", $name, ".yaml")))),*]
    };
}

/// Every recipe, sorted by name.
static FILES: &[(&str, &str)] = table![
    "dclm-core",
    "demo",
    "fineweb-early-signal",
    "llama-3.1-instruct",
    "nanochat-core",
    "open-llm-leaderboard-v1",
    "open-llm-leaderboard-v2",
    "pythia",
    "vllm-ci",
];

/// The names of the recipes in the binary.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// The file of a recipe in the binary.
pub fn built_in(name: &str) -> Result<Option<Document>, Error> {
    let Some((name, text)) = FILES.iter().find(|(known, _)| *known == name) else { return Ok(None) };
    Document::parse(&PathBuf::from(format!("{FOLDER}/{name}.yaml")), text.as_bytes()).map(Some)
}
