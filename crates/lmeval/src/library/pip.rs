//! Fetching the package through the user's own `pip`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use fs_err as fs;
use lmeval_core::Diagnostic;

use super::version::Version;

/// The package whose task folder is a library.
const PACKAGE: &str = "lm_eval";

/// What to do on a machine where this road is closed.
const FROM_HINT: &str = "On a machine without network, `lm-eval tasks pull --from PATH` takes a wheel, an archive or \
                         a folder; `pip download lm_eval --no-deps` fetches the wheel elsewhere";

/// The interpreter whose `pip` is used.
pub(super) fn find_python(asked: Option<&Path>) -> Result<PathBuf> {
    lmeval_host::find_python(asked, lmeval_host::active_environment().as_deref()).ok_or_else(|| match asked {
        Some(python) => anyhow!("There is no Python at `{}`", python.display()),
        None => Diagnostic::new("There is no Python whose `pip` could fetch the package")
            .hint("Name one with `--python`")
            .hint(FROM_HINT)
            .into(),
    })
}

/// Downloads the wheel of a version, or of the newest one, into an empty folder; answers where it is.
///
/// Only wheels are taken: the source archive of a package is a program that `pip` would run to learn its name. The
/// index, proxy and certificates are those of the user's `pip` configuration.
pub(super) fn download(python: &Path, version: Option<&Version>, folder: &Path) -> Result<PathBuf> {
    let requirement = match version {
        Some(version) => format!("{PACKAGE}=={version}"),
        None => PACKAGE.to_owned(),
    };
    let mut command = Command::new(python);
    command.args(["-m", "pip", "download", &requirement]);
    // What the package needs to run does not matter here, the version of Python included.
    command.args(["--no-deps", "--only-binary", ":all:", "--ignore-requires-python"]);
    command.args(["--disable-pip-version-check", "--quiet", "--dest"]).arg(folder);
    // `python -m` looks for modules in the current folder first: a `pip.py` that lies about must not run.
    command.current_dir(folder);
    let output = command.output().with_context(|| format!("`{}` cannot be started", python.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!(explain(python, &requirement, said.trim(), &output.status.to_string()));
    }
    let mut wheels: Vec<OsString> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if Path::new(&name).extension().is_some_and(|extension| extension == "whl") {
            wheels.push(name);
        }
    }
    match wheels.as_slice() {
        [wheel] => Ok(folder.join(wheel)),
        _ => bail!(
            "`pip` reported success but left {} wheels where one was expected\n{FROM_HINT}",
            wheels.len()
        ),
    }
}

/// The error of a failed download: what `pip` said, and what can be done about it.
fn explain(python: &Path, requirement: &str, said: &str, status: &str) -> Diagnostic {
    // With `--quiet`, an index that cannot be reached looks like one that has nothing.
    const NO_NETWORK: [&str; 10] = [
        "from versions: none",
        "NewConnectionError",
        "Failed to establish",
        "name resolution",
        "ConnectTimeout",
        "ReadTimeout",
        "Max retries",
        "ProxyError",
        "ConnectionError",
        "SSLError",
    ];
    let python = python.display();
    let hint = if said.contains("No module named pip") {
        Some(format!("`{python}` has no `pip`: install it there, or name another Python with `--python`"))
    } else if NO_NETWORK.iter().any(|sign| said.contains(sign)) {
        let advice = "The package index could not be reached, or has no wheel of the package: check the network and \
                      the settings of your `pip`";
        Some(advice.to_owned())
    } else if said.contains("No matching distribution") || said.contains("Could not find a version") {
        Some(
            "Your package index has no such version as a wheel: without a version, the newest is taken"
                .to_owned(),
        )
    } else {
        None
    };
    let said = if said.is_empty() { format!("  {status}") } else { indent(said) };
    let told = Diagnostic::new(format!("`{python} -m pip` could not download `{requirement}`:\n{said}"));
    hint.into_iter().fold(told, Diagnostic::hint).hint(FROM_HINT)
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_fit_the_failure() {
        let message = |said: &str| {
            let told = explain(Path::new("/usr/bin/python3"), "lm_eval==9", said, "exit status: 1");
            format!("{} {}", told.message, told.hints.join(" "))
        };
        let unknown = message("ERROR: No matching distribution found for lm_eval==9");
        assert!(unknown.contains("  ERROR: No matching") && unknown.contains("no such version"), "{unknown}");
        let offline =
            message("WARNING: NewConnectionError\nERROR: No matching distribution found for lm_eval==9");
        assert!(offline.contains("could not be reached"), "{offline}");
        assert!(message("/usr/bin/python3: No module named pip").contains("has no `pip`"));
        let silent = message("");
        assert!(silent.contains("exit status: 1") && silent.contains("--from"), "{silent}");
    }

    #[test]
    fn a_python_that_is_not_there_is_an_error() {
        assert!(find_python(Some(Path::new("/no/such/python"))).is_err());
        assert!(find_python(Some(Path::new("no-such-python-at-all"))).is_err());
    }
}
