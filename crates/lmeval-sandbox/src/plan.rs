//! The plan that the supervisor passes to the child process.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::error::Error;
use crate::limits::Limits;

/// The limits that the child process applies before it executes the interpreter, and those already in force.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub(crate) executable: PathBuf,
    pub(crate) arguments: Vec<String>,
    /// Paths that are readable in the sandbox.
    pub(crate) read: Vec<PathBuf>,
    /// The temporary folder of the sandbox.
    pub(crate) folder: PathBuf,
    pub(crate) limits: Limits,
    /// The isolation that the supervisor has set up.
    pub(crate) isolation: Isolation,
}

/// The isolation around the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Isolation {
    /// The namespaces that the process does not share with others.
    pub(crate) namespaces: Vec<String>,
    /// Why it shares the other namespaces.
    pub(crate) shared_because: Option<String>,
    /// Whether the folder has its own size limit.
    pub(crate) has_disk: bool,
    /// Whether the process runs as `nobody`.
    pub(crate) is_nobody: bool,
}

impl Isolation {
    /// Whether the process has its own namespace of a kind.
    pub(crate) fn has(&self, namespace: &str) -> bool {
        self.namespaces.iter().any(|name| name == namespace)
    }
}

impl Plan {
    /// Serialises the plan for a command line.
    pub(crate) fn to_text(&self) -> String {
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        json!({
            "executable": text(&self.executable),
            "arguments": self.arguments,
            "read": self.read.iter().map(text).collect::<Vec<_>>(),
            "folder": text(&self.folder),
            "time": self.limits.time.as_secs_f64(),
            "memory": self.limits.memory,
            "file_size": self.limits.file_size,
            "disk": self.limits.disk,
            "open_files": self.limits.open_files,
            "threads": self.limits.threads,
            "namespaces": self.isolation.namespaces,
            "shared_because": self.isolation.shared_because,
            "has_disk": self.isolation.has_disk,
            "is_nobody": self.isolation.is_nobody,
        })
        .to_string()
    }

    /// Parses the output of [`Plan::to_text`].
    pub(crate) fn from_text(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Malformed("plan".to_owned());
        let value: Value = serde_json::from_str(text).map_err(|_| wrong())?;
        let string = |name: &str| value[name].as_str().map(str::to_owned).ok_or_else(wrong);
        let number = |name: &str| value[name].as_u64().ok_or_else(wrong);
        let flag = |name: &str| value[name].as_bool().ok_or_else(wrong);
        let strings = |name: &str| {
            let items = value[name].as_array().ok_or_else(wrong)?;
            items
                .iter()
                .map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong))
                .collect::<Result<Vec<_>, _>>()
        };
        let read: Vec<String> = strings("read")?;
        let seconds = value["time"].as_f64().ok_or_else(wrong)?;
        Ok(Self {
            executable: string("executable")?.into(),
            arguments: strings("arguments")?,
            read: read.into_iter().map(PathBuf::from).collect(),
            folder: string("folder")?.into(),
            limits: Limits {
                time: Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?,
                memory: number("memory")?,
                file_size: number("file_size")?,
                disk: number("disk")?,
                open_files: number("open_files")?,
                threads: number("threads")?,
            },
            isolation: Isolation {
                namespaces: strings("namespaces")?,
                shared_because: value["shared_because"].as_str().map(str::to_owned),
                has_disk: flag("has_disk")?,
                is_nobody: flag("is_nobody")?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_round_trips() {
        let plan = Plan {
            executable: "/usr/bin/python3".into(),
            arguments: vec!["-c".to_owned(), "a \"b\"\n".to_owned()],
            read: vec!["/usr".into()],
            folder: "/tmp/x".into(),
            limits: Limits { time: Duration::from_millis(1500), ..Limits::default() },
            isolation: Isolation {
                namespaces: vec!["network".to_owned()],
                shared_because: Some("no".to_owned()),
                has_disk: true,
                is_nobody: false,
            },
        };
        assert_eq!(Plan::from_text(&plan.to_text()).unwrap(), plan);
        assert!(Plan::from_text("{}").is_err());
    }
}
