//! The log of a server: what it is doing, and why it ended.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fs_err as fs;
use lmeval_core::ModelError;
use lmeval_core::secrets::mask;

use super::interpreter::configuration;
use super::software::Software;

/// How much of the end of a log is read.
const TAIL: u64 = 256 * 1024;
/// The lines of a log in an error.
const SHOWN: usize = 20;
/// The characters of a line in the progress.
const LONGEST_LINE: usize = 100;

/// The log of a server.
#[derive(Clone, Debug)]
pub(super) struct Log {
    path: PathBuf,
    /// Where the current server's lines begin.
    start: u64,
}

impl Log {
    /// The log from its present end on.
    pub(super) fn from_end(path: &Path) -> Self {
        let start = fs::metadata(path).map_or(0, |file| file.len());
        Self { path: path.to_owned(), start }
    }

    /// The last lines, without control characters.
    fn lines(&self) -> Vec<String> {
        let read = || {
            let mut file = fs::File::open(&self.path)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(self.start.max(length.saturating_sub(TAIL))))?;
            let mut bytes = Vec::new();
            file.take(TAIL).read_to_end(&mut bytes)?;
            std::io::Result::Ok(bytes)
        };
        // A log that cannot be read explains nothing.
        let bytes = read().unwrap_or_default();
        String::from_utf8_lossy(&bytes)
            .split(['\n', '\r'])
            .map(plain)
            .filter(|line| !line.is_empty())
            .collect()
    }

    /// The last message of the server, shortened.
    pub(super) fn last_line(&self) -> Option<String> {
        let lines = self.lines();
        let message = lines.iter().rev().find_map(|line| message(line))?;
        Some(message.chars().take(LONGEST_LINE).collect())
    }

    /// The seconds since the server last wrote anything.
    pub(super) fn silence(&self) -> u64 {
        let written = fs::metadata(&self.path).and_then(|file| file.modified());
        written
            .ok()
            .and_then(|written| SystemTime::now().duration_since(written).ok())
            .map_or(0, |age| age.as_secs())
    }

    /// The flags that the server has refused.
    pub(super) fn refused_flags(&self) -> Vec<String> {
        let lines = self.lines();
        let refusal = lines.iter().rev().find_map(|line| line.split_once("unrecognized arguments: "));
        let words = refusal.map(|(_, words)| words.split_whitespace()).into_iter().flatten();
        words.filter(|word| word.starts_with("--")).map(str::to_owned).collect()
    }

    /// Whether the server ended because somebody killed a process of its, or took its port before it could. vLLM says only
    /// that its engine did not start then; otherwise it says why.
    pub(super) fn tells_of_an_accident(&self) -> bool {
        const NO_REASON: [&str; 2] =
            ["Engine core initialization failed", "WorkerProc initialization failed"];
        let is_vague = |line: &&String| NO_REASON.iter().any(|part| line.contains(part));
        let lines = self.lines();
        if lines.iter().any(|line| line.to_lowercase().contains("address already in use")) {
            return true;
        }
        let is_reason = |line: &String| line.contains("Error: ") || line.contains("Exception: ");
        lines.iter().any(|line| is_vague(&line))
            && !lines.iter().any(|line| is_reason(line) && !is_vague(&line))
    }

    /// The error of a server that could not be started.
    pub(super) fn explain(&self, software: &Software, message: String) -> ModelError {
        let lines = self.lines();
        let from = lines.len().saturating_sub(SHOWN);
        let mut error = configuration(message);
        for hint in causes(software, &lines) {
            error = error.hint(hint);
        }
        error = error.hint(format!("Its log is `{}`", self.path.display()));
        if lines.is_empty() { error } else { error.with_traceback(mask(&lines[from..].join("\n"))) }
    }
}

/// A line without escape sequences and control characters.
fn plain(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => {
                if characters.next() == Some('[') {
                    characters.by_ref().find(|character| ('@'..='~').contains(character));
                }
            }
            '\t' => text.push(' '),
            character if character.is_control() => {}
            character => text.push(character),
        }
    }
    text.trim_end().to_owned()
}

/// The message of a log line, without process, level, time and file; `None` for other output, such as banners and
/// warnings of Python.
fn message(line: &str) -> Option<&str> {
    const LEVELS: [&str; 4] = ["INFO ", "WARNING ", "ERROR ", "[20"];
    // Nothing that the server does.
    let is_noise = ["Triton", "Warning:", "warnings.warn"].iter().any(|part| line.contains(part));
    if is_noise {
        return None;
    }
    let has_letters =
        |message: &&str| message.chars().filter(|character| character.is_alphabetic()).count() > 3;
    match line.split_once("] ") {
        Some((prefix, message)) if LEVELS.iter().any(|level| prefix.contains(level)) => {
            Some(message.trim()).filter(has_letters)
        }
        // A progress bar.
        _ => Some(line.trim()).filter(|line| line.contains('%')).filter(has_letters),
    }
}

