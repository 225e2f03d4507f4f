//! The process that watches over a program.

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
use crate::plan::{Plan, Surroundings};
use crate::program::{Outcome, Program};
use crate::report::Report;

/// What the interpreter runs: it reads the program, runs it and tells how it went.
const RUNNER: &str = include_str!("runner.py");

/// How long the interpreter may take to start.
const START_LIMIT: Duration = Duration::from_secs(30);

/// How long the imports of a program may take. They run before its own time begins.
const IMPORT_LIMIT: Duration = Duration::from_secs(30);

/// The number of the user and the group without rights.
const NOBODY: u32 = 65534;

/// Runs a program under limits, in a process that this one starts itself as, with the given arguments and a last one
/// that [`enter`](crate::enter) must be called with.
///
/// The calling process should have one thread and no other purpose: it gives up the namespaces that it shares with
/// others, and ends with its parent.
pub fn run(program: &Program, inside: &[&OsStr]) -> Result<Outcome, Error> {
    linux::end_with_parent();
    linux::adopt_orphans();
    let folder = tempfile::Builder::new().prefix("lm-eval-code-").tempdir().map_err(Error::Folder)?;
    let secret = secret().map_err(Error::Start)?;
    let given = given(&program.text, &secret).map_err(Error::Folder)?;
    let is_nobody = getuid().is_root() && is_open(program, folder.path());
    let mut around = linux::separate(is_nobody);
    let disk = if around.has("mount") {
        linux::mount_folder(folder.path(), program.limits.disk)
    } else {
        Err(io::ErrorKind::Unsupported.into())
    };
    around.has_disk = disk.is_ok();
    let outcome = (|| {
        if is_nobody {
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).map_err(Error::Folder)?;
        }
        let child = start(program, inside, folder.path(), around.clone(), given)?;
        watch(child, &secret, &program.limits)
    })();
    if around.has_disk {
        linux::unmount_folder(folder.path());
    }
    // What is left is in the system's folder for temporary files, where leftovers are cleared in time.
    let _ = folder.close();
    outcome
}

/// A file without a name that can only be read: the length of the program, the program, and the secret behind it.
fn given(program: &str, secret: &str) -> io::Result<File> {
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(format!("{}\n{program}{secret}", program.len()).as_bytes())?;
    File::open(file.path())
}

fn start(
    program: &Program,
    inside: &[&OsStr],
    folder: &Path,
    around: Surroundings,
    given: File,
) -> Result<Child, Error> {
    let is_nobody = around.is_nobody;
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
        surroundings: around,
    };
    let mut command = Command::new(own_program().map_err(Error::Start)?);
    command.arg0("lm-eval").args(inside).arg(plan.to_text());
    command.env_clear().current_dir(folder);
    command.env("HOME", folder).env("TMPDIR", folder).env("LANG", "C.UTF-8").env("LC_ALL", "C.UTF-8");
    // Sets are to have the same order in each run.
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

/// This program, also where its folder is closed to the user that the process will belong to.
fn own_program() -> io::Result<PathBuf> {
    let own = Path::new("/proc/self/exe");
    if own.exists() { Ok(own.to_owned()) } else { std::env::current_exe() }
}

/// Waits for what the process says, ends it and all below it, and says how it went.
fn watch(mut child: Child, secret: &str, limits: &Limits) -> Result<Outcome, Error> {
    let output = child.stdout.take();
    let mut lines = output.map(Lines::new).ok_or_else(|| Error::Setup("it has no output".to_owned()))?;
    let said = listen(&mut lines, secret, limits);
    let status = end(&mut child);
    linux::end_orphans();
    let (report, result) = said?;
    let ended = status.map_or_else(|| "unknown".to_owned(), described);
    Ok(Outcome { result: result.unwrap_or_else(|| "timed out".to_owned()), ended, report })
}

fn listen(lines: &mut Lines, secret: &str, limits: &Limits) -> Result<(Report, Option<String>), Error> {
    let first = lines.next(START_LIMIT).ok_or_else(|| Error::Setup("it said nothing".to_owned()))?;
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
        // Anything else was written by the program.
        if let Some(result) = mine(&line).and_then(|digits| decoded(&digits)) {
            return Ok((report, Some(result)));
        }
    }
    Ok((report, None))
}

/// The text of hexadecimal digits.
fn decoded(digits: &str) -> Option<String> {
    let pairs = digits.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    String::from_utf8(bytes.collect::<Option<_>>()?).ok()
}

/// Ends the process and its group. It is waited for last, so that its number stays its own.
fn end(child: &mut Child) -> Option<ExitStatus> {
    // One that has said its last word ends by itself in a moment.
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

/// A word that makes a result count. It keeps out what a program writes without knowing how it is run; one that is
/// after it can find it, since both are in one process.
fn secret() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// Whether any user may read what the interpreter needs, so that the program can run as one without rights.
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
