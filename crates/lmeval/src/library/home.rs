//! The folder of installed libraries.
//!
//! ```text
//! <home>/libraries/default                      the version used by default
//! <home>/libraries/<version>/lm_eval/tasks/…    one library
//! <home>/libraries/.work-…                      a change in progress
//! <home>/libraries/.lock                        held during changes
//! ```

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use etcetera::BaseStrategy;
use fs_err as fs;
use lmeval_core::Diagnostic;
use tempfile::TempDir;

use super::LM_EVAL_HOME;
use super::entry::TASKS_FOLDER;
use super::version::Version;

/// Prefix of folders with changes in progress.
const WORK_PREFIX: &str = ".work-";

/// The subfolder of a work folder with the library being replaced.
const REPLACED: &str = "replaced";

/// The subfolder of a work folder that becomes the library.
const NEW: &str = "new";

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

/// The folder of installed libraries. If it does not exist, nothing is installed.
#[derive(Clone, Debug)]
pub struct Home {
    /// `<home>/libraries`; `None` if the user has no home folder.
    libraries: Option<PathBuf>,
}

impl Home {
    /// The home set in the environment: `LM_EVAL_HOME`, or else `lm-eval` in the user's data directory.
    pub fn from_environment() -> Result<Self> {
        match std::env::var_os(LM_EVAL_HOME).filter(|value| !value.is_empty()) {
            Some(home) => Self::at(Path::new(&home)),
            None => match etcetera::choose_base_strategy() {
                Ok(strategy) => Self::at(&strategy.data_dir().join("lm-eval")),
                Err(_) => Ok(Self { libraries: None }),
            },
        }
    }

    /// The home in this folder.
    pub fn at(folder: &Path) -> Result<Self> {
        let folder = std::path::absolute(folder)
            .with_context(|| format!("`{}` is not a valid path", folder.display()))?;
        Ok(Self { libraries: Some(folder.join("libraries")) })
    }

    /// All installed libraries, oldest version first.
    pub fn installed(&self) -> Result<Vec<Installed>> {
        let Some(libraries) = &self.libraries else {
            return Ok(Vec::new());
        };
        let entries = match fs::read_dir(libraries) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).context("Cannot list the installed libraries"),
        };
        let mut versions = Vec::new();
        for entry in entries {
            let name = entry.context("Cannot list the installed libraries")?.file_name();
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
    pub fn default_root(&self) -> Result<Option<PathBuf>> {
        Ok(self.installed()?.into_iter().find(|library| library.default).map(|library| library.path))
    }

    /// The task folder of a version; `None` if it is not installed.
    pub fn root_of(&self, version: &str) -> Result<Option<PathBuf>> {
        let library = self.installed()?.into_iter().find(|library| library.version.as_str() == version);
        Ok(library.map(|library| library.path))
    }

    /// An installed library by version, or an error that lists the installed ones.
    pub fn require(&self, version: &str) -> Result<Installed> {
        let installed = self.installed()?;
        if let Some(library) = installed.iter().find(|library| library.version.as_str() == version) {
            return Ok(library.clone());
        }
        let version = version.escape_debug();
        if installed.is_empty() {
            let diagnostic = Diagnostic::new(format!("No library `{version}`: none is installed"));
            bail!(diagnostic.hint("`lm-eval tasks pull` installs one"));
        }
        let names: Vec<String> = installed.iter().map(|library| format!("`{}`", library.version)).collect();
        let diagnostic = Diagnostic::new(format!("No library `{version}` is installed"));
        bail!(diagnostic.hint(format!("Installed: {}", names.join(", "))));
    }

    /// Starts a change, after waiting for other changes (reported to `note`) and cleaning up after interrupted ones.
    pub fn change(&self, note: &mut dyn FnMut(&str)) -> Result<Change> {
        let libraries = self.libraries.clone().ok_or_else(|| {
            Diagnostic::new("No home folder to install into")
                .hint(format!("Set `{LM_EVAL_HOME}` to a folder"))
        })?;
        fs::create_dir_all(&libraries).context("Cannot create the library folder")?;
        let lock =
            fs::OpenOptions::new().create(true).truncate(false).write(true).open(libraries.join(".lock"))?;
        if lock.file().try_lock().is_err() {
            note("Waiting for another process to finish changing the libraries");
            lock.file().lock().context("Cannot lock the library folder")?;
        }
        tidy(&libraries)?;
        let work = tempfile::Builder::new()
            .prefix(WORK_PREFIX)
            .tempdir_in(&libraries)
            .context("Cannot write to the library folder")?;
        Ok(Change { work, _lock: lock, home: self.clone(), libraries })
    }
}

