//! Classifies failed attempts.

use std::error::Error;
use std::time::Duration;

use lmeval_core::{ModelError, ModelErrorKind};
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, LOCATION};
use serde_json::Value;

use super::direct::ExchangeError;
use super::redact::{Secrets, public_url};
use super::retry::retry_after;
use super::stream::{Exceeded, Limit};

/// Characters of an unexpected answer shown in a message.
const SHOWN: usize = 500;

pub(super) enum AttemptError {
    /// Another attempt may succeed.
    Retry(Failure),
    /// No attempt can succeed.
    Final(ModelError),
}

/// A failure worth a retry.
pub(super) struct Failure {
    pub(super) class: Class,
    pub(super) reason: String,
    /// The server's `Retry-After`.
    pub(super) retry_after: Option<Duration>,
    /// Whether lower concurrency may help.
    pub(super) is_overload: bool,
    /// The kind and hint of the error reported when no attempts are left.
    pub(super) kind: ModelErrorKind,
    pub(super) hint: Option<String>,
}

/// Decides which limit on attempts applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// The server is up and answers wrongly: `max_retries`.
    Wrong,
    /// Connection refused: `patience`, and the endpoint is ejected at once.
    Unreachable,
    /// The server cannot answer now: `patience`.
    Unavailable,
    /// Too many requests: `patience`, extended while other calls are answered.
    Busy,
    /// No answer in time: `patience` if no call is answered, else `max_retries`.
    Timeout,
}

impl Failure {
    pub(super) fn new(class: Class, reason: String) -> Self {
        let kind = ModelErrorKind::Unreachable;
        Self { class, reason, retry_after: None, is_overload: class == Class::Timeout, kind, hint: None }
    }

    /// An answer that could not be parsed.
    pub(super) fn unparsable(reason: &str, body: &[u8], secrets: &Secrets) -> Self {
        let reason = format!("{reason}; the answer starts with `{}`", excerpt_line(body, 200, secrets));
        Self { kind: ModelErrorKind::Answer, ..Self::new(Class::Wrong, reason) }
    }
}

/// Classifies an error of `reqwest`.
pub(super) fn classify_reqwest_error(
    error: reqwest::Error,
    url: &str,
    limit: Limit<'_>,
    has_answered: bool,
) -> AttemptError {
    let error = error.without_url();
    let cause = root_cause(&error);
    if error.is_builder() {
        let message = format!("The request to `{url}` is not valid: {cause}");
        return AttemptError::Final(ModelError::new(ModelErrorKind::Configuration, message));
    }
    if cause.contains("certificate") {
        let message = format!("The certificate of `{url}` is not trusted: {cause}");
        return AttemptError::Final(
            ModelError::new(ModelErrorKind::Configuration, message)
                .hint("Pass the server's certificate, or that of its CA, with the model argument `ca_cert_path`")
                .hint("Set `verify_certificate=False` to skip certificate checks"),
        );
    }
    if cause.contains("InvalidContentType") {
        let message = format!("`{url}` does not speak TLS: {cause}");
        let error = ModelError::new(ModelErrorKind::Configuration, message);
        return AttemptError::Final(error.hint("Use `http://` in the model argument `base_url`"));
    }
    if error.is_connect() {
        return no_connection(url, &cause, error.is_dns() && !has_answered);
    }
    if error.is_timeout() {
        return AttemptError::Retry(timed_out(url, limit));
    }
    closed(url, &cause)
}

