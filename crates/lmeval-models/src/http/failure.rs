//! What a failed attempt means.

use std::error::Error;
use std::time::Duration;

use lmeval_core::{ModelError, ModelErrorKind};
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, LOCATION};
use serde_json::Value;

use super::direct::Trouble;
use super::redact::{Secrets, public_url};
use super::retry::retry_after;

/// How much of an answer that cannot be understood is shown.
const SHOWN: usize = 500;

/// A failed attempt.
pub(super) enum Failed {
    /// Another attempt may do better.
    Passing(Failure),
    /// It would not.
    Final(ModelError),
}

/// A failure that may pass.
pub(super) struct Failure {
    pub(super) class: Class,
    /// What happened.
    pub(super) reason: String,
    /// The wait that the server asked for.
    pub(super) asked: Option<Duration>,
    /// Whether fewer calls at once may help.
    pub(super) is_overload: bool,
    /// The kind of the error when there is no further attempt, and what to try then.
    pub(super) kind: ModelErrorKind,
    pub(super) hint: Option<String>,
}

/// Which limit of attempts holds for a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// The server is there and answers wrongly: `max_retries`.
    Wrong,
    /// Nobody is there: `patience`, and the address is left out at once.
    Absent,
    /// The server cannot answer now: `patience`.
    Unavailable,
    /// The server has too many requests: `patience`, and longer while others are answered.
    Busy,
    /// No answer in time: `patience` where nobody gets one, else `max_retries`.
    Timeout,
}

impl Failure {
    fn new(class: Class, reason: String) -> Self {
        let kind = ModelErrorKind::Unreachable;
        Self { class, reason, asked: None, is_overload: class == Class::Timeout, kind, hint: None }
    }

    /// An answer that cannot be used.
    pub(super) fn bad_answer(reason: &str, body: &[u8], secrets: &Secrets) -> Self {
        let reason = format!("{reason}; the answer begins with `{}`", beginning(body, 200, secrets));
        Self { kind: ModelErrorKind::Answer, ..Self::new(Class::Wrong, reason) }
    }
}

/// What an attempt without an answer means.
pub(super) fn no_answer(error: reqwest::Error, url: &str, timeout: Duration, is_known: bool) -> Failed {
    let error = error.without_url();
    let cause = root_cause(&error);
    if error.is_builder() {
        let message = format!("`{url}` cannot be called: {cause}");
        return Failed::Final(ModelError::new(ModelErrorKind::Configuration, message));
    }
    if cause.contains("certificate") {
        let message = format!("The certificate of `{url}` is not trusted: {cause}");
        return Failed::Final(
            ModelError::new(ModelErrorKind::Configuration, message)
                .hint("Name its file, or that of its authority, with the model argument `ca_cert_path`")
                .hint("Give `verify_certificate=False` to trust any certificate"),
        );
    }
    if cause.contains("InvalidContentType") {
        let message = format!("`{url}` does not speak TLS: {cause}");
        let error = ModelError::new(ModelErrorKind::Configuration, message);
        return Failed::Final(error.hint("Begin the model argument `base_url` with `http://`"));
    }
    if error.is_connect() {
        return no_connection(url, &cause, error.is_dns() && !is_known);
    }
    if error.is_timeout() {
        return Failed::Passing(timed_out(url, timeout));
    }
    closed(url, &cause)
}

/// The same for connections of our own.
pub(super) fn trouble_of(
    trouble: Trouble,
    url: &str,
    about: &str,
    timeout: Duration,
    is_known: bool,
) -> Failed {
    match trouble {
        Trouble::NoConnection { cause, is_dns } => no_connection(url, &cause, is_dns && !is_known),
        Trouble::TimedOut => Failed::Passing(timed_out(url, timeout)),
        Trouble::Closed(cause) => closed(url, &cause),
        Trouble::HalfAnswer(cause) => {
            let reason = format!("The answer of `{url}` broke off: {cause}");
            Failed::Passing(Failure::new(Class::Wrong, reason))
        }
        Trouble::Stray => {
            let kind = ModelErrorKind::Answer;
            let reason = format!("An answer of `{url}` may be that to another request");
            Failed::Passing(Failure { kind, ..Failure::new(Class::Wrong, reason) })
        }
        Trouble::TooLarge => too_large(url, about),
        Trouble::Encoded(encoding) => {
            let message = format!(
                "The answer of `{url}` has the content encoding `{encoding}`, although the request accepts only `identity`"
            );
            let error = ModelError::new(ModelErrorKind::Answer, message);
            Failed::Final(error.hint("Turn off compression in the server, or in the proxy in front of it"))
        }
    }
}

