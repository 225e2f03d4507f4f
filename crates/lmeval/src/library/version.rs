//! Names of installed libraries: package versions or folder names.

use std::cmp::Ordering;
use std::fmt;

use lmeval_core::Diagnostic;
use lmeval_engine::EngineError;

/// Names with a special meaning on the command line or in the home folder.
const RESERVED: [&str; 3] = ["builtin", "default", "none"];

/// The maximum length of a name.
const LONGEST: usize = 64;

/// The validated name of a library, safe as a folder name.
///
/// Versions sort as releases: `0.4.9` before `0.4.13`, `0.5.0rc1` before `0.5.0`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version(String);

impl Version {
    /// Validates a name: letters, digits and `.`, `_`, `+`, `!`, `-`, starting with a letter or digit.
    pub fn parse(text: &str) -> Result<Self, EngineError> {
        match problem(text) {
            None => Ok(Self(text.to_owned())),
            Some(problem) => Err(Diagnostic::new(problem).into()),
        }
    }

    /// Derives a name from that of a folder or file, replacing characters that are not allowed.
    pub fn from_name(name: &str) -> Result<Self, EngineError> {
        let replaced: String = name
            .chars()
            .map(|character| {
                let allowed = character.is_ascii_alphanumeric() || "._+-".contains(character);
                if allowed { character } else { '-' }
            })
            .collect();
        let odd = |character: char| !character.is_ascii_alphanumeric();
        let trimmed = replaced.trim_matches(odd);
        Self::parse(trimmed[..trimmed.len().min(LONGEST)].trim_end_matches(odd))
    }

    /// Whether this can be the version of a released package, which starts with a digit.
    pub fn is_release(&self) -> bool {
        self.0.starts_with(|character: char| character.is_ascii_digit())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The sort key: the epoch, then runs of digits and of letters.
    fn key(&self) -> (u64, Vec<VersionPart<'_>>) {
        let (epoch, rest) = self.0.split_once('!').unwrap_or(("0", &self.0));
        let mut parts = Vec::new();
        let mut rest = rest.as_bytes();
        while let Some(&first) = rest.first() {
            let alike = |byte: &&u8| {
                if first.is_ascii_digit() { byte.is_ascii_digit() } else { byte.is_ascii_alphabetic() }
            };
            let length = rest.iter().take_while(alike).count();
            if length > 0 {
                // `parse` guarantees ASCII.
                parts.push(VersionPart::new(std::str::from_utf8(&rest[..length]).unwrap_or_default()));
            }
            rest = &rest[length.max(1)..];
        }
        (epoch.parse().unwrap_or(0), parts)
    }
}

/// Why a string cannot be the name of a library.
fn problem(text: &str) -> Option<String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._+!-".contains(&byte);
    if text.is_empty() {
        return Some("A version cannot be empty".to_owned());
    }
    if text.len() > LONGEST {
        return Some(format!("A version cannot be longer than {LONGEST} characters"));
    }
    if !text.bytes().all(allowed) || !text.as_bytes()[0].is_ascii_alphanumeric() || text.ends_with('.') {
        return Some(format!(
            "`{}` is not a version: it may contain letters, digits and `._+!-`, and must start with a letter or digit",
            text.escape_debug()
        ));
    }
    let is_reserved = RESERVED.contains(&text.to_ascii_lowercase().as_str());
    is_reserved.then(|| format!("`{text}` cannot be the name of a library: the word is reserved"))
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let ((epoch, parts), (other_epoch, other_parts)) = (self.key(), other.key());
        let by_release = self.is_release().cmp(&other.is_release());
        by_release
            .then_with(|| epoch.cmp(&other_epoch))
            .then_with(|| {
                let longest = parts.len().max(other_parts.len());
                let padded = |parts: &[VersionPart<'_>], index: usize| {
                    parts.get(index).map_or((0, 0), VersionPart::rank)
                };
                (0..longest)
                    .map(|index| padded(&parts, index).cmp(&padded(&other_parts, index)))
                    .find(|order| order.is_ne())
                    .unwrap_or(Ordering::Equal)
            })
            .then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A run of digits or letters in a version.
enum VersionPart<'a> {
    Number(u64),
    Word(&'a str),
}

impl<'a> VersionPart<'a> {
    fn new(run: &'a str) -> Self {
        if run.starts_with(|character: char| character.is_ascii_digit()) {
            Self::Number(run.parse().unwrap_or(u64::MAX))
        } else {
            Self::Word(run)
        }
    }

    /// The rank relative to the end of a version, which is `(0, 0)`: pre-releases sort before it.
    fn rank(&self) -> (i8, u64) {
        match self {
            Self::Number(number) => (3, *number),
            Self::Word(word) => match word.to_ascii_lowercase().as_str() {
                "dev" => (-4, 0),
                "a" | "alpha" => (-3, 0),
                "b" | "beta" => (-2, 0),
                "c" | "rc" | "pre" | "preview" => (-1, 0),
                "post" | "rev" | "r" => (2, 0),
                _ => (1, 0),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_names_that_could_be_paths() {
        for good in ["0.4.13", "0.5.0.dev2", "1!2.0", "0.4.9.post1+local", "my_tasks", "v1"] {
            assert_eq!(Version::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "", ".", "..", ".hidden", "a/b", "a\\b", "../x", "-r", "0.4 ", "0.4.*", "0.4\n", "ü", "a:b",
            "x.", "default", "NONE", "builtin", "0\0", ">=1",
        ] {
            assert!(Version::parse(bad).is_err(), "{bad:?}");
        }
        assert!(Version::parse(&"1".repeat(65)).is_err());
    }

    #[test]
    fn derives_names_from_folders() {
        assert_eq!(Version::from_name("my tasks (2)").unwrap().as_str(), "my-tasks--2");
        assert_eq!(Version::from_name(".hidden").unwrap().as_str(), "hidden");
        assert_eq!(Version::from_name("Ünïts").unwrap().as_str(), "n-ts");
        assert!(Version::from_name("日本").is_err());
    }

    #[test]
    fn sorts_like_releases() {
        let ordered = [
            "alpha-tasks",
            "my_tasks",
            "0.3",
            "0.4.0.dev1",
            "0.4.0a1",
            "0.4.0b2",
            "0.4.0rc1",
            "0.4.0",
            "0.4.0+local",
            "0.4.0.post1",
            "0.4.9",
            "0.4.9.1",
            "0.4.13",
            "0.5.0.dev2",
            "0.5.0",
            "1!0.1",
        ];
        let versions: Vec<Version> = ordered.iter().map(|text| Version::parse(text).unwrap()).collect();
        let mut sorted = versions.clone();
        sorted.reverse();
        sorted.sort();
        assert_eq!(sorted, versions);
    }
}