/// A change to the installed libraries. Nothing visible to others changes before [`Change::install`] or
/// [`Change::remove`].
#[derive(Debug)]
pub struct Change {
    // Fields drop in this order: the work folder is deleted while the lock is held.
    work: TempDir,
    _lock: fs::File,
    home: Home,
    libraries: PathBuf,
}

impl Change {
    /// The folder for the tasks of a new library; it does not exist yet.
    pub fn tasks(&self) -> PathBuf {
        self.work.path().join(NEW).join(TASKS_FOLDER)
    }

    /// An empty folder for downloads.
    pub fn downloads(&self) -> Result<PathBuf> {
        let folder = self.work.path().join("downloads");
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Moves the new library into place and makes it the default.
    pub fn install(self, version: &Version) -> Result<Installed> {
        let target = self.libraries.join(version.as_str());
        let replaced = self.work.path().join(REPLACED);
        let backup = replaced.join(version.as_str());
        if fs::symlink_metadata(&target).is_ok() {
            fs::create_dir_all(&replaced)?;
            fs::rename(&target, &backup)?;
        }
        if let Err(error) = fs::rename(self.work.path().join(NEW), &target) {
            if fs::symlink_metadata(&backup).is_ok()
                && let Err(error) = fs::rename(&backup, &target)
            {
                // The next change restores the library from the work folder.
                let _ = self.work.keep();
                return Err(error).context("Cannot restore the replaced library");
            }
            return Err(error).context("Cannot move the library into place");
        }
        self.set_default(version)
    }

    /// Makes an installed library the default.
    pub fn set_default(self, version: &Version) -> Result<Installed> {
        let written = self.work.path().join("default");
        fs::write(&written, format!("{version}\n"))?;
        fs::rename(&written, self.libraries.join("default")).context("Cannot set the default library")?;
        self.home.require(version.as_str())
    }

    /// Deletes a library; returns the new default if it was the default.
    pub fn remove(self, library: &Installed) -> Result<Option<Installed>> {
        fs::rename(self.libraries.join(library.version.as_str()), self.work.path().join("removed"))
            .context("Cannot remove the library")?;
        if !library.default {
            return Ok(None);
        }
        match self.home.installed()?.pop() {
            Some(newest) => self.set_default(&newest.version).map(Some),
            None => {
                fs::remove_file(self.libraries.join("default")).or_else(|error| {
                    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
                })?;
                Ok(None)
            }
        }
    }
}

fn tasks_of(libraries: &Path, version: &Version) -> PathBuf {
    libraries.join(version.as_str()).join(TASKS_FOLDER)
}

/// The version named in the file `default`, if it exists and is valid.
fn default_named(libraries: &Path) -> Result<Option<Version>> {
    match fs::read(libraries.join("default")) {
        Ok(bytes) => Ok(Version::parse(String::from_utf8_lossy(&bytes).trim()).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context("Cannot read the default library"),
    }
}

/// Cleans up after interrupted changes: restores libraries that were being replaced and deletes the rest.
fn tidy(libraries: &Path) -> Result<()> {
    for entry in fs::read_dir(libraries)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(WORK_PREFIX) {
            continue;
        }
        if let Ok(replaced) = fs::read_dir(entry.path().join(REPLACED)) {
            for kept in replaced.flatten() {
                let target = libraries.join(kept.file_name());
                if fs::symlink_metadata(&target).is_err() {
                    fs::rename(kept.path(), target)?;
                }
            }
        }
        fs::remove_dir_all(entry.path())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    fn install(home: &Home, name: &str, content: &str) -> Installed {
        let change = home.change(&mut |_| {}).unwrap();
        fs::create_dir_all(change.tasks()).unwrap();
        fs::write(change.tasks().join("a.yaml"), content).unwrap();
        change.install(&version(name)).unwrap()
    }

    fn names(home: &Home) -> Vec<String> {
        let mark =
            |library: Installed| format!("{}{}", if library.default { "*" } else { "" }, library.version);
        home.installed().unwrap().into_iter().map(mark).collect()
    }

    fn leftovers(home: &Home) -> usize {
        let entries = fs::read_dir(home.libraries.as_ref().unwrap()).unwrap().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(WORK_PREFIX)).count()
    }

    #[test]
    fn missing_home_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(&folder.path().join("nowhere")).unwrap();
        assert!(home.installed().unwrap().is_empty());
        assert_eq!(home.default_root().unwrap(), None);
        assert_eq!(home.root_of("0.4.13").unwrap(), None);
        assert!(!folder.path().join("nowhere").exists());
        let none = Home { libraries: None };
        assert!(none.installed().unwrap().is_empty());
        let error = none.change(&mut |_| {}).unwrap_err();
        assert!(error.downcast_ref::<Diagnostic>().unwrap().hints[0].contains("LM_EVAL_HOME"));
    }