/// What to say of a server that sends more answers than it was asked for.
pub(super) fn strays(url: &str) -> String {
    format!(
        "`{url}` sends answers that nobody has asked for, so earlier answers may be those to other requests, and later \
         runs would use them again: `--fresh` asks for all of them again. From now on every request gets a connection of \
         its own"
    )
}

/// The error of an answer that takes too much memory.
pub(super) fn too_large(url: &str, about: &str) -> Failed {
    let message = format!("The answer of `{url}` to {} is larger than 1 GiB", subject(about));
    Failed::Final(ModelError::new(ModelErrorKind::Answer, message))
}

fn no_connection(url: &str, cause: &str, is_slip: bool) -> Failed {
    // A name that never led anywhere is a slip of the pen rather than an outage.
    let class = if is_slip { Class::Wrong } else { Class::Absent };
    let mut failure = Failure::new(class, format!("No connection to `{url}`: {cause}"));
    failure.hint = Some("Check that the server runs and that `base_url` is its address".into());
    Failed::Passing(failure)
}

fn closed(url: &str, cause: &str) -> Failed {
    Failed::Passing(Failure::new(Class::Unavailable, format!("`{url}` closed the connection: {cause}")))
}

/// What an answer that breaks off means.
pub(super) fn half_answer(error: reqwest::Error, url: &str, timeout: Duration) -> Failed {
    let error = error.without_url();
    if error.is_timeout() {
        return Failed::Passing(timed_out(url, timeout));
    }
    let reason = format!("The answer of `{url}` broke off: {}", root_cause(&error));
    Failed::Passing(Failure::new(Class::Wrong, reason))
}

fn timed_out(url: &str, timeout: Duration) -> Failure {
    let reason = format!("No whole answer from `{url}` within {} s", timeout.as_secs_f64());
    let hint = "Give the server more time with the model argument `timeout`, in seconds";
    Failure { hint: Some(hint.into()), ..Failure::new(Class::Timeout, reason) }
}

/// What an error status means.
pub(super) fn bad_status(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    url: &str,
    about: &str,
    key_source: &str,
    secrets: &Secrets,
) -> Failed {
    let said = server_message(body, secrets);
    let refused = |kind, verb: &str| {
        let message = format!("`{url}` {verb} {}: {status}: {said}", subject(about));
        ModelError::new(kind, message)
    };
    let passing = |class, kind| {
        let reason = format!("`{url}` answered {status}: {said}");
        let is_overload = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
        let failure =
            Failure { kind, is_overload, asked: retry_after(headers), ..Failure::new(class, reason) };
        Failed::Passing(failure)
    };
    match status.as_u16() {
        401..=403 => Failed::Final(
            refused(ModelErrorKind::Authentication, "did not accept the key for").hint(format!(
                "The key comes from {key_source}; check that it is set, valid and allowed to use the model"
            )),
        ),
        429 if is_quota(body) => match passing(Class::Wrong, ModelErrorKind::Unreachable) {
            Failed::Passing(mut failure) => {
                failure.hint = Some(format!(
                    "The quota of the key from {key_source} is used up: check plan and billing"
                ));
                Failed::Passing(failure)
            }
            failed @ Failed::Final(_) => failed,
        },
        429 => passing(Class::Busy, ModelErrorKind::Unreachable),
        // 529 says that the server is overloaded, where it is used.
        502 | 503 | 504 | 529 => passing(Class::Unavailable, ModelErrorKind::Unreachable),
        408 | 409 | 425 => passing(Class::Wrong, ModelErrorKind::Unreachable),
        501 | 505 => Failed::Final(refused(ModelErrorKind::Request, "cannot answer")),
        500..=599 => passing(Class::Wrong, ModelErrorKind::Unreachable),
        300..=399 => {
            let error = refused(ModelErrorKind::Configuration, "leads elsewhere for");
            let location = headers.get(LOCATION).and_then(|location| location.to_str().ok());
            Failed::Final(match location {
                Some(location) => error
                    .hint(format!("Give the address it leads to as `base_url`: {}", public_url(location))),
                None => error,
            })
        }
        _ => {
            let error = refused(ModelErrorKind::Request, "refused");
            Failed::Final(match request_hint(status, &said, url) {
                Some(hint) => error.hint(hint),
                None => error,
            })
        }
    }
}