/// Advice for the usual causes.
fn causes(software: &Software, lines: &[String]) -> Vec<String> {
    let text = lines.join("\n").to_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
    let mut hints = Vec::new();
    let (length, share, size) = if software.module == "vllm" {
        ("max_model_len", "gpu_memory_utilization", "tensor_parallel_size")
    } else {
        ("context_length", "mem_fraction_static", "tp_size")
    };
    let has_no_cache = [
        "no available memory for the cache blocks",
        "kv cache is needed",
        "stored in kv cache",
        "not enough memory",
    ];
    if has(&has_no_cache) {
        hints.push(format!(
            "The weights leave no memory for the cache: raise `{share}` or `{size}`, or lower `{length}`"
        ));
    } else if has(&["free memory on device"]) {
        hints.push(format!("Other processes use the GPU: end them, or lower `{share}`"));
    } else if has(&["out of memory"]) {
        hints.push(format!(
            "The memory of the GPU does not suffice: raise `{size}`, lower `{share}` or `{length}`, or end other \
             processes that use the GPU"
        ));
    } else if has(&["derived max_model_len", "longer than the derived context"]) {
        hints.push("`max_model_len` is larger than the model's context: lower it or leave it out".to_owned());
    }
    if has(&[
        "no cuda gpus are available",
        "found no nvidia driver",
        "failed to infer device type",
        "driver version is insufficient",
        "libcuda.so",
    ]) {
        hints.push(
            "No usable GPU: check that `nvidia-smi` lists one, and the value of CUDA_VISIBLE_DEVICES"
                .to_owned(),
        );
    }
    if has(&["gatedrepoerror", "gated repo", "401 client error", "403 client error"]) {
        hints.push("The model needs a login: accept its terms on the hub, and set HF_TOKEN".to_owned());
    } else if has(&[
        "repository not found",
        "is not a valid model identifier",
        "invalid repository id or local directory",
        "does not appear to have a file named",
        "repo id must",
    ]) {
        hints.push("The model was not found: check `pretrained` and `revision`".to_owned());
    }
    if has(&["trust_remote_code=true", "trust-remote-code"]) && has(&["custom code", "error"]) {
        hints.push("The model brings its own code, which `trust_remote_code=True` allows to run".to_owned());
    }
    if has(&["are not supported for now", "model architectures"]) && has(&["not supported"]) {
        hints.push(format!("This version of {} does not know the model's architecture", software.title));
    }
    hints
}

#[cfg(test)]
mod tests {
    use lmeval_core::Diagnose as _;

    use super::super::software::VLLM;
    use super::*;

    fn log(text: &str) -> (tempfile::TempDir, Log) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, text).unwrap();
        let log = Log { path, start: 0 };
        (folder, log)
    }

    #[test]
    fn last_line_is_the_message_alone() {
        let (_folder, log) = log(
            "a\n\u{1b}[36m(EngineCore pid=7)\u{1b}[0m INFO 11-18 20:19:36 [core.py:133] Loading weights\n\n  ███\n",
        );
        assert_eq!(log.last_line().as_deref(), Some("Loading weights"));
        let noise = "INFO 11-18 20:19:36 [core.py:1] Loading\nWARNING 11-18 20:19:37 [importing.py:2] Triton is not installed\n\
                     /x/y.py:3: DeprecationWarning: 100% of it [20 lines] goes\n";
        let (_folder, log) = self::log(noise);
        assert_eq!(log.last_line().as_deref(), Some("Loading"));
    }

    #[test]
    fn names_the_usual_causes() {
        for (text, part) in [
            ("torch.OutOfMemoryError: CUDA out of memory. Tried", "raise `tensor_parallel_size`, lower"),
            ("ValueError: No available memory for the cache blocks. Try", "raise `gpu_memory_utilization`"),
            ("ValueError: Free memory on device (1/80 GiB) is less", "end them, or lower `gpu_memory"),
            ("RuntimeError: No CUDA GPUs are available", "nvidia-smi"),
            (
                "User-specified max_model_len (9) is greater than the derived max_model_len (8)",
                "`max_model_len`",
            ),
            ("OSError: x is not a local folder and is not a valid model identifier listed", "`pretrained`"),
            ("GatedRepoError: 401 Client Error", "HF_TOKEN"),
        ] {
            let (_folder, log) = log(text);
            let error = log.explain(&VLLM, "It ended".to_owned());
            assert!(error.hints()[0].contains(part), "{text}: {:?}", error.hints());
            assert_eq!(error.traceback(), Some(text));
        }
    }

    #[test]
    fn tells_accidents_from_mistakes() {
        let vague =
            "RuntimeError: Engine core initialization failed. Failed core proc(s): {'EngineCore': 1}\n";
        let worker =
            "Exception: WorkerProc initialization failed due to an exception in a background process.\n";
        for text in [
            vague.to_owned(),
            format!("{worker}{vague}"),
            "OSError: [Errno 98] Address already in use".into(),
        ] {
            assert!(log(&text).1.tells_of_an_accident(), "{text}");
        }
        for text in
            ["Loading weights", "ValueError: no such flag", &format!("ValueError: no cache\n{worker}{vague}")]
        {
            assert!(!log(text).1.tells_of_an_accident(), "{text}");
        }
    }

    #[test]
    fn finds_refused_flags() {
        let (_folder, log) =
            log("api_server.py: error: unrecognized arguments: --kv-cache-dtipe fp8 --x=1\n");
        assert_eq!(log.refused_flags(), ["--kv-cache-dtipe", "--x=1"]);
    }
}
