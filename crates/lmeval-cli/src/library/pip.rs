//! Downloads the package with the user's `pip`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use fs_err as fs;
use lmeval::library::Version;
use lmeval_core::Diagnostic;

/// The package whose task folder is a library.
const PACKAGE: &str = "lm_eval";

/// The hint for machines without network access.
const FROM_HINT: &str = "On a machine without network access, use `lm-eval tasks pull --from PATH` with a wheel, an \
                         archive or a folder; `pip download lm_eval --no-deps` downloads the wheel elsewhere";

/// Finds the interpreter whose `pip` is used.
pub(super) fn find_python(asked: Option<&Path>) -> Result<PathBuf> {
    lmeval_host::find_python(asked, lmeval_host::active_environment().as_deref()).ok_or_else(|| match asked {
        Some(python) => anyhow!("No Python at `{}`", python.display()),
        None => Diagnostic::new("No Python found whose `pip` could download the package")
            .hint("Choose one with `--python`")
            .hint(FROM_HINT)
            .into(),
    })
}

/// Downloads the wheel of a version, or of the newest one, into an empty folder; returns its path.
///
/// Only wheels are accepted: `pip` would run the setup code of a source archive to learn its name. Index, proxy and
/// certificates come from the user's `pip` configuration.
pub(super) fn download(python: &Path, version: Option<&Version>, folder: &Path) -> Result<PathBuf> {
    let requirement = match version {
        Some(version) => format!("{PACKAGE}=={version}"),
        None => PACKAGE.to_owned(),
    };
    let mut command = Command::new(python);
    command.args(["-m", "pip", "download", &requirement]);
    // The package is never run, so its requirements do not matter, including the Python version.
    command.args(["--no-deps", "--only-binary", ":all:", "--ignore-requires-python"]);
    command.args(["--disable-pip-version-check", "--quiet", "--dest"]).arg(folder);
    // `python -m` searches the current folder first: a stray `pip.py` must not run.
    command.current_dir(folder);
    let output = command.output().with_context(|| format!("`{}` cannot be started", python.display()))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!(explain(python, &requirement, stderr.trim(), &output.status.to_string()));
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
        _ => {
            let message = format!("`pip` reported success but left {} wheels instead of one", wheels.len());
            bail!(Diagnostic::new(message).hint(FROM_HINT))
        }
    }
}

/// The error for a failed download: the output of `pip`, and hints.
fn explain(python: &Path, requirement: &str, output_text: &str, status: &str) -> Diagnostic {
    // With `--quiet`, an unreachable index looks like an empty one.
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
    let hint = if output_text.contains("No module named pip") {
        Some(format!("`{python}` has no `pip`: install it there, or choose another Python with `--python`"))
    } else if NO_NETWORK.iter().any(|sign| output_text.contains(sign)) {
        let advice = "The package index could not be reached, or has no wheel of the package: check the network and \
                      the settings of your `pip`";
        Some(advice.to_owned())
    } else if output_text.contains("No matching distribution")
        || output_text.contains("Could not find a version")
    {
        Some("The package index has no wheel of this version; omit the version to get the newest".to_owned())
    } else {
        None
    };
    let output_text = if output_text.is_empty() { format!("  {status}") } else { indent(output_text) };
    let diagnostic =
        Diagnostic::new(format!("`{python} -m pip` could not download `{requirement}`:\n{output_text}"));
    hint.into_iter().fold(diagnostic, Diagnostic::hint).hint(FROM_HINT)
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_match_the_failure() {
        let message = |output_text: &str| {
            let diagnostic =
                explain(Path::new("/usr/bin/python3"), "lm_eval==9", output_text, "exit status: 1");
            format!("{} {}", diagnostic.message, diagnostic.hints.join(" "))
        };
        let unknown = message("ERROR: No matching distribution found for lm_eval==9");
        assert!(
            unknown.contains("  ERROR: No matching") && unknown.contains("no wheel of this version"),
            "{unknown}"
        );
        let offline =
            message("WARNING: NewConnectionError\nERROR: No matching distribution found for lm_eval==9");
        assert!(offline.contains("could not be reached"), "{offline}");
        assert!(message("/usr/bin/python3: No module named pip").contains("has no `pip`"));
        let silent = message("");
        assert!(silent.contains("exit status: 1") && silent.contains("--from"), "{silent}");
    }

    #[test]
    fn missing_python_is_an_error() {
        assert!(find_python(Some(Path::new("/no/such/python"))).is_err());
        assert!(find_python(Some(Path::new("no-such-python-at-all"))).is_err());
    }
}