/// What to try about a request that was refused.
fn request_hint(status: StatusCode, said: &str, url: &str) -> Option<String> {
    let said = said.to_lowercase();
    let path = url.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
    let is_known_path =
        ["/completions", "/messages", "/responses", "/generate"].iter().any(|end| path.ends_with(end));
    if matches!(status.as_u16(), 404 | 405) && !is_known_path {
        return Some(format!(
            "`base_url` is called as it is given, here `{path}`; it should end in `/v1/completions` or \
             `/v1/chat/completions`"
        ));
    }
    if status == StatusCode::NOT_FOUND {
        return Some(
            "Check that the server offers the model of the argument `model`, and that the path is right"
                .into(),
        );
    }
    let is_long =
        ["context length", "context_length", "maximum context", "too long", "too large", "max_tokens"];
    if status == StatusCode::PAYLOAD_TOO_LARGE || is_long.iter().any(|text| said.contains(text)) {
        return Some(
            "Lower `max_length`, `max_gen_toks` or `batch_size`, or start the server with a longer context"
                .into(),
        );
    }
    None
}

fn is_quota(body: &[u8]) -> bool {
    // An error says so early; an answer can be huge.
    let text = String::from_utf8_lossy(&body[..body.len().min(1 << 16)]).to_lowercase();
    ["insufficient_quota", "exceeded your current quota", "billing_hard_limit", "credit balance is too low"]
        .iter()
        .any(|sign| text.contains(sign))
}

/// What a request is called in messages.
pub(super) fn subject(about: &str) -> &str {
    if about.is_empty() { "the request" } else { about }
}

/// What a server says about an error: the message within its JSON, else the beginning of the answer.
///
/// Secrets are masked before the text is cut: a cut would leave a part of one that is no longer recognised.
pub(super) fn server_message(body: &[u8], secrets: &Secrets) -> String {
    let found = serde_json::from_slice::<Value>(body).ok().and_then(|value| message_in(&value));
    match found {
        Some(message) => cut(secrets.mask(message).trim(), SHOWN),
        None => beginning(body, SHOWN, secrets),
    }
}

fn message_in(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
        Value::Array(items) => {
            let messages: Vec<String> = items.iter().filter_map(message_in).collect();
            (!messages.is_empty()).then(|| messages.join("; "))
        }
        Value::Object(object) => {
            let message = ["error", "message", "detail", "msg", "errors"]
                .iter()
                .find_map(|name| object.get(*name).and_then(message_in))?;
            // Which part of a request a validation is about.
            let place = object.get("loc").and_then(Value::as_array).map(|place| {
                let parts =
                    place.iter().map(|part| part.as_str().map_or_else(|| part.to_string(), str::to_owned));
                parts.collect::<Vec<_>>().join(".")
            });
            Some(place.map_or(message.clone(), |place| format!("{place}: {message}")))
        }
        _ => None,
    }
}

/// The beginning of an answer in one line.
fn beginning(body: &[u8], characters: usize, secrets: &Secrets) -> String {
    let body = body.trim_ascii_start();
    let excerpt = excerpt(body, characters, secrets);
    let mut text = secrets.mask(String::from_utf8_lossy(excerpt).into_owned());
    if excerpt.len() < body.len() {
        // The end may hold part of a secret and part of a character.
        let end = text.len().saturating_sub(secrets.longest() + char::REPLACEMENT_CHARACTER.len_utf8());
        text.truncate(text.floor_char_boundary(end));
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    match line.as_str() {
        "" => "nothing".into(),
        line if excerpt.len() < body.len() && line.chars().count() <= characters => format!("{line}…"),
        line => cut(line, characters),
    }
}

/// As much of an answer as its beginning may need: answers can be huge. Whitespace that is joined needs some more, and a
/// secret must be there whole to be recognised.
fn excerpt<'a>(body: &'a [u8], characters: usize, secrets: &Secrets) -> &'a [u8] {
    &body[..body.len().min(characters * 8 + secrets.longest())]
}

fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

pub(super) fn root_cause(error: &dyn Error) -> String {
    let (mut source, mut text) = (error.source(), error.to_string());
    while let Some(error) = source {
        text = error.to_string();
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_servers() {
        let none = Secrets::new(&[], &[]);
        for (body, message) in [
            (r#"{"error": {"message": "Too long", "type": "x"}}"#, "Too long"),
            (r#"{"error": "Model not found"}"#, "Model not found"),
            (r#"{"object": "error", "message": "bad prompt", "code": 400}"#, "bad prompt"),
            (r#"{"detail": "Not Found"}"#, "Not Found"),
            (
                r#"{"detail": [{"loc": ["body", "prompt", 0], "msg": "field required"}]}"#,
                "body.prompt.0: field required",
            ),
            (r#"[{"error": {"code": 400, "message": "in a list"}}]"#, "in a list"),
            ("<html>\n  <b>Bad</b></html>", "<html> <b>Bad</b></html>"),
            (r#"{"status": 400}"#, r#"{"status": 400}"#),
            ("", "nothing"),
        ] {
            assert_eq!(server_message(body.as_bytes(), &none), message, "{body}");
        }
        assert_eq!(server_message("é".repeat(600).as_bytes(), &none).chars().count(), SHOWN + 1);
        assert!(!server_message(&[0xff; 3000], &none).is_empty());
    }

    #[test]
    fn a_secret_across_the_cut_is_masked() {
        let key = "sk-across-the-cut-0123456789";
        let secrets = Secrets::new(&[("Authorization".to_owned(), format!("Bearer {key}").into())], &[]);
        for before in SHOWN - key.len()..=SHOWN {
            let filler = "x".repeat(before);
            for body in [format!("{filler}{key}"), format!(r#"{{"error": "{filler}{key}"}}"#)] {
                let said = server_message(body.as_bytes(), &secrets);
                assert!(!said.contains("sk-"), "{before}: {said}");
            }
            let escaped = format!(r#"{{"error": "{filler}\u0073{}"}}"#, &key[1..]);
            assert!(!server_message(escaped.as_bytes(), &secrets).contains("sk-"), "{before}");
        }
    }

    #[test]
    fn only_the_beginning_of_a_large_answer_is_read() {
        let key = "sk-of-a-large-answer-0123456789";
        let secrets = Secrets::new(&[("Authorization".to_owned(), format!("Bearer {key}").into())], &[]);
        let body = format!("{}a{}", " ".repeat(9000), " b".repeat(1 << 20));
        assert!(excerpt(body.as_bytes(), 200, &secrets).len() < 2000);
        let said = beginning(body.as_bytes(), 200, &secrets);
        assert_eq!((said.chars().count(), &said[..3]), (201, "a b"));
        // Whitespace is joined, so the end of the excerpt can become visible.
        for gap in 1500..1700 {
            let body = format!("a{}{key}{}", " ".repeat(gap), "c".repeat(5000));
            let said = beginning(body.as_bytes(), 200, &secrets);
            assert!(!said.contains("sk-") && said.starts_with('a') && said.ends_with('…'), "{gap}: {said}");
        }
    }

    #[test]
    fn hints_about_requests() {
        let hint = |status, said, url| request_hint(StatusCode::from_u16(status).unwrap(), said, url);
        assert!(hint(404, "", "http://h:8000/v1").unwrap().contains("/v1/chat/completions"));
        assert!(hint(404, "no such model", "http://h/v1/completions").unwrap().contains("`model`"));
        assert!(
            hint(400, "maximum context length is 10", "http://h/v1/completions")
                .unwrap()
                .contains("max_length")
        );
        assert_eq!(hint(422, "no", "http://h/v1/completions"), None);
    }
}
