//! The process of a server, and the guard that ends it.

use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Sender;
use std::thread;

use fs_err as fs;
use lmeval_hub::hexadecimal;

use super::interpreter::isolate;
use super::keep;

/// The guard of Ray's replicas: it holds a pipe from us, and ends the server with all that it started when the pipe closes.
const GUARD: &str = include_str!("guard.py");

/// The environment variable by which the guard finds the processes of a server.
const MARK: &str = "LM_EVAL_SERVER";

/// Longer paths of sockets are refused by the kernel, or by the server.
const LONGEST_SOCKET: usize = 100;

/// An event for a supervisor.
#[derive(Debug)]
pub(super) enum Message {
    /// The process ended: its exit status, or 128 plus the signal; `None` if that is unknown.
    Ended(Option<i32>),
    /// The run is over.
    Stop,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Socket(PathBuf),
    Port(u16),
}

impl Address {
    /// An address that is free. A socket is in a folder of its own.
    pub(super) fn free(has_sockets: bool, folder: &Path) -> io::Result<Self> {
        if has_sockets && cfg!(unix) {
            return Ok(Self::Socket(folder.join("s")));
        }
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        Ok(Self::Port(listener.local_addr()?.port()))
    }
}

/// The command of a server.
#[derive(Clone, Debug)]
pub(super) struct ServerCommand {
    pub(super) python: PathBuf,
    pub(super) words: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    /// A folder that only this user can open. It exists while the server does.
    pub(super) folder: PathBuf,
    pub(super) log: PathBuf,
}

/// A running server.
#[derive(Debug)]
pub(super) enum Process {
    /// It ends with this process.
    Guarded {
        /// Closing it ends the server.
        pipe: Option<ChildStdin>,
    },
    /// It stays when this process ends.
    Kept { pid: u32 },
}

impl ServerCommand {
    /// Starts the server. It tells `sender` when it ends.
    pub(super) fn start(&self, keeps: bool, sender: Sender<Message>) -> io::Result<Process> {
        if let Some(folder) = self.log.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut options = fs::OpenOptions::new();
        options.create(true).append(true);
        // A server logs its arguments, and prompts.
        #[cfg(unix)]
        fs_err::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let log = options.open(&self.log)?.into_parts().0;
        let mut command = Command::new(&self.python);
        isolate(&mut command).envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.env("PYTHONUNBUFFERED", "1").stderr(Stdio::from(log.try_clone()?));
        if keeps {
            private_folder(&self.folder)?;
            command.args(&self.words).stdin(Stdio::null()).stdout(Stdio::from(log));
            #[cfg(unix)]
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
            let child = command.spawn()?;
            let pid = child.id();
            watch(move || reap(child), sender)?;
            return Ok(Process::Kept { pid });
        }
        let mark = format!("{MARK}={}", random_hex()?);
        // The guard creates the folder, so that none is left if this process ends now. It writes the exit status to its
        // standard output; the server's goes to the log.
        command.args(["-c", GUARD, "--serve"]).arg(&self.folder).args([&mark, "1"]);
        command.args(["/bin/sh", "-c", "exec \"$@\" >&2", "sh"]).arg(&self.python).args(&self.words);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let pipe = child.stdin.take();
        let (python, folder) = (self.python.clone(), self.folder.clone());
        watch(move || status_of_guard(child, &python, &mark, &folder), sender)?;
        Ok(Process::Guarded { pipe })
    }
}

impl Process {
    /// Asks the server to end. The guard kills all its processes after some seconds.
    pub(super) fn ask_to_end(&mut self) {
        match self {
            Self::Guarded { pipe: Some(pipe) } => {
                // A pipe without a reader is that of a guard that has ended.
                let _ = pipe.write_all(b"e");
            }
            Self::Guarded { pipe: None } => {}
            Self::Kept { pid } => keep::end_group(*pid, false),
        }
    }

    /// Ends a server that has not ended when it was asked to.
    pub(super) fn kill(&mut self) {
        match self {
            Self::Guarded { pipe } => drop(pipe.take()),
            Self::Kept { pid } => keep::end_group(*pid, true),
        }
    }
}

/// Waits on a thread for the end of a server.
fn watch(wait: impl FnOnce() -> Option<i32> + Send + 'static, sender: Sender<Message>) -> io::Result<()> {
    let watch = move || {
        // Without a receiver, nobody needs to know.
        let _ = sender.send(Message::Ended(wait()));
    };
    thread::Builder::new().name("server".to_owned()).spawn(watch).map(drop)
}

fn reap(mut child: Child) -> Option<i32> {
    let status = child.wait().ok()?;
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal: Option<i32> = None;
    status.code().or_else(|| signal.map(|signal| 128 + signal))
}

/// The exit status that the guard reports. If the guard itself was killed, another one does its work.
fn status_of_guard(mut child: Child, python: &Path, mark: &str, folder: &Path) -> Option<i32> {
    let mut status = String::new();
    if let Some(mut output) = child.stdout.take() {
        // Incomplete output is not a status.
        let _ = output.read_to_string(&mut status);
    }
    // The guard detaches itself: this is its first process, which has ended.
    let _ = child.wait();
    // The session of the guard, then the status.
    let mut words = status.split_whitespace();
    let session = words.next();
    let status = words.next().and_then(|status| status.parse().ok());
    if status.is_none() {
        let mut command = Command::new(python);
        isolate(&mut command).args(["-c", GUARD, "--end", mark]).args(session).stdin(Stdio::null());
        // There is nobody else to do it.
        let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        let _ = fs::remove_dir_all(folder);
    }
    status
}

/// Creates a folder that only this user can open.
pub(super) fn private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(folder) {
        // Left by a server of this run that was killed together with its guard.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_dir_all(folder)?;
            builder.create(folder)
        }
        created => created,
    }
}

/// The name of a folder for a socket; it does not exist yet.
pub(super) fn socket_folder() -> io::Result<PathBuf> {
    let name = format!("lm-eval-{}", &random_hex()?[..12]);
    let usual = std::env::temp_dir().join(&name);
    let fits = usual.as_os_str().len() + "/s".len() < LONGEST_SOCKET;
    Ok(if fits { usual } else { Path::new("/tmp").join(name) })
}

/// 32 random hexadecimal digits.
pub(super) fn random_hex() -> io::Result<String> {
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(hexadecimal(&bytes))
}