/// Classifies an error of our own connections.
pub(super) fn classify_exchange_error(
    error: ExchangeError,
    url: &str,
    about: &str,
    limit: Limit<'_>,
    has_answered: bool,
) -> AttemptError {
    match error {
        ExchangeError::NoConnection { cause, is_dns } => no_connection(url, &cause, is_dns && !has_answered),
        ExchangeError::TimedOut => AttemptError::Retry(timed_out(url, limit)),
        ExchangeError::Closed(cause) => closed(url, &cause),
        ExchangeError::Truncated(cause) => {
            let reason = format!("The answer of `{url}` was cut off: {cause}");
            AttemptError::Retry(Failure::new(Class::Wrong, reason))
        }
        ExchangeError::Stray => {
            let kind = ModelErrorKind::Answer;
            let reason = format!("An answer of `{url}` may belong to another request");
            AttemptError::Retry(Failure { kind, ..Failure::new(Class::Wrong, reason) })
        }
        ExchangeError::TooLarge => too_large(url, about),
        ExchangeError::Encoded(encoding) => {
            let message = format!(
                "The answer of `{url}` has the content encoding `{encoding}`, which the request does not accept"
            );
            let error = ModelError::new(ModelErrorKind::Answer, message);
            AttemptError::Final(error.hint("Disable compression in the server or its reverse proxy"))
        }
    }
}

/// The warning about a server that sends unsolicited answers.
pub(super) fn stray_answer_warning(url: &str) -> String {
    format!(
        "`{url}` sends unsolicited answers, so earlier answers may belong to other requests, and later runs \
         would reuse them: rerun with `--fresh` to request them all again. From now on every request gets a new \
         connection"
    )
}

/// The error for an answer over the size limit.
pub(super) fn too_large(url: &str, about: &str) -> AttemptError {
    let message = format!(
        "The answer of `{url}` to {} is larger than 1 GiB, or than 64 MiB and 50 times its compressed size",
        subject(about)
    );
    AttemptError::Final(ModelError::new(ModelErrorKind::Answer, message))
}

fn no_connection(url: &str, cause: &str, is_slip: bool) -> AttemptError {
    // A host name that has never resolved is a typo rather than an outage.
    let class = if is_slip { Class::Wrong } else { Class::Unreachable };
    let mut failure = Failure::new(class, format!("No connection to `{url}`: {cause}"));
    failure.hint = Some("Check that the server is running and that `base_url` is correct".into());
    AttemptError::Retry(failure)
}

fn closed(url: &str, cause: &str) -> AttemptError {
    AttemptError::Retry(Failure::new(Class::Unavailable, format!("`{url}` closed the connection: {cause}")))
}

/// Classifies an answer that was cut off.
pub(super) fn classify_body_error(error: reqwest::Error, url: &str, limit: Limit<'_>) -> AttemptError {
    let error = error.without_url();
    if error.is_timeout() {
        return AttemptError::Retry(timed_out(url, limit));
    }
    let reason = format!("The answer of `{url}` was cut off: {}", root_cause(&error));
    AttemptError::Retry(Failure::new(Class::Wrong, reason))
}

fn timed_out(url: &str, limit: Limit<'_>) -> Failure {
    let (reason, argument) = match limit.exceeded() {
        Exceeded::Whole(time) => {
            (format!("No complete answer from `{url}` within {} s", time.as_secs_f64()), "timeout")
        }
        Exceeded::Start(time) => {
            (format!("No beginning of an answer from `{url}` within {} s", time.as_secs_f64()), "timeout")
        }
        Exceeded::Idle(time) => {
            (format!("`{url}` sent nothing for {} s within an answer", time.as_secs_f64()), "idle_timeout")
        }
    };
    let hint = format!("Increase the model argument `{argument}` (seconds)");
    Failure { hint: Some(hint), ..Failure::new(Class::Timeout, reason) }
}

