//! Servers that stay after a run, for the next one.

use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;
use lmeval_hub::hexadecimal;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::devices;
use super::process::{Address, ServerCommand, random_hex};

/// The record of a server that stays.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) address: Address,
    pub(super) key: String,
    pub(super) pid: u32,
    /// When the process started, by which another one with the same id is told apart.
    started: String,
    pub(super) log: PathBuf,
    pub(super) folder: PathBuf,
}

/// What became of an attempt to reserve a record.
pub(super) enum Claim {
    /// The record is this run's to write.
    Own,
    /// Another run has a server there by now.
    Taken(Kept),
    /// Another run is starting a server for it.
    Busy,
}

/// The file with the record of the server with this command line and environment.
pub(super) fn record_path(cache: &Path, python: &Path, version: &str, words: &[String]) -> PathBuf {
    let mut hash = Sha256::new();
    let mut variables: Vec<String> = std::env::vars_os()
        .map(|(name, value)| format!("{}={}", name.to_string_lossy(), value.to_string_lossy()))
        .filter(|variable| changes_servers(variable))
        .collect();
    variables.sort();
    let python = python.to_string_lossy();
    let words = variables.iter().chain(words).map(String::as_str);
    for word in [python.as_ref(), version].into_iter().chain(words) {
        hash.update((word.len() as u64).to_le_bytes());
        hash.update(word);
    }
    let digits = hexadecimal(&hash.finalize()[..12]);
    cache.join("servers").join(format!("{digits}.json"))
}

/// Whether an environment variable changes what a server computes, or on which devices.
fn changes_servers(variable: &str) -> bool {
    devices::VARIABLES
        .iter()
        .any(|name| variable.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')))
        || ["VLLM_", "SGLANG_"].iter().any(|prefix| variable.starts_with(prefix))
}

/// The server of a record, if its process is alive. The record and the socket of a dead one are removed.
pub(super) fn find(path: &Path) -> Option<Kept> {
    let record: Value = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    let text = |name: &str| record[name].as_str().map(str::to_owned);
    if let Some(owner) = record["starting"].as_u64().and_then(|pid| u32::try_from(pid).ok()) {
        if start_time(owner) != text("started") {
            // It may be gone.
            let _ = fs::remove_file(path);
        }
        return None;
    }
    let port = record["port"].as_u64().and_then(|port| u16::try_from(port).ok());
    let kept = Kept {
        address: match port {
            Some(port) => Address::Port(port),
            None => Address::Socket(text("socket")?.into()),
        },
        key: text("key")?,
        pid: record["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok())?,
        started: text("started")?,
        log: text("log")?.into(),
        folder: text("folder")?.into(),
    };
    if kept.is_alive() {
        return Some(kept);
    }
    kept.forget(path);
    None
}

impl Kept {
    /// The record of a server that was just started.
    pub(super) fn new(command: &ServerCommand, address: &Address, key: &str, pid: u32) -> Option<Self> {
        Some(Self {
            address: address.clone(),
            key: key.to_owned(),
            pid,
            started: start_time(pid)?,
            log: command.log.clone(),
            folder: command.folder.clone(),
        })
    }

    /// Whether it is still the process of this id.
    pub(super) fn is_alive(&self) -> bool {
        start_time(self.pid).is_some_and(|started| started == self.started)
    }

    /// Writes the record, for this user alone: it contains the key.
    pub(super) fn save(&self, path: &Path) -> io::Result<()> {
        let mut record = json!({
            "key": self.key,
            "pid": self.pid,
            "started": self.started,
            "log": self.log,
            "folder": self.folder,
        });
        match &self.address {
            Address::Socket(socket) => record["socket"] = json!(socket),
            Address::Port(port) => record["port"] = json!(port),
        }
        let partial = write_beside(path, &record)?;
        fs::rename(partial, path)
    }

    /// Ends what is left of a server that has ended, and removes its record and its socket.
    pub(super) fn forget(&self, path: &Path) {
        // Its engine may survive it. The id is not another process's as long as the group exists.
        if start_time(self.pid).is_none() && self.started.starts_with(&boot()) {
            end_group(self.pid, true);
        }
        // Both may be gone.
        let _ = fs::remove_file(path);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Reserves a record, so that two runs do not start the same server.
pub(super) fn claim(path: &Path) -> io::Result<Claim> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
        #[cfg(unix)]
        fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    }
    if let Some(kept) = find(path) {
        return Ok(Claim::Taken(kept));
    }
    let own = std::process::id();
    let partial = write_beside(path, &json!({"starting": own, "started": start_time(own)}))?;
    let linked = fs::hard_link(&partial, path);
    fs::remove_file(partial)?;
    match linked {
        Ok(()) => Ok(Claim::Own),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Ok(find(path).map_or(Claim::Busy, Claim::Taken))
        }
        Err(error) => Err(error),
    }
}

/// Writes a record to a new file for this user alone; returns its path.
fn write_beside(path: &Path, record: &Value) -> io::Result<PathBuf> {
    use std::io::Write as _;
    let partial = path.with_extension(format!("{}.partial", random_hex()?));
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    fs_err::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&partial)?.write_all(record.to_string().as_bytes())?;
    Ok(partial)
}

/// Identifies the time since the machine was started; empty where that is unknown.
fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

/// When a process started; `None` if there is none, or only its exit status is left.
fn start_time(pid: u32) -> Option<String> {
    if cfg!(target_os = "linux") {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name of the command is in parentheses and may contain anything.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let started = format!("{} {}", boot(), fields.get(19)?);
        return Some(started).filter(|_| fields[0] != "Z");
    }
    let output = std::process::Command::new("ps").args(["-o", "lstart=", "-p", &pid.to_string()]).output();
    let started = String::from_utf8(output.ok()?.stdout).ok()?.trim().to_owned();
    Some(started).filter(|started| !started.is_empty())
}

/// Ends the process group that a server leads.
#[cfg(unix)]
pub(super) fn end_group(pid: u32, now: bool) {
    use rustix::process::{Pid, Signal, kill_process_group};
    let signal = if now { Signal::KILL } else { Signal::TERM };
    if let Some(group) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // It may have ended.
        let _ = kill_process_group(group, signal);
    }
}

#[cfg(not(unix))]
pub(super) fn end_group(_: u32, _: bool) {}
