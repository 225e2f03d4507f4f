//! The machine and repository recorded in results.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Git revisions and a short report about the machine. Contains no names of machines, users or folders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// The revision of the repository in the working folder.
    pub git_hash: Option<String>,
    /// The revision of the repository above the working folder.
    pub upper_git_hash: Option<String>,
    /// Versions, system and CPU, one fact per line.
    pub report: String,
}

impl Environment {
    /// Collects the facts. Never fails; omits what is unknown.
    pub fn collect(folder: &Path) -> Self {
        Self {
            git_hash: describe(folder).or_else(|| read_head(folder)),
            upper_git_hash: read_head(&folder.join("..")),
            report: report(),
        }
    }
}

/// The version in the harness's format; the part after `+` distinguishes it from the Python
/// harness.
pub fn lm_eval_version() -> &'static str {
    concat!(env!("CARGO_PKG_VERSION"), "+rust")
}

fn describe(folder: &Path) -> Option<String> {
    let output = Command::new("git")
        .args(["describe", "--always"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// Reads the revision from `.git` without running `git`.
fn read_head(folder: &Path) -> Option<String> {
    let mut git = folder.join(".git");
    if git.is_file() {
        let pointer = fs_err::read_to_string(&git).ok()?;
        git = folder.join(pointer.lines().next()?.strip_prefix("gitdir: ")?);
    }
    let head = fs_err::read_to_string(git.join("HEAD")).ok()?;
    let head = head.lines().next()?;
    match head.strip_prefix("ref: ") {
        Some(reference) => Some(fs_err::read_to_string(git.join(reference)).ok()?.replace('\n', "")),
        None => Some(head.to_owned()),
    }
}

fn report() -> String {
    let mut report = format!("lm-eval: {}\n", lm_eval_version());
    let _ = write!(
        report,
        "OS: {} ({})",
        system().unwrap_or_else(|| std::env::consts::OS.into()),
        std::env::consts::ARCH
    );
    if let Some(kernel) = first_line("/proc/sys/kernel/osrelease") {
        let _ = write!(report, "\nKernel: {kernel}");
    }
    if let Some(cpu) = cpu_model() {
        let _ = write!(report, "\nCPU: {cpu}");
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let _ = write!(report, "\nThreads: {threads}");
    report
}

fn first_line(path: &str) -> Option<String> {
    Some(fs_err::read_to_string(path).ok()?.lines().next()?.trim().to_owned())
}

fn system() -> Option<String> {
    let text = fs_err::read_to_string("/etc/os-release").ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

fn cpu_model() -> Option<String> {
    let text = fs_err::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_revision_without_git() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read_head(folder.path()), None);
        let git = folder.path().join(".git");
        fs_err::create_dir_all(git.join("refs/heads")).unwrap();
        fs_err::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        assert_eq!(read_head(folder.path()), None);
        fs_err::write(git.join("refs/heads/main"), "abc123\n").unwrap();
        assert_eq!(read_head(folder.path()).as_deref(), Some("abc123"));
        fs_err::write(git.join("HEAD"), "def456\n").unwrap();
        assert_eq!(read_head(folder.path()).as_deref(), Some("def456"));
        let below = folder.path().join("below");
        fs_err::create_dir_all(&below).unwrap();
        assert_eq!(Environment::collect(&below).upper_git_hash.as_deref(), Some("def456"));
        fs_err::write(below.join(".git"), "gitdir: ../.git\n").unwrap();
        assert_eq!(read_head(&below).as_deref(), Some("def456"));
    }

    #[test]
    fn report_has_no_personal_data() {
        let report = report();
        assert!(report.starts_with("lm-eval: "), "{report}");
        assert!(!report.contains('\\') && !report.contains("/home"), "{report}");
    }
}
