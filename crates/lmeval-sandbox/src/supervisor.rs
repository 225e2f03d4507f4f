//! The supervisor process of a sandboxed program.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getuid, kill_process_group};

use crate::error::Error;
use crate::limits::Limits;
use crate::lines::Lines;
use crate::linux;
use crate::plan::{Isolation, Plan};
use crate::program::{Outcome, Program};
use crate::report::Report;

/// Run by the interpreter: reads the sandboxed code, runs it and prints the result.
const RUNNER: &str = include_str!("runner.py");

/// The time limit for the interpreter to start.
const START_LIMIT: Duration = Duration::from_secs(30);

/// The time limit for a program's imports, which run before its own time starts.
const IMPORT_LIMIT: Duration = Duration::from_secs(30);

/// The user and group id of `nobody`.
const NOBODY: u32 = 65534;

/// Runs a program under limits, in a child process of this executable started with the given arguments. The child gets
/// one more argument, with which it must call [`enter`](crate::enter).
///
/// The calling process should be single-threaded and have no other purpose: it leaves the namespaces that it shares
/// with others, and ends with its parent.
pub fn run(program: &Program, inside: &[&OsStr]) -> Result<Outcome, Error> {
    linux::end_with_parent();
    linux::adopt_orphans();
    let folder = tempfile::Builder::new().prefix("lm-eval-code-").tempdir().map_err(Error::Folder)?;
    let secret = secret().map_err(Error::Start)?;
    let given = given(&program.text, &secret).map_err(Error::Folder)?;
    let is_nobody = getuid().is_root() && is_open(program, folder.path());
    let mut isolation = linux::separate(is_nobody);
    let disk = if isolation.has("mount") {
        linux::mount_folder(folder.path(), program.limits.disk)
    } else {
        Err(io::ErrorKind::Unsupported.into())
    };
    isolation.has_disk = disk.is_ok();
    let outcome = (|| {
        if is_nobody {
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).map_err(Error::Folder)?;
        }
        let child = start(program, inside, folder.path(), isolation.clone(), given)?;
        watch(child, &secret, &program.limits)
    })();
    if isolation.has_disk {
        linux::unmount_folder(folder.path());
    }
    // Anything left over is in the system's temporary folder, which is cleaned up eventually.
    let _ = folder.close();
    outcome
}

/// An anonymous, read-only file: the length of the code, the code, and the secret.
fn given(program: &str, secret: &str) -> io::Result<File> {
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(format!("{}\n{program}{secret}", program.len()).as_bytes())?;
    File::open(file.path())
}

