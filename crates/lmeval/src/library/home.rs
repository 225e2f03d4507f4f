//! The folder of installed libraries.
//!
//! ```text
//! <home>/libraries/default                      the version used by default
//! <home>/libraries/<version>/lm_eval/tasks/…    one library
//! ```

use std::io;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use fs_err as fs;
use lmeval_core::Diagnostic;
use lmeval_engine::EngineError;

use super::version::Version;
use super::{LM_EVAL_HOME, TASKS_FOLDER};

/// An installed library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The package version, or the name the library was given.
    pub version: Version,
    /// The folder of task definitions, `…/lm_eval/tasks`.
    pub path: PathBuf,
    /// Whether this library is used by default.
    pub default: bool,
}

/// The folder for what can be computed again: below `LM_EVAL_HOME`, or else in the user's folder for caches.
pub fn cache_folder() -> Option<PathBuf> {
    match std::env::var_os(LM_EVAL_HOME).filter(|value| !value.is_empty()) {
        Some(home) => std::path::absolute(Path::new(&home).join("cache")).ok(),
        None => etcetera::choose_base_strategy().ok().map(|strategy| strategy.cache_dir().join("lm-eval")),
    }
}

/// The folder of installed libraries. If it does not exist, nothing is installed. The default is that of a user without a home.
#[derive(Clone, Debug, Default)]
pub struct Home {
    /// `<home>/libraries`; `None` if the user has no home folder.
    libraries: Option<PathBuf>,
}

impl Home {
    /// The home set in the environment: `LM_EVAL_HOME`, or else `lm-eval` in the user's data directory.
    pub fn from_environment() -> Result<Self, EngineError> {
        match std::env::var_os(LM_EVAL_HOME).filter(|value| !value.is_empty()) {
            Some(home) => Self::at(Path::new(&home)),
            None => match etcetera::choose_base_strategy() {
                Ok(strategy) => Self::at(&strategy.data_dir().join("lm-eval")),
                Err(_) => Ok(Self::default()),
            },
        }
    }

    /// The home in this folder.
    pub fn at(folder: &Path) -> Result<Self, EngineError> {
        let folder = std::path::absolute(folder).map_err(|error| {
            Diagnostic::new(format!("`{}` is not a valid path", folder.display())).caused_by(error)
        })?;
        Ok(Self { libraries: Some(folder.join("libraries")) })
    }

    /// The folder that contains the libraries; `None` if the user has no home folder.
    pub fn libraries(&self) -> Option<&Path> {
        self.libraries.as_deref()
    }

    /// All installed libraries, oldest version first.
    pub fn installed(&self) -> Result<Vec<Installed>, EngineError> {
        let Some(libraries) = &self.libraries else {
            return Ok(Vec::new());
        };
        let entries = match fs::read_dir(libraries) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unlisted(error).into()),
        };
        let mut versions = Vec::new();
        for entry in entries {
            let name = entry.map_err(unlisted)?.file_name();
            let version = name.to_str().and_then(|name| Version::parse(name).ok());
            if let Some(version) = version.filter(|version| tasks_of(libraries, version).is_dir()) {
                versions.push(version);
            }
        }
        versions.sort();
        let named = default_named(libraries)?.filter(|named| versions.contains(named));
        // A missing default, perhaps deleted by hand, must not leave the commands without a library.
        let default = named.or_else(|| versions.last().cloned());
        let installed = versions.into_iter().map(|version| Installed {
            path: tasks_of(libraries, &version),
            default: default.as_ref() == Some(&version),
            version,
        });
        Ok(installed.collect())
    }

    /// The task folder of the default library.
    pub fn default_root(&self) -> Result<Option<PathBuf>, EngineError> {
        Ok(self.installed()?.into_iter().find(|library| library.default).map(|library| library.path))
    }

    /// The task folder of a version; `None` if it is not installed.
    pub fn root_of(&self, version: &str) -> Result<Option<PathBuf>, EngineError> {
        let library = self.installed()?.into_iter().find(|library| library.version.as_str() == version);
        Ok(library.map(|library| library.path))
    }

    /// An installed library by version, or an error that lists the installed ones.
    pub fn require(&self, version: &str) -> Result<Installed, EngineError> {
        let installed = self.installed()?;
        if let Some(library) = installed.iter().find(|library| library.version.as_str() == version) {
            return Ok(library.clone());
        }
        let version = version.escape_debug();
        if installed.is_empty() {
            let diagnostic = Diagnostic::new(format!("No library `{version}`: none is installed"));
            return Err(diagnostic.hint("`lm-eval tasks pull` installs one").into());
        }
        let names: Vec<String> = installed.iter().map(|library| format!("`{}`", library.version)).collect();
        let diagnostic = Diagnostic::new(format!("No library `{version}` is installed"));
        Err(diagnostic.hint(format!("Installed: {}", names.join(", "))).into())
    }
}

fn unlisted(error: io::Error) -> Diagnostic {
    Diagnostic::new("Cannot list the installed libraries").caused_by(error)
}

fn tasks_of(libraries: &Path, version: &Version) -> PathBuf {
    libraries.join(version.as_str()).join(TASKS_FOLDER)
}

/// The version named in the file `default`, if it exists and is valid.
fn default_named(libraries: &Path) -> Result<Option<Version>, EngineError> {
    match fs::read(libraries.join("default")) {
        Ok(bytes) => Ok(Version::parse(String::from_utf8_lossy(&bytes).trim()).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Diagnostic::new("Cannot read the default library").caused_by(error).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_home_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(&folder.path().join("nowhere")).unwrap();
        assert!(home.installed().unwrap().is_empty());
        assert_eq!(home.default_root().unwrap(), None);
        assert_eq!(home.root_of("0.4.13").unwrap(), None);
        assert!(!folder.path().join("nowhere").exists());
        assert!(Home::default().installed().unwrap().is_empty());
    }
}
