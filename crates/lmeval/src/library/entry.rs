//! Which entries of an archive are task files, and which names are refused.

use std::path::PathBuf;

use anyhow::{Result, bail};

/// The folder inside a package that holds the tasks.
pub(crate) const TASKS_FOLDER: &str = "lm_eval/tasks";

/// What an entry of an archive is to us.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A file of the task folder.
    Task {
        /// The folder in front of `lm_eval/tasks`: nothing in a wheel, `lm_eval-0.4.13` in a source archive.
        prefix: String,
        /// The path below `lm_eval/tasks`.
        path: PathBuf,
    },
    /// The description of the package, which states its version.
    Metadata,
    /// Anything else.
    Elsewhere,
}

/// Checks the name of an entry and says where it belongs.
///
/// A name that could lead out of the target folder on any system, or that is not in its simplest form, refuses the
/// whole archive, wherever in the archive it is: no honest tool writes such names. One leading `./`, as `tar` writes
/// it, is fine.
pub(super) fn place(raw: &[u8]) -> Result<Place> {
    let Ok(name) = std::str::from_utf8(raw) else {
        bail!("The archive holds a name that is not UTF-8: `{}`", raw.escape_ascii());
    };
    let simple = name.strip_prefix("./").unwrap_or(name);
    let simple = simple.strip_suffix('/').unwrap_or(simple);
    // What `tar` writes for the folder that was packed.
    if name == "." || name == "./" {
        return Ok(Place::Elsewhere);
    }
    if let Some(reason) = simple.split('/').find_map(fault).or_else(|| whole_fault(simple)) {
        bail!("The archive holds an unsafe name, `{}`: {reason}", name.escape_debug());
    }
    let parts: Vec<&str> = simple.split('/').collect();
    Ok(match parts.as_slice() {
        ["lm_eval", "tasks", rest @ ..] if !rest.is_empty() => {
            Place::Task { prefix: String::new(), path: rest.iter().collect() }
        }
        [prefix, "lm_eval", "tasks", rest @ ..] if !rest.is_empty() => {
            Place::Task { prefix: (*prefix).to_owned(), path: rest.iter().collect() }
        }
        [folder, "METADATA"] if folder.starts_with("lm_eval-") && folder.ends_with(".dist-info") => {
            Place::Metadata
        }
        [_, "PKG-INFO"] => Place::Metadata,
        _ => Place::Elsewhere,
    })
}

/// What is wrong with one part of a name.
fn fault(part: &str) -> Option<&'static str> {
    match part {
        "" => Some("it is absolute or has an empty part"),
        ".." => Some("it leads upwards"),
        "." => Some("it is not in its simplest form"),
        _ if part.contains('\\') => Some("it has a backslash"),
        _ if part.contains(':') => Some("it has a colon, as drive letters have"),
        _ if part.chars().any(char::is_control) => Some("it has a control character"),
        _ if part.ends_with(['.', ' ']) => {
            Some("a part of it ends in a dot or blank, which some systems drop")
        }
        _ if is_device(part) => Some("it names a device on some systems"),
        _ => None,
    }
}

/// What is wrong with a name as a whole.
fn whole_fault(name: &str) -> Option<&'static str> {
    const LONGEST: usize = 1024;
    (name.len() > LONGEST).then_some("it is too long")
}

/// Whether Windows takes a name for a device, with or without an ending.
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

    fn task(prefix: &str, path: &str) -> Place {
        Place::Task { prefix: prefix.to_owned(), path: path.into() }
    }

    #[test]
    fn finds_task_files_in_wheels_and_source_archives() {
        assert_eq!(place(b"lm_eval/tasks/arc/arc.yaml").unwrap(), task("", "arc/arc.yaml"));
        assert_eq!(place(b"./lm_eval/tasks/a.yaml").unwrap(), task("", "a.yaml"));
        assert_eq!(place(b"lm_eval-0.4.13/lm_eval/tasks/a.py").unwrap(), task("lm_eval-0.4.13", "a.py"));
        assert_eq!(place("lm_eval/tasks/ü/日本.yaml".as_bytes()).unwrap(), task("", "ü/日本.yaml"));
        assert_eq!(place(b"lm_eval-0.4.13.dist-info/METADATA").unwrap(), Place::Metadata);
        assert_eq!(place(b"lm_eval-0.4.13/PKG-INFO").unwrap(), Place::Metadata);
        for other in
            ["lm_eval/tasks/", "lm_eval/tasks", "lm_eval/api.py", "a/b/lm_eval/tasks/x", "./", "tasks/a.yaml"]
        {
            assert_eq!(place(other.as_bytes()).unwrap(), Place::Elsewhere, "{other}");
        }
    }

    #[test]
    fn refuses_names_that_could_lead_out() {
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
            assert!(place(evil.as_bytes()).is_err(), "{evil:?}");
        }
        assert!(place(b"lm_eval/tasks/\xff").is_err());
        assert!(place(format!("lm_eval/tasks/{}", "a/".repeat(600)).as_bytes()).is_err());
    }
}