/// Classifies an error status.
pub(super) fn classify_status(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    url: &str,
    about: &str,
    key_source: &str,
    secrets: &Secrets,
) -> AttemptError {
    let detail = server_message(body, secrets);
    let refused = |kind, verb: &str| {
        let message = format!("`{url}` {verb} {}: {status}: {detail}", subject(about));
        ModelError::new(kind, message)
    };
    let passing = |class, kind| {
        let reason = format!("`{url}` answered {status}: {detail}");
        let is_overload = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
        let failure =
            Failure { kind, is_overload, retry_after: retry_after(headers), ..Failure::new(class, reason) };
        AttemptError::Retry(failure)
    };
    match status.as_u16() {
        401..=403 => AttemptError::Final(
            refused(ModelErrorKind::Authentication, "rejected the key for").hint(format!(
                "The key comes from {key_source}; check that it is set, valid and allowed to use the model"
            )),
        ),
        429 if is_quota(body) => match passing(Class::Wrong, ModelErrorKind::Unreachable) {
            AttemptError::Retry(mut failure) => {
                failure.hint = Some(format!(
                    "The quota of the key from {key_source} is exhausted: check plan and billing"
                ));
                AttemptError::Retry(failure)
            }
            failed @ AttemptError::Final(_) => failed,
        },
        429 => passing(Class::Busy, ModelErrorKind::Unreachable),
        // 529 is a nonstandard "overloaded".
        502 | 503 | 504 | 529 => passing(Class::Unavailable, ModelErrorKind::Unreachable),
        408 | 409 | 425 => passing(Class::Wrong, ModelErrorKind::Unreachable),
        501 | 505 => AttemptError::Final(refused(ModelErrorKind::Request, "cannot answer")),
        500..=599 => passing(Class::Wrong, ModelErrorKind::Unreachable),
        300..=399 => {
            let error = refused(ModelErrorKind::Configuration, "redirected");
            let location = headers.get(LOCATION).and_then(|location| location.to_str().ok());
            AttemptError::Final(match location {
                Some(location) => {
                    error.hint(format!("Set `base_url` to the redirect target: {}", public_url(location)))
                }
                None => error,
            })
        }
        _ => {
            let error = refused(ModelErrorKind::Request, "refused");
            AttemptError::Final(match request_hint(status, &detail, url) {
                Some(hint) => error.hint(hint),
                None => error,
            })
        }
    }
}

/// The hint for a refused request.
fn request_hint(status: StatusCode, detail: &str, url: &str) -> Option<String> {
    let detail = detail.to_lowercase();
    let path = url.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
    let is_known_path =
        ["/completions", "/messages", "/responses", "/generate"].iter().any(|end| path.ends_with(end));
    if matches!(status.as_u16(), 404 | 405) && !is_known_path {
        return Some(format!(
            "`base_url` must be the full path, ending in `/v1/completions` or \
             `/v1/chat/completions`; it is `{path}`"
        ));
    }
    if status == StatusCode::NOT_FOUND {
        let other = match path.strip_suffix("/completions") {
            Some(root) if root.ends_with("/chat") => {
                let root = root.trim_end_matches("/chat");
                format!(
                    ". A server without chat: `--model local-completions --model_args base_url={root}/completions`"
                )
            }
            Some(root) => format!(
                ". A server for chats alone: `--model local-chat-completions --model_args \
                 base_url={root}/chat/completions`"
            ),
            None => String::new(),
        };
        return Some(format!(
            "Check that the server serves the model named by `model`, and that the path is correct{other}"
        ));
    }
    let is_long =
        ["context length", "context_length", "maximum context", "too long", "too large", "max_tokens"];
    if status == StatusCode::PAYLOAD_TOO_LARGE || is_long.iter().any(|text| detail.contains(text)) {
        return Some(
            "Lower `max_length`, `max_gen_toks` or `batch_size`, or start the server with a longer context"
                .into(),
        );
    }
    None
}

fn is_quota(body: &[u8]) -> bool {
    // Errors name the quota early, and answers can be huge.
    let text = String::from_utf8_lossy(&body[..body.len().min(1 << 16)]).to_lowercase();
    ["insufficient_quota", "exceeded your current quota", "billing_hard_limit", "credit balance is too low"]
        .iter()
        .any(|sign| text.contains(sign))
}

/// The subject of a message about a request.
pub(super) fn subject(about: &str) -> &str {
    if about.is_empty() { "the request" } else { about }
}