    #[test]
    fn installs_replaces_and_removes() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path()).unwrap();
        let first = install(&home, "0.4.9", "one");
        assert!(first.default && first.path.ends_with("libraries/0.4.9/lm_eval/tasks"));
        install(&home, "0.4.13", "two");
        assert_eq!(names(&home), ["0.4.9", "*0.4.13"]);
        home.change(&mut |_| {}).unwrap().set_default(&version("0.4.9")).unwrap();
        assert_eq!(names(&home), ["*0.4.9", "0.4.13"]);
        assert_eq!(home.default_root().unwrap(), Some(first.path.clone()));
        install(&home, "0.4.9", "three");
        assert_eq!(fs::read_to_string(first.path.join("a.yaml")).unwrap(), "three");
        assert_eq!(leftovers(&home), 0);

        let removed = home.require("0.4.9").unwrap();
        let next = home.change(&mut |_| {}).unwrap().remove(&removed).unwrap();
        assert_eq!(next.unwrap().version.as_str(), "0.4.13");
        assert_eq!(names(&home), ["*0.4.13"]);
        let error = home.require("0.4.9").unwrap_err();
        assert!(error.to_string().contains("No library `0.4.9` is installed"));
        assert_eq!(error.downcast_ref::<Diagnostic>().unwrap().hints, ["Installed: `0.4.13`"]);
        let last = home.require("0.4.13").unwrap();
        assert_eq!(home.change(&mut |_| {}).unwrap().remove(&last).unwrap(), None);
        assert!(names(&home).is_empty());
        assert_eq!(leftovers(&home), 0);
        assert!(home.require("../x").is_err());
    }

    #[test]
    fn recovers_from_interrupted_changes() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path()).unwrap();
        install(&home, "0.4.9", "old");
        let libraries = folder.path().join("libraries");
        // Killed while unpacking.
        fs::create_dir_all(libraries.join(".work-dead/new/lm_eval/tasks")).unwrap();
        assert_eq!(names(&home), ["*0.4.9"]);
        // Killed after moving the old library away, before moving the new one into place.
        fs::create_dir_all(libraries.join(".work-late/replaced")).unwrap();
        fs::rename(libraries.join("0.4.9"), libraries.join(".work-late/replaced/0.4.9")).unwrap();
        assert!(names(&home).is_empty());
        drop(home.change(&mut |_| {}).unwrap());
        assert_eq!(names(&home), ["*0.4.9"]);
        assert_eq!(leftovers(&home), 0);
        assert_eq!(fs::read_to_string(libraries.join("0.4.9/lm_eval/tasks/a.yaml")).unwrap(), "old");
    }

    #[test]
    fn stale_default_falls_back_to_the_newest() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path()).unwrap();
        install(&home, "0.4.9", "");
        install(&home, "0.4.13", "");
        for stale in [&b"0.1\n"[..], b"../../etc\n", b"", b"\0", b"\xff\xfe0.4.9"] {
            fs::write(folder.path().join("libraries/default"), stale).unwrap();
            assert_eq!(names(&home), ["0.4.9", "*0.4.13"]);
        }
        fs::write(folder.path().join("libraries/notes.txt"), "").unwrap();
        fs::create_dir_all(folder.path().join("libraries/empty")).unwrap();
        assert_eq!(names(&home), ["0.4.9", "*0.4.13"]);
    }
}
