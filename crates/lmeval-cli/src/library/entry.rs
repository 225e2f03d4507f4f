//! Classifies the entries of an archive and rejects unsafe names.

use std::path::PathBuf;

use anyhow::{Result, bail};

/// The kind of an entry in an archive.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    /// A file of the task folder.
    Task {
        /// The folder above `lm_eval/tasks`: empty in a wheel, `lm_eval-0.4.13` in a source archive.
        prefix: String,
        /// The path below `lm_eval/tasks`.
        path: PathBuf,
    },
    /// The package metadata, which states the version.
    Metadata,
    /// Anything else.
    Other,
}

/// Checks the name of an entry and classifies it.
///
/// A name that could escape the target folder on any system, or is not normalized, rejects the whole archive,
/// wherever the entry is: no legitimate tool writes such names. One leading `./`, as written by `tar`, is
/// accepted.
pub(super) fn classify(raw: &[u8]) -> Result<EntryKind> {
    let Ok(name) = std::str::from_utf8(raw) else {
        bail!("The archive contains a name that is not UTF-8: `{}`", raw.escape_ascii());
    };
    let simple = name.strip_prefix("./").unwrap_or(name);
    let simple = simple.strip_suffix('/').unwrap_or(simple);
    // The entry that `tar` writes for the packed folder itself.
    if name == "." || name == "./" {
        return Ok(EntryKind::Other);
    }
    if let Some(reason) = simple.split('/').find_map(component_problem).or_else(|| name_problem(simple)) {
        bail!("The archive contains an unsafe name, `{}`: {reason}", name.escape_debug());
    }
    let parts: Vec<&str> = simple.split('/').collect();
    Ok(match parts.as_slice() {
        ["lm_eval", "tasks", rest @ ..] if !rest.is_empty() => {
            EntryKind::Task { prefix: String::new(), path: rest.iter().collect() }
        }
        [prefix, "lm_eval", "tasks", rest @ ..] if !rest.is_empty() => {
            EntryKind::Task { prefix: (*prefix).to_owned(), path: rest.iter().collect() }
        }
        [folder, "METADATA"] if folder.starts_with("lm_eval-") && folder.ends_with(".dist-info") => {
            EntryKind::Metadata
        }
        [_, "PKG-INFO"] => EntryKind::Metadata,
        _ => EntryKind::Other,
    })
}

/// The problem with one component of a name.
fn component_problem(part: &str) -> Option<&'static str> {
    match part {
        "" => Some("it is absolute or has an empty component"),
        ".." => Some("it contains `..`"),
        "." => Some("it is not normalized"),
        _ if part.contains('\\') => Some("it contains a backslash"),
        _ if part.contains(':') => Some("it contains a colon, like a drive letter"),
        _ if part.chars().any(char::is_control) => Some("it contains a control character"),
        _ if part.ends_with(['.', ' ']) => {
            Some("a component ends in a dot or space, which some systems drop")
        }
        _ if is_device(part) => Some("it is a device name on some systems"),
        _ => None,
    }
}

/// The problem with a full name.
fn name_problem(name: &str) -> Option<&'static str> {
    const LONGEST: usize = 1024;
    (name.len() > LONGEST).then_some("it is too long")
}

/// Whether Windows treats a name as a device, with or without an extension.
fn is_device(part: &str) -> bool {
    let stem = part.split('.').next().unwrap_or(part).to_ascii_lowercase();
    matches!(stem.as_str(), "con" | "prn" | "aux" | "nul")
        || (stem.len() == 4
            && (stem.starts_with("com") || stem.starts_with("lpt"))
            && stem.ends_with(|character: char| character.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(prefix: &str, path: &str) -> EntryKind {
        EntryKind::Task { prefix: prefix.to_owned(), path: path.into() }
    }

    #[test]
    fn classifies_entries_of_wheels_and_source_archives() {
        assert_eq!(classify(b"lm_eval/tasks/arc/arc.yaml").unwrap(), task("", "arc/arc.yaml"));
        assert_eq!(classify(b"./lm_eval/tasks/a.yaml").unwrap(), task("", "a.yaml"));
        assert_eq!(classify(b"lm_eval-0.4.13/lm_eval/tasks/a.py").unwrap(), task("lm_eval-0.4.13", "a.py"));
        assert_eq!(classify("lm_eval/tasks/ü/日本.yaml".as_bytes()).unwrap(), task("", "ü/日本.yaml"));
        assert_eq!(classify(b"lm_eval-0.4.13.dist-info/METADATA").unwrap(), EntryKind::Metadata);
        assert_eq!(classify(b"lm_eval-0.4.13/PKG-INFO").unwrap(), EntryKind::Metadata);
        for other in
            ["lm_eval/tasks/", "lm_eval/tasks", "lm_eval/api.py", "a/b/lm_eval/tasks/x", "./", "tasks/a.yaml"]
        {
            assert_eq!(classify(other.as_bytes()).unwrap(), EntryKind::Other, "{other}");
        }
    }

    #[test]
    fn rejects_unsafe_names() {
        for evil in [
            "../x",
            "lm_eval/tasks/../../../x",
            "lm_eval/tasks/..",
            "/etc/passwd",
            "//server/share/x",
            "lm_eval/tasks//x",
            "lm_eval/./tasks/x",
            "././x",
            "C:/x",
            "lm_eval/tasks/C:x",
            "lm_eval/tasks/a:stream",
            "lm_eval\\tasks\\x",
            "lm_eval/tasks/..\\..\\x",
            "lm_eval/tasks/a\0b",
            "lm_eval/tasks/a\nb",
            "lm_eval/tasks/a./x",
            "lm_eval/tasks/a /x",
            "lm_eval/tasks/...",
            "lm_eval/tasks/NUL",
            "lm_eval/tasks/com1.yaml",
            "",
        ] {
            assert!(classify(evil.as_bytes()).is_err(), "{evil:?}");
        }
        assert!(classify(b"lm_eval/tasks/\xff").is_err());
        assert!(classify(format!("lm_eval/tasks/{}", "a/".repeat(600)).as_bytes()).is_err());
    }
}
