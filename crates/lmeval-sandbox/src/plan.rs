//! What the supervisor tells the process that becomes the interpreter.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::error::Error;
use crate::limits::Limits;

/// What the process is to do before it becomes the interpreter, and what the supervisor has done already.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    /// The interpreter.
    pub(crate) executable: PathBuf,
    /// The arguments of the interpreter.
    pub(crate) arguments: Vec<String>,
    /// What the program may read.
    pub(crate) read: Vec<PathBuf>,
    /// The folder that is the program's own.
    pub(crate) folder: PathBuf,
    /// How much it may take.
    pub(crate) limits: Limits,
    /// What the supervisor has done.
    pub(crate) surroundings: Surroundings,
}

/// What is in force around the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Surroundings {
    /// The kinds of names that the process does not share with others.
    pub(crate) namespaces: Vec<String>,
    /// Why it shares the rest.
    pub(crate) shared_because: Option<String>,
    /// Whether the folder has a size of its own.
    pub(crate) has_disk: bool,
    /// Whether the process belongs to a user without rights.
    pub(crate) is_nobody: bool,
}

impl Surroundings {
    /// Whether the process has a kind of names to itself.
    pub(crate) fn has(&self, namespace: &str) -> bool {
        self.namespaces.iter().any(|name| name == namespace)
    }
}

impl Plan {
    /// The plan as text for a command line.
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
            "namespaces": self.surroundings.namespaces,
            "shared_because": self.surroundings.shared_because,
            "has_disk": self.surroundings.has_disk,
            "is_nobody": self.surroundings.is_nobody,
        })
        .to_string()
    }

    /// The plan that [`Plan::to_text`] wrote.
    pub(crate) fn from_text(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Malformed("the plan of a program".to_owned());
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
            surroundings: Surroundings {
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
    fn a_plan_comes_back_from_its_text() {
        let plan = Plan {
            executable: "/usr/bin/python3".into(),
            arguments: vec!["-c".to_owned(), "a \"b\"\n".to_owned()],
            read: vec!["/usr".into()],
            folder: "/tmp/x".into(),
            limits: Limits { time: Duration::from_millis(1500), ..Limits::default() },
            surroundings: Surroundings {
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
