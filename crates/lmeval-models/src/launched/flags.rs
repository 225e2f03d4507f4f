//! The flags that an installed server knows.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fs_err as fs;
use lmeval_core::{ModelError, nearest};
use lmeval_hub::hexadecimal;
use sha2::{Digest as _, Sha256};

use super::arguments::flag_name;
use super::interpreter::{Interpreter, configuration, isolate};
use super::process::random_hex;
use super::software::Software;

/// The time limit of the server's help, for which it imports most of itself.
const LIMIT: Duration = Duration::from_mins(3);

/// The flags that an earlier question has found.
pub(super) fn known(
    interpreter: &Interpreter,
    software: &Software,
    cache: Option<&Path>,
) -> Option<Vec<String>> {
    let text = fs::read_to_string(file(interpreter, software, cache?)).ok()?;
    Some(text.lines().map(str::to_owned).collect())
}

/// The flags, from the cache or else from the help of the server. `None` if it prints none.
pub(super) fn learn(
    interpreter: &Interpreter,
    software: &Software,
    cache: Option<&Path>,
) -> Option<Vec<String>> {
    if let Some(known) = known(interpreter, software, cache) {
        return Some(known);
    }
    let flags = in_help(&help(interpreter, software)?);
    // A help without flags is that of something else.
    let flags = Some(flags).filter(|flags| flags.len() > 5)?;
    if let Some(path) = cache.map(|cache| file(interpreter, software, cache)) {
        // Only saves time.
        let _ = save(&path, &flags);
    }
    Some(flags)
}

/// Writes the list in one step: another run may be reading it.
fn save(path: &Path, flags: &[String]) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    let partial = path.with_extension(format!("{}.partial", random_hex()?));
    fs::write(&partial, flags.join("\n"))?;
    fs::rename(partial, path)
}

/// Forgets what an earlier question has found: a package may be built anew under the same version.
pub(super) fn forget(interpreter: &Interpreter, software: &Software, cache: Option<&Path>) {
    if let Some(path) = cache.map(|cache| file(interpreter, software, cache)) {
        // There may be none.
        let _ = fs::remove_file(path);
    }
}

/// Fails for a flag that the server does not know, if its flags are known.
pub(super) fn check(
    interpreter: &Interpreter,
    software: &Software,
    given: &[String],
    known: &[String],
) -> Result<(), ModelError> {
    let is_known = |flag: &str| {
        // The keys of a dictionary follow its flag.
        let flag = flag.split('.').next().unwrap_or(flag);
        known.iter().any(|known| known == flag || known.strip_prefix("--no-") == Some(&flag[2..]))
    };
    match given.iter().map(|name| flag_name(name)).find(|flag| !is_known(flag)) {
        Some(flag) => Err(unknown(software, interpreter, &flag, given, known)),
        None => Ok(()),
    }
}

/// Whether a word switches off a flag that the server knows only as a switch: leaving it out does the same.
pub(super) fn is_needless(word: &str, known: &[String]) -> bool {
    let switch = word.strip_prefix("--no-").map(|flag| format!("--{flag}"));
    switch.is_some_and(|switch| known.contains(&switch) && !known.iter().any(|known| known == word))
}

/// The error of a flag that the server does not know.
pub(super) fn unknown(
    software: &Software,
    interpreter: &Interpreter,
    flag: &str,
    given: &[String],
    known: &[String],
) -> ModelError {
    let flag = flag.split('=').next().unwrap_or(flag);
    let is_flag = |name: &&String| {
        let own = flag_name(name);
        own == flag || flag.strip_prefix("--no-") == own.strip_prefix("--")
    };
    let (title, version) = (software.title, &interpreter.version);
    let Some(name) = given.iter().find(is_flag) else {
        let near: Vec<String> = near(flag, known).into_iter().map(str::to_owned).collect();
        return advise(configuration(format!("{title} {version} has no flag `{flag}`")), &near);
    };
    let argument = |flag: &str| flag.trim_start_matches("--").replace('-', "_");
    let near: Vec<String> = near(&flag_name(name), known).into_iter().map(argument).collect();
    let message = format!("The model argument `{name}` is unknown: {title} {version} has no flag `{flag}`");
    advise(configuration(message), &near)
}

/// The nearest flags.
fn near<'a>(flag: &str, known: &'a [String]) -> Vec<&'a str> {
    nearest(flag, known.iter().map(String::as_str).filter(|flag| !flag.starts_with("--no-")))
}

fn advise(error: ModelError, near: &[String]) -> ModelError {
    match near {
        [] => error,
        near => error.hint(format!("Did you mean `{}`?", near.join("` or `"))),
    }
}

fn file(interpreter: &Interpreter, software: &Software, cache: &Path) -> PathBuf {
    let digest = Sha256::digest(interpreter.root.to_string_lossy().as_bytes());
    let digits = hexadecimal(&digest[..6]);
    let version = interpreter.version.replace(['/', '\\'], "_");
    cache.join("flags").join(format!("{}-{version}-{digits}", software.module))
}

/// The help of the server; `None` if it fails or takes too long.
fn help(interpreter: &Interpreter, software: &Software) -> Option<String> {
    let mut command = Command::new(&interpreter.python);
    isolate(&mut command).args(super::entry(software, interpreter)).arg(software.help);
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut output = child.stdout.take()?;
    let (sender, found) = mpsc::channel();
    thread::spawn(move || {
        let mut text = Vec::new();
        // Incomplete help has fewer flags.
        let _ = output.read_to_end(&mut text);
        let _ = sender.send(text);
    });
    let text = found.recv_timeout(LIMIT);
    if text.is_err() {
        let _ = child.kill();
    }
    let status = child.wait().ok()?;
    let text = text.ok().filter(|_| status.success())?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// The flags in a help text.
fn in_help(text: &str) -> Vec<String> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_');
    let words =
        text.split(|character| !is_part(character)).filter(|word| word.starts_with("--") && word.len() > 2);
    let mut flags: Vec<String> = words.map(str::to_owned).collect();
    flags.sort();
    flags.dedup();
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_flags_of_a_help_text() {
        let text = "usage: x [--model MODEL] [--a-b | --no-a-b]\n  --kv-cache-dtype {auto,fp8}\n        see `--model`. -- x";
        let known = in_help(text);
        assert_eq!(known, ["--a-b", "--kv-cache-dtype", "--model", "--no-a-b"]);
        assert!(is_needless("--no-kv-cache-dtype", &known));
        assert!(
            !is_needless("--no-a-b", &known)
                && !is_needless("--no-x", &known)
                && !is_needless("--a-b", &known)
        );
    }
}
