//! Installs a library from the package index, an archive or a folder.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fs_err as fs;
use lmeval::library::{Home, Installed, Version};
use lmeval_core::Diagnostic;

use super::change::Change;
use super::target::{Limits, Target};
use super::{archive, folder, pip};

/// A library to install.
#[derive(Debug)]
pub(crate) struct Pull {
    version: Option<Version>,
    from: Option<PathBuf>,
    python: Option<PathBuf>,
    force: bool,
}

/// The result of an installation.
#[derive(Debug)]
pub(crate) enum Installation {
    /// The library was installed and is now the default.
    New {
        library: Installed,
        /// The number of files in it.
        files: usize,
    },
    /// The version was already installed; it is now the default.
    AlreadyInstalled(Installed),
}

impl Pull {
    /// Checks the arguments.
    pub(crate) fn new(
        version: Option<&str>,
        from: Option<PathBuf>,
        python: Option<PathBuf>,
        force: bool,
    ) -> Result<Self> {
        let version = version.map(Version::parse).transpose()?;
        if let Some(version) = version.as_ref().filter(|version| from.is_none() && !version.is_release()) {
            let diagnostic = Diagnostic::new(format!("`{version}` is not a version of the package"));
            bail!(diagnostic.hint("Omit the version to get the newest"));
        }
        Ok(Self { version, from, python, force })
    }

    /// Installs the library and makes it the default; `note` receives progress messages.
    pub(crate) fn run(&self, home: &Home, note: &mut dyn FnMut(&str)) -> Result<Installation> {
        match &self.from {
            Some(path) if path.is_dir() => self.pull_folder(home, path, note),
            Some(path) => self.pull_archive(home, path, note),
            None => self.pull_package(home, note),
        }
    }

    fn pull_package(&self, home: &Home, note: &mut dyn FnMut(&str)) -> Result<Installation> {
        let already_installed =
            |version: &Version| installed(home, version).map(|library| library.filter(|_| !self.force));
        if let Some(library) = self.version.as_ref().map(already_installed).transpose()?.flatten() {
            return Ok(Installation::AlreadyInstalled(
                Change::start(home, note)?.set_default(&library.version)?,
            ));
        }
        let python = pip::find_python(self.python.as_deref())?;
        let change = Change::start(home, note)?;
        note(&format!("Downloading with {} -m pip", python.display()));
        let wheel = pip::download(&python, self.version.as_ref(), &change.downloads()?)?;
        if let Some(library) = version_in_name(&wheel).as_ref().map(already_installed).transpose()?.flatten()
        {
            return Ok(Installation::AlreadyInstalled(change.set_default(&library.version)?));
        }
        // The package determines the name of its version: `0.4.9` may have been requested as `0.4.9.0`.
        self.unpack(home, change, &wheel, None)
    }

    fn pull_archive(&self, home: &Home, path: &Path, note: &mut dyn FnMut(&str)) -> Result<Installation> {
        if let Some(version) = self.version.clone().or_else(|| version_in_name(path)) {
            self.reject_if_installed(home, &version)?;
        }
        self.unpack(home, Change::start(home, note)?, path, self.version.clone())
    }

    fn unpack(
        &self,
        home: &Home,
        change: Change,
        path: &Path,
        version: Option<Version>,
    ) -> Result<Installation> {
        let mut target = Target::create(change.tasks(), Limits::default())?;
        let contents = archive::unpack(path, &mut target)
            .with_context(|| format!("`{}` cannot be installed", path.display()))?;
        let version = version.or(contents.version).or_else(|| version_in_name(path));
        let Some(version) = version else {
            let diagnostic = Diagnostic::new(format!("`{}` does not state its version", path.display()));
            bail!(diagnostic.hint("Give the version: lm-eval tasks pull VERSION --from …"));
        };
        self.reject_if_installed(home, &version)?;
        Ok(Installation::New { library: change.install(&version)?, files: target.files() })
    }

    fn pull_folder(&self, home: &Home, path: &Path, note: &mut dyn FnMut(&str)) -> Result<Installation> {
        let tasks = folder::find_tasks(path)?;
        let version = self.version.clone().map_or_else(|| folder::version(&tasks), Ok)?;
        let change = Change::start(home, note)?;
        self.reject_if_installed(home, &version)?;
        let mut target = Target::create(change.tasks(), Limits::default())?;
        if fs::canonicalize(change.tasks())?.starts_with(&tasks) {
            bail!("`{}` contains the folder that libraries are installed in", tasks.display());
        }
        let skipped_links = folder::copy(&tasks, &mut target)
            .with_context(|| format!("`{}` cannot be installed", path.display()))?;
        if skipped_links > 0 {
            note(&format!("Skipped {skipped_links} links that point outside the folder or to folders"));
        }
        Ok(Installation::New { library: change.install(&version)?, files: target.files() })
    }

    fn reject_if_installed(&self, home: &Home, version: &Version) -> Result<()> {
        match installed(home, version)? {
            Some(library) if !self.force => {
                let message = format!("`{version}` is already installed: {}", library.path.display());
                bail!(Diagnostic::new(message).hint(format!(
                    "`--force` replaces it, `lm-eval tasks use {version}` makes it the default"
                )))
            }
            _ => Ok(()),
        }
    }
}

fn installed(home: &Home, version: &Version) -> Result<Option<Installed>> {
    Ok(home.installed()?.into_iter().find(|library| library.version == *version))
}

/// The version in a name such as `lm_eval-0.4.13-py3-none-any.whl` or `lm_eval-0.4.13.tar.gz`.
fn version_in_name(path: &Path) -> Option<Version> {
    let name = path.file_name()?.to_str()?;
    let rest = name.strip_prefix("lm_eval-").or_else(|| name.strip_prefix("lm-eval-"))?;
    let text = match rest.strip_suffix(".whl") {
        Some(wheel) => wheel.split('-').next()?,
        None => [".tar.gz", ".tgz", ".tar", ".zip"].iter().find_map(|ending| rest.strip_suffix(ending))?,
    };
    Version::parse(text).ok().filter(Version::is_release)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_versions_in_file_names() {
        let version = |name: &str| version_in_name(Path::new(name)).map(|version| version.to_string());
        assert_eq!(version("/a/lm_eval-0.4.13-py3-none-any.whl").as_deref(), Some("0.4.13"));
        assert_eq!(version("lm_eval-0.4.9.post1.tar.gz").as_deref(), Some("0.4.9.post1"));
        assert_eq!(version("lm-eval-0.4.0.zip").as_deref(), Some("0.4.0"));
        assert_eq!(version("lm_eval-main.zip"), None);
        assert_eq!(version("tasks.zip"), None);
        assert_eq!(version("lm_eval-..-x.whl"), None);
    }

    #[test]
    fn only_releases_are_downloaded() {
        assert!(Pull::new(Some("latest"), None, None, false).is_err());
        assert!(Pull::new(Some("../x"), None, None, false).is_err());
        assert!(Pull::new(Some("latest"), Some("x.whl".into()), None, false).is_ok());
        assert!(Pull::new(Some("0.4.13"), None, None, false).is_ok());
    }
}