fn start(
    program: &Program,
    inside: &[&OsStr],
    folder: &Path,
    isolation: Isolation,
    given: File,
) -> Result<Child, Error> {
    let is_nobody = isolation.is_nobody;
    let interpreter = &program.interpreter;
    let mut arguments: Vec<String> = ["-S", "-s", "-B", "-X", "utf8", "-c", RUNNER].map(str::to_owned).into();
    arguments.push(program.limits.time.as_secs_f64().to_string());
    arguments.extend(interpreter.path.iter().cloned());
    let plan = Plan {
        executable: interpreter.executable.clone(),
        arguments,
        read: interpreter.read.clone(),
        folder: folder.to_owned(),
        limits: program.limits.clone(),
        isolation,
    };
    let mut command = Command::new(own_executable().map_err(Error::Start)?);
    command.arg0("lm-eval").args(inside).arg(plan.to_text());
    command.env_clear().current_dir(folder);
    command.env("HOME", folder).env("TMPDIR", folder).env("LANG", "C.UTF-8").env("LC_ALL", "C.UTF-8");
    // Makes the order of sets reproducible.
    command.env("PYTHONHASHSEED", "0").env("OMP_NUM_THREADS", "1").env("OPENBLAS_NUM_THREADS", "1");
    if let Some(libraries) = std::env::var_os("LD_LIBRARY_PATH") {
        command.env("LD_LIBRARY_PATH", libraries);
    }
    command.stdin(given).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    if is_nobody {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.spawn().map_err(Error::Start)
}

/// The path of this executable, usable even if its folder is inaccessible to the user that the process will run as.
fn own_executable() -> io::Result<PathBuf> {
    let own = Path::new("/proc/self/exe");
    if own.exists() { Ok(own.to_owned()) } else { std::env::current_exe() }
}

/// Waits for the output of the process, ends it and its descendants, and returns the outcome.
fn watch(mut child: Child, secret: &str, limits: &Limits) -> Result<Outcome, Error> {
    let output = child.stdout.take();
    let mut lines = output.map(Lines::new).ok_or_else(|| Error::Setup("it has no stdout".to_owned()))?;
    let said = listen(&mut lines, secret, limits);
    let status = end(&mut child);
    linux::end_orphans();
    let (report, result) = said?;
    let ended = status.map_or_else(|| "unknown".to_owned(), described);
    Ok(Outcome { result: result.unwrap_or_else(|| "timed out".to_owned()), ended, report })
}

fn listen(lines: &mut Lines, secret: &str, limits: &Limits) -> Result<(Report, Option<String>), Error> {
    let first = lines.next(START_LIMIT).ok_or_else(|| Error::Setup("it printed nothing".to_owned()))?;
    let report = serde_json::from_str(&first).ok().as_ref().and_then(Report::from_json);
    let report = report.ok_or(Error::Setup(first))?;
    let mine = |line: &str| line.strip_prefix(secret).map(|rest| rest.trim().to_owned());
    if lines.next(START_LIMIT).as_deref() != Some("started") {
        return Err(Error::Setup("the interpreter did not start".to_owned()));
    }
    if lines.next(IMPORT_LIMIT).as_deref() != Some("ready") {
        return Ok((report, None));
    }
    let deadline = Instant::now() + limits.deadline();
    while let Some(line) = lines.next(deadline.saturating_duration_since(Instant::now())) {
        // Other lines were printed by the sandboxed program.
        if let Some(result) = mine(&line).and_then(|digits| decoded(&digits)) {
            return Ok((report, Some(result)));
        }
    }
    Ok((report, None))
}

/// Decodes hexadecimal digits.
fn decoded(digits: &str) -> Option<String> {
    let pairs = digits.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    String::from_utf8(bytes.collect::<Option<_>>()?).ok()
}

/// Ends the process and its group. The process is reaped last, so that its id is not reused.
fn end(child: &mut Child) -> Option<ExitStatus> {
    // A process that has printed its result ends by itself shortly.
    let patience = Instant::now() + Duration::from_millis(50);
    let mut status = None;
    while status.is_none() && Instant::now() < patience {
        status = child.try_wait().ok().flatten();
        if status.is_none() {
            thread::sleep(Duration::from_micros(500));
        }
    }
    if status.is_some() {
        return status;
    }
    if let Some(process) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(process, Signal::KILL);
    }
    let _ = child.kill();
    child.wait().ok()
}

fn described(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown".to_owned(),
    }
}

/// A secret that authenticates the result line. It filters out what a program prints by accident; a program that looks
/// for the secret can find it, since both are in one process.
fn secret() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// Whether any user may read the interpreter's files, so that the sandbox can run as `nobody`.
fn is_open(program: &Program, folder: &Path) -> bool {
    let mut needed = vec![program.interpreter.executable.clone()];
    needed.extend(program.interpreter.read.iter().filter(|path| path.exists()).cloned());
    needed.extend(folder.parent().map(Path::to_owned));
    needed.iter().all(|path| {
        let Ok(path) = path.canonicalize() else { return false };
        path.ancestors()
            .all(|part| part.metadata().is_ok_and(|data| data.mode() & 0o001 != 0 || !data.is_dir()))
            && path.metadata().is_ok_and(|data| data.mode() & 0o004 != 0)
    })
}