/// The server's error message: the message inside its JSON, else the start of the body.
///
/// Secrets are masked before truncation, which could leave part of one unrecognizable.
pub(super) fn server_message(body: &[u8], secrets: &Secrets) -> String {
    let found = serde_json::from_slice::<Value>(body).ok().and_then(|value| message_in(&value));
    match found {
        Some(message) => cut(secrets.mask(message).trim(), SHOWN),
        None => excerpt_line(body, SHOWN, secrets),
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
            // Validation errors name the offending part of the request.
            let location = object.get("loc").and_then(Value::as_array).map(|location| {
                let parts =
                    location.iter().map(|part| part.as_str().map_or_else(|| part.to_string(), str::to_owned));
                parts.collect::<Vec<_>>().join(".")
            });
            Some(location.map_or(message.clone(), |location| format!("{location}: {message}")))
        }
        _ => None,
    }
}

/// The start of a body on one line.
fn excerpt_line(body: &[u8], characters: usize, secrets: &Secrets) -> String {
    let body = body.trim_ascii_start();
    let excerpt = excerpt(body, characters, secrets);
    let mut text = secrets.mask(String::from_utf8_lossy(excerpt).into_owned());
    if excerpt.len() < body.len() {
        // The end may hold part of a secret or of a character.
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

/// The part of a body that can affect its first `characters`: bodies can be huge. Collapsed whitespace needs
/// extra room, and a secret must be complete to be recognized.
fn excerpt<'a>(body: &'a [u8], characters: usize, secrets: &Secrets) -> &'a [u8] {
    &body[..body.len().min(characters * 8 + secrets.longest())]
}

fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn root_cause(error: &dyn Error) -> String {
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
    fn extracts_server_messages() {
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
    fn masks_secrets_before_truncating() {
        let key = "sk-across-the-cut-0123456789";
        let secrets = Secrets::new(&[("Authorization".to_owned(), format!("Bearer {key}").into())], &[]);
        for before in SHOWN - key.len()..=SHOWN {
            let filler = "x".repeat(before);
            for body in [format!("{filler}{key}"), format!(r#"{{"error": "{filler}{key}"}}"#)] {
                let detail = server_message(body.as_bytes(), &secrets);
                assert!(!detail.contains("sk-"), "{before}: {detail}");
            }
            let escaped = format!(r#"{{"error": "{filler}\u0073{}"}}"#, &key[1..]);
            assert!(!server_message(escaped.as_bytes(), &secrets).contains("sk-"), "{before}");
        }
    }

    #[test]
    fn reads_only_the_start_of_a_large_answer() {
        let key = "sk-of-a-large-answer-0123456789";
        let secrets = Secrets::new(&[("Authorization".to_owned(), format!("Bearer {key}").into())], &[]);
        let body = format!("{}a{}", " ".repeat(9000), " b".repeat(1 << 20));
        assert!(excerpt(body.as_bytes(), 200, &secrets).len() < 2000);
        let detail = excerpt_line(body.as_bytes(), 200, &secrets);
        assert_eq!((detail.chars().count(), &detail[..3]), (201, "a b"));
        // Whitespace is collapsed, so the end of the excerpt can become visible.
        for gap in 1500..1700 {
            let body = format!("a{}{key}{}", " ".repeat(gap), "c".repeat(5000));
            let detail = excerpt_line(body.as_bytes(), 200, &secrets);
            assert!(
                !detail.contains("sk-") && detail.starts_with('a') && detail.ends_with('…'),
                "{gap}: {detail}"
            );
        }
    }

    #[test]
    fn hints_for_refused_requests() {
        let hint = |status, detail, url| request_hint(StatusCode::from_u16(status).unwrap(), detail, url);
        assert!(hint(404, "", "http://h:8000/v1").unwrap().contains("/v1/chat/completions"));
        assert!(hint(404, "no such model", "http://h/v1/completions").unwrap().contains("`model`"));
        assert!(
            hint(404, "", "http://h/v1/completions").unwrap().ends_with("=http://h/v1/chat/completions`")
        );
        assert!(
            hint(404, "", "http://h/v1/chat/completions").unwrap().ends_with("=http://h/v1/completions`")
        );
        assert!(
            hint(400, "maximum context length is 10", "http://h/v1/completions")
                .unwrap()
                .contains("max_length")
        );
        assert_eq!(hint(422, "no", "http://h/v1/completions"), None);
    }
}
