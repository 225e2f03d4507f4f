//! Response caches of the Python harness: SQLite files of pickles, read by Python itself.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use lmeval_core::{Diagnose, Response};
use lmeval_pycompat::{Value, json};

use crate::host::PythonHost;
use crate::parent;

/// Runs on every Python 3 with the standard library only.
const SCRIPT: &str = include_str!("old_cache.py");

/// The rows of an old response cache: a request hash and its answer, or `None` for a row that is not an answer.
#[derive(Debug)]
pub struct OldCache {
    path: PathBuf,
    child: Child,
    lines: BufReader<ChildStdout>,
    is_over: bool,
}

/// An old response cache that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("Cannot import `{}`: {message}", path.display())]
pub struct OldCacheError {
    path: PathBuf,
    message: String,
    hint: Option<String>,
}

impl Diagnose for OldCacheError {
    fn hints(&self) -> Vec<String> {
        self.hint.iter().cloned().collect()
    }
}

impl PythonHost {
    /// Reads a response cache written by the Python harness. Never runs code from it.
    pub fn old_cache(&self, path: &Path) -> Result<OldCache, OldCacheError> {
        let failed = |message: String, hint| OldCacheError { path: path.to_owned(), message, hint };
        let (_, mut child) = self
            .pool
            .options()
            .start(|python| {
                let mut command = Command::new(python);
                command.args(["-I", "-c", SCRIPT]).arg(path);
                command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
                parent::spawn(command)
            })
            .map_err(|error| failed(error.to_string(), error.hint()))?;
        let output = child.stdout.take().ok_or_else(|| failed("Python has no output".to_owned(), None))?;
        Ok(OldCache { path: path.to_owned(), child, lines: BufReader::new(output), is_over: false })
    }
}

impl OldCache {
    fn error(&self, message: impl Into<String>) -> OldCacheError {
        OldCacheError { path: self.path.clone(), message: message.into(), hint: None }
    }

    fn read(&mut self) -> Result<Option<Row>, OldCacheError> {
        let mut line = String::new();
        let length = self.lines.read_line(&mut line).map_err(|error| self.error(error.to_string()))?;
        if length == 0 {
            let mut output = String::new();
            if let Some(stderr) = &mut self.child.stderr {
                // Best effort: the error is complete without it.
                let _ = stderr.read_to_string(&mut output);
            }
            let last = output.trim_end().lines().next_back().unwrap_or("it printed nothing");
            return Err(self.error(format!("Python ended before the last row: {last}")));
        }
        let value = json::loads(&line).map_err(|error| self.error(error.to_string()))?;
        if value.as_str() == Some("end") {
            return Ok(None);
        }
        if let Value::Dict(ended) = &value {
            let message = ended.get_str("error").and_then(Value::as_str).unwrap_or("Python failed");
            return Err(self.error(message));
        }
        Ok(Some(value.as_list().and_then(answer)))
    }
}

type Row = Option<([u8; 32], Response)>;

impl Iterator for OldCache {
    type Item = Result<Row, OldCacheError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let row = self.read();
        self.is_over = !matches!(row, Ok(Some(_)));
        row.transpose()
    }
}

impl Drop for OldCache {
    fn drop(&mut self) {
        // Python may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn answer(row: &[Value]) -> Row {
    let [key, answer] = row else { return None };
    let response = match answer {
        Value::Str(text) => Response::Text(text.clone()),
        Value::Dict(rolling) => match rolling.get_str("logprob")? {
            Value::Float(logprob) => Response::Rolling { logprob: *logprob },
            _ => return None,
        },
        answer => match answer.as_list()? {
            [Value::Float(logprob), Value::Bool(is_greedy)] => {
                Response::Loglikelihood { logprob: *logprob, is_greedy: *is_greedy }
            }
            _ => return None,
        },
    };
    Some((parse_hash(key.as_str()?)?, response))
}

/// Parses 64 lower-case hexadecimal digits.
fn parse_hash(text: &str) -> Option<[u8; 32]> {
    let text: &[u8; 64] = text.as_bytes().try_into().ok()?;
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut hash = [0; 32];
    for (byte, digits) in hash.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(digits[0])? << 4 | digit(digits[1])?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_hashes() {
        let text = "0123456789abcdef".repeat(4);
        let hash = parse_hash(&text).unwrap();
        assert_eq!(hash[..8], [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]);
        assert_eq!(parse_hash(&text[1..]), None);
        assert_eq!(parse_hash(&text.to_uppercase()), None);
    }
}
