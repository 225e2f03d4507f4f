//! The HTTP client of a model server.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use lmeval_core::{ModelError, ModelErrorKind, ModelStats};
use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue};
use reqwest::{Method, Request, Response, Url};
use tokio::time::Instant;
use tracing::{Level, debug};

use super::balance::{Balancer, Denied, Preference};
use super::connect::{Connections, Transport, endpoints};
use super::decode::decoded;
use super::direct::{ExchangeError, Outgoing, Reply};
use super::failure::{
    AttemptError, Class, Failure, classify_body_error, classify_exchange_error, classify_reqwest_error,
    classify_status, stray_answer_warning, subject, too_large,
};
use super::limiter::{Limiter, MAX_CONCURRENCY};
use super::member::Endpoint;
use super::members::Listed;
use super::rate::Bucket;
use super::redact::{Secrets, public_url};
use super::retry::{FirstAnswer, Outage, backoff, stretched};
use super::settings::ClientSettings;
use super::shutdown::{Shutdown, stopped};
use super::stream::{Limit, Pace, Receiver, Tap};
use super::trace::AttemptTrace;

/// Larger answers are refused.
const MAX_ANSWER_BYTES: usize = 1 << 30;
/// How often a call may fail with "unavailable" while the server answers other calls.
const UNAVAILABLE_AMONG_ANSWERS: usize = 20;
/// The same for "too many requests": other calls may simply have been faster.
const BUSY_AMONG_ANSWERS: usize = 100;
/// A server that never returned log-probabilities is taken to lack them after this many answers without.
const INCAPABLE_ANSWERS: usize = 3;
/// A limit for an exchange that has one of its own.
const UNLIMITED: Duration = Duration::from_hours(24 * 365);
/// Attempts of an auxiliary GET.
const GET_ATTEMPTS: u32 = 3;

/// A client of one server, or of several interchangeable ones.
pub struct Client {
    pub(super) settings: ClientSettings,
    pub(super) secrets: Secrets,
    pub(super) connections: Connections,
    pub(super) balancer: Balancer,
    limiter: Limiter,
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    pub(super) outage: Outage,
    pub(super) first_answer: FirstAnswer,
    /// The path and body of a call that every server of this kind can answer.
    pub(super) trial: OnceLock<(String, Bytes)>,
    shutdown: Shutdown,
    /// Whether a silence of the server has been reported.
    pub(super) is_silent: AtomicBool,
    /// Whether the server has ever returned log-probabilities.
    has_scored: AtomicBool,
    retries: AtomicU64,
    pub(super) stats: ModelStats,
    /// The list of the pool that is in use, and the problem with its successor that was reported.
    pub(super) listed: Mutex<Listed>,
}

/// A JSON body to POST to the server.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// Appended to the base URL; empty to call the base URL itself.
    pub path: &'a str,
    /// The serialized JSON.
    pub body: Bytes,
    /// The document or documents the call is about, for messages.
    pub about: &'a str,
    /// Estimated prompt and output tokens, for the tokens-per-minute limit.
    pub tokens: u64,
    /// Whether the call requests log-probabilities.
    pub scores: bool,
}

/// The destination of a call, if it is not the base URL of any endpoint.
#[derive(Clone, Copy, Default)]
pub(crate) struct Route<'a> {
    /// A path of the server instead of that of the base URL, such as `/inference/v1/generate`.
    pub(crate) path: Option<&'a str>,
    /// The only member that may answer.
    pub(crate) only: Option<usize>,
    /// Calls with the same number prefer the same server.
    pub(crate) affinity: Option<u64>,
    /// The protocols that the server must have proven, as bits.
    pub(crate) needs: u8,
    /// Whether a server that cannot be reached is not waited for.
    pub(crate) once: bool,
    /// Receives the answer while it arrives, and decides what is sent instead of the body.
    pub(crate) receiver: Option<&'a dyn Receiver>,
}

/// Why an answer cannot be used, and whether a retry can help.
#[derive(Debug)]
pub enum BadAnswer {
    /// Not JSON, or not of the expected shape; retried. The string says what is wrong.
    Retry(String),
    /// No call to this server can succeed.
    Fatal(ModelError),
    /// The log-probabilities are missing. Retried if the server has returned them before; otherwise no call
    /// can succeed.
    Incapable(ModelError),
    /// This call cannot succeed; others may.
    Final(ModelError),
}

#[derive(Default)]
struct Attempts {
    all: u32,
    wrong: usize,
    /// Failures while the server answered other calls.
    among_answers: usize,
    /// Answers without the requested log-probabilities.
    incapable: usize,
    /// The member of the last attempt.
    last: Option<usize>,
}

impl Client {
    /// Creates a client; connections are opened on demand.
    pub fn new(settings: ClientSettings) -> Result<Self, ModelError> {
        let connections = Connections::new(&settings, settings.num_concurrent.unwrap_or(MAX_CONCURRENCY))?;
        let stats = ModelStats::default();
        Ok(Self {
            secrets: Secrets::new(&settings.headers, &settings.base_urls),
            balancer: Balancer::new(
                endpoints(&settings, &connections)?,
                settings.retry_wait,
                settings.pool.is_some(),
            ),
            limiter: Limiter::new(settings.num_concurrent, &stats),
            requests: settings.requests_per_minute.map(Bucket::new),
            tokens: settings.tokens_per_minute.map(Bucket::new),
            outage: Outage::new(),
            first_answer: FirstAnswer::default(),
            trial: OnceLock::new(),
            shutdown: Shutdown::default(),
            is_silent: AtomicBool::new(false),
            has_scored: AtomicBool::new(false),
            retries: AtomicU64::new(0),
            connections,
            stats,
            settings,
            listed: Mutex::default(),
        })
    }

    /// Counters of calls, retries and concurrency.
    pub fn stats(&self) -> &ModelStats {
        &self.stats
    }

    /// Fails calls that are waiting for the server, for a limit or for the next attempt.
    pub fn wind_down(&self) {
        self.shutdown.start();
    }

    /// How many calls may be made concurrently. Calls beyond the adaptive limit wait inside the client.
    pub fn most_in_flight(&self) -> usize {
        self.settings.num_concurrent.unwrap_or(MAX_CONCURRENCY)
    }

    /// How long to wait for a server that is down.
    pub fn patience(&self) -> Duration {
        self.settings.patience
    }

    /// Sends a call, with retries, until it is answered, and returns the parsed answer.
    pub async fn post<T>(
        &self,
        call: Call<'_>,
        parse: impl Fn(&[u8]) -> Result<T, BadAnswer> + Send + Sync,
    ) -> Result<T, ModelError> {
        self.post_to(Route::default(), call, parse).await
    }

    /// [`post`](Self::post) to another path of the server, or to a particular endpoint.
    pub(crate) async fn post_to<T>(
        &self,
        route: Route<'_>,
        call: Call<'_>,
        parse: impl Fn(&[u8]) -> Result<T, BadAnswer> + Send + Sync,
    ) -> Result<T, ModelError> {
        let about = call.about;
        self.post_until_answered(route, call, parse).await.map_err(|error| error.about(about))
    }

    async fn post_until_answered<T>(
        &self,
        route: Route<'_>,
        call: Call<'_>,
        parse: impl Fn(&[u8]) -> Result<T, BadAnswer> + Send + Sync,
    ) -> Result<T, ModelError> {
        let mut attempts = Attempts::default();
        loop {
            let queued = tracing::enabled!(Level::DEBUG).then(Instant::now);
            // A member is examined without a permit: calls that wait for it may hold all of them.
            let permit = match route.only {
                Some(_) => None,
                None => Some(self.shutdown.or_stop(self.limiter.acquire(&self.stats)).await?),
            };
            let deadline = || self.outage.deadline(self.settings.patience).map(|(deadline, _)| deadline);
            let Route { only, affinity, needs, once, .. } = route;
            let preference = Preference { avoid: attempts.last, only, affinity, needs };
            let chosen = match self.shutdown.or_stop(self.balancer.choose(preference, deadline)).await? {
                Ok(chosen) => chosen,
                Err(Denied::Nobody) => return Err(nobody(&call)),
                Err(Denied::Deadline) => {
                    let reason =
                        self.outage.deadline(Duration::ZERO).map_or_else(String::new, |(_, reason)| reason);
                    return Err(self.out_of_patience(&call, &reason, None));
                }
            };
            self.shutdown.or_stop(self.wait_for_rates(call.tokens)).await?;
            let answers = self.outage.answers();
            let started = Instant::now();
            let trace = AttemptTrace {
                call: &call,
                url: &chosen.endpoint.shown,
                number: attempts.all + 1,
                queued,
                started,
            };
            trace.sent();
            // Boxed: it is most of the state of a call.
            let attempt = Box::pin(self.attempt_watched(&chosen, route, &call));
            let failure = match self.unless_kept(route.receiver, attempt).await {
                Ok(body) => {
                    trace.answered(body.len());
                    self.end_silence();
                    self.limiter.answered(started, &self.stats);
                    chosen.answered(started.elapsed());
                    self.outage.record_answer();
                    match parse(&body) {
                        Ok(parsed) => {
                            self.first_answer.record();
                            if call.scores {
                                self.has_scored.store(true, Ordering::Relaxed);
                            }
                            return Ok(parsed);
                        }
                        Err(BadAnswer::Retry(reason)) => Failure::unparsable(&reason, &body, &self.secrets),
                        Err(BadAnswer::Incapable(error)) => {
                            attempts.incapable += 1;
                            if self.is_incapable(attempts.incapable) {
                                return Err(self.secrets.mask_error(&error));
                            }
                            Failure::unparsable(&error.to_string(), &body, &self.secrets)
                        }
                        Err(BadAnswer::Fatal(error) | BadAnswer::Final(error)) => {
                            return Err(self.secrets.mask_error(&error));
                        }
                    }
                }
                Err(AttemptError::Final(error)) => {
                    let error = self.secrets.mask_error(&error);
                    trace.failed(|| error.to_string());
                    return Err(error);
                }
                Err(AttemptError::Retry(failure)) => {
                    trace.failed(|| self.secrets.mask(failure.reason.clone()));
                    if failure.is_overload {
                        self.limiter.overloaded(started, &self.stats);
                    }
                    chosen.failed(failure.class == Class::Unreachable, failure.retry_after);
                    failure
                }
            };
            attempts.last = Some(chosen.id);
            let endpoint = Arc::clone(&chosen.endpoint);
            drop(chosen);
            drop(permit);
            if failure.class == Class::Wrong {
                self.check_start(&endpoint, attempts.wrong == 0, &failure).await?;
            }
            if once && failure.class != Class::Wrong {
                return Err(self.given_up(ModelErrorKind::Unreachable, failure.reason, failure.hint));
            }
            let has_kept = route.receiver.is_some_and(Receiver::has_kept);
            let wait = self.next_wait(&call, &mut attempts, failure, (answers, has_kept))?;
            debug!(about = call.about, attempt = attempts.all, wait_ms = wait.as_millis(), "Retrying");
            self.shutdown.or_stop(tokio::time::sleep(wait)).await?;
        }
    }

    /// Waits for an attempt. When the run stops, an answer whose beginning is kept is not waited for.
    async fn unless_kept(
        &self,
        receiver: Option<&dyn Receiver>,
        mut attempt: impl Future<Output = Result<Bytes, AttemptError>> + Unpin,
    ) -> Result<Bytes, AttemptError> {
        let Some(receiver) = receiver else { return attempt.await };
        tokio::select! {
            biased;
            done = &mut attempt => return done,
            () = self.shutdown.started() => {}
        }
        if receiver.has_kept() {
            return Err(AttemptError::Final(stopped()));
        }
        attempt.await
    }

    /// Sends an auxiliary GET, such as a query for the model list, with few attempts. Headers, which may hold
    /// a key, are sent to the servers of `base_url` only.
    pub async fn get(&self, url: &str, timeout: Duration) -> Result<Bytes, ModelError> {
        self.get_in(url, timeout, GET_ATTEMPTS).await
    }

    /// [`get`](Self::get) with a number of attempts.
    pub(crate) async fn get_in(
        &self,
        url: &str,
        timeout: Duration,
        attempts: u32,
    ) -> Result<Bytes, ModelError> {
        let shown = public_url(url);
        let Ok(parsed) = Url::parse(url) else {
            let message = format!("`{shown}` is not a valid URL");
            return Err(ModelError::new(ModelErrorKind::Configuration, message));
        };
        let own = self.balancer.at_origin(&parsed);
        let none = HeaderMap::new();
        let mut attempt = 1;
        loop {
            let headers = own.as_ref().map_or(&none, |endpoint| &endpoint.headers);
            let request =
                Outgoing { method: &Method::GET, url: &parsed, headers, body: &Bytes::new(), tap: None };
            let transport = self.connections.for_url(&parsed);
            match self.exchange(&transport, &request, &shown, "the query", Limit::whole(timeout)).await {
                Ok(body) => return Ok(body),
                Err(AttemptError::Final(error)) => return Err(self.secrets.mask_error(&error)),
                Err(AttemptError::Retry(failure)) if attempt >= attempts => {
                    // A server that answers wrongly is up, so callers that wait for one to come up need not.
                    let is_up = failure.class == Class::Wrong;
                    let kind = if is_up { ModelErrorKind::Answer } else { failure.kind };
                    let mut error = ModelError::new(kind, failure.reason);
                    if let Some(hint) = failure.hint {
                        error = error.hint(hint);
                    }
                    return Err(self.secrets.mask_error(&error));
                }
                Err(AttemptError::Retry(failure)) => {
                    let retry_after = failure.retry_after.map(|retry_after| retry_after.min(timeout));
                    let wait = retry_after.unwrap_or_else(|| backoff(self.settings.retry_wait, attempt));
                    tokio::time::sleep(wait).await;
                }
            }
            attempt += 1;
        }
    }

    pub(super) async fn attempt(
        &self,
        endpoint: &Endpoint,
        route: Route<'_>,
        call: &Call<'_>,
    ) -> Result<Bytes, AttemptError> {
        let Endpoint { url, shown, headers, transport, .. } = endpoint;
        let pace = Pace::default();
        let tap = |bytes: &[u8]| {
            pace.touch();
            if let Some(receiver) = route.receiver.filter(|_| !bytes.is_empty()) {
                receiver.receive(bytes);
            }
        };
        let tap: &(dyn Fn(&[u8]) + Send + Sync) = &tap;
        let ClientSettings { timeout, idle_timeout, .. } = self.settings;
        let (body, tap, limit) = match route.receiver {
            None => (call.body.clone(), None, Limit::whole(timeout)),
            Some(receiver) => {
                let limit = Limit::Pieces { first: timeout, idle: idle_timeout, pace: &pace };
                (receiver.begin(), Some(tap), limit)
            }
        };
        if call.path.is_empty() && route.path.is_none() {
            let request = Outgoing { method: &Method::POST, url, headers, body: &body, tap };
            return self.exchange(transport, &request, shown, call.about, limit).await;
        }
        let mut longer = url.clone();
        let path = match route.path {
            Some(route) => format!("{}{route}", server_path(url.path())),
            None => format!("{}/{}", url.path().trim_end_matches('/'), call.path.trim_start_matches('/')),
        };
        longer.set_path(&path);
        let shown = public_url(longer.as_str());
        let request = Outgoing { method: &Method::POST, url: &longer, headers, body: &body, tap };
        self.exchange(transport, &request, &shown, call.about, limit).await
    }

    /// Sends a request and reads the complete answer.
    pub(super) async fn exchange(
        &self,
        transport: &Transport,
        request: &Outgoing<'_>,
        url: &str,
        about: &str,
        limit: Limit<'_>,
    ) -> Result<Bytes, AttemptError> {
        let has_answered = self.outage.answers() > 0;
        let (status, headers, body) = match transport {
            Transport::Direct(host) => {
                let reply = limit.apply(host.exchange(request, MAX_ANSWER_BYTES)).await;
                let reply = reply.unwrap_or(Err(ExchangeError::TimedOut));
                if let Some(server) = host.take_stray_report() {
                    self.stats.warn(self.secrets.mask(stray_answer_warning(&server)));
                }
                let failed = |error| classify_exchange_error(error, url, about, limit, has_answered);
                let Reply { status, headers, body } = reply.map_err(failed)?;
                (status, headers, body.map_err(failed))
            }
            Transport::Reqwest(client) => {
                let mut library = Request::new(request.method.clone(), request.url.clone());
                *library.headers_mut() = request.headers.clone();
                let encodings = library.headers_mut().entry(ACCEPT_ENCODING);
                let encoding = if request.tap.is_some() { "identity" } else { "gzip" };
                encodings.or_insert(HeaderValue::from_static(encoding));
                // The library's own limit would be one of the whole answer.
                *library.timeout_mut() = Some(UNLIMITED);
                if !request.body.is_empty() {
                    *library.body_mut() = Some(request.body.clone().into());
                }
                let sent = async {
                    let mut response = client
                        .execute(library)
                        .await
                        .map_err(|error| classify_reqwest_error(error, url, limit, has_answered))?;
                    let tap = request.tap.filter(|_| response.status().is_success());
                    let body = read_body(&mut response, (url, about), limit, tap).await;
                    Ok((response, body))
                };
                let failed = |error| classify_exchange_error(error, url, about, limit, has_answered);
                let late = || Err(failed(ExchangeError::TimedOut));
                // Boxed: plain HTTP must not carry its state.
                let (response, body) = limit.apply(Box::pin(sent)).await.unwrap_or_else(late)?;
                let headers = response.headers().clone();
                let body = body.and_then(|body| decoded(&headers, body, MAX_ANSWER_BYTES).map_err(failed));
                (response.status(), headers, body)
            }
        };
        if status.is_success() {
            return body.map(|body| self.secrets.mask_answer(body));
        }
        // The status says enough when the body is incomplete.
        let body = body.unwrap_or_default();
        let key_source = &self.settings.key_source;
        Err(classify_status(status, &headers, &body, url, about, key_source, &self.secrets))
    }

    /// Whether the server lacks log-probabilities altogether, rather than having omitted them once.
    fn is_incapable(&self, answers: usize) -> bool {
        let most = INCAPABLE_ANSWERS.min(self.settings.max_retries);
        answers >= most && !self.has_scored.load(Ordering::Relaxed)
    }

    async fn wait_for_rates(&self, tokens: u64) {
        let requests = self.requests.as_ref().map(|bucket| bucket.draw(1.0));
        let tokens = self.tokens.as_ref().map(|bucket| bucket.draw(tokens as f64));
        if let Some(wait) = requests.max(tokens).filter(|wait| !wait.is_zero()) {
            tokio::time::sleep(wait).await;
        }
    }

    /// The wait before the next attempt, or the error if there is none.
    fn next_wait(
        &self,
        call: &Call<'_>,
        attempts: &mut Attempts,
        failure: Failure,
        (answers, has_kept): (u64, bool),
    ) -> Result<Duration, ModelError> {
        attempts.all += 1;
        if has_kept {
            // An attempt that brought a part of the answer was not in vain.
            (attempts.wrong, attempts.among_answers) = (0, 0);
            self.outage.record_answer();
        }
        let others_are_answered = self.outage.answers() > answers;
        let is_wrong = match failure.class {
            Class::Wrong => true,
            Class::Timeout => others_are_answered,
            Class::Unreachable | Class::Unavailable | Class::Busy => false,
        };
        if is_wrong {
            attempts.wrong += 1;
            if attempts.wrong >= self.settings.max_retries {
                return Err(self.out_of_attempts(call, attempts.all, failure));
            }
        } else {
            self.outage.record_failure(failure.retry_after, &failure.reason);
            attempts.among_answers += usize::from(others_are_answered);
            let most =
                if failure.class == Class::Busy { BUSY_AMONG_ANSWERS } else { UNAVAILABLE_AMONG_ANSWERS };
            if attempts.among_answers >= most {
                return Err(self.out_of_attempts(call, attempts.all, failure));
            }
            let deadline = self.outage.deadline(self.settings.patience);
            if deadline.is_some_and(|(deadline, _)| deadline <= Instant::now()) {
                return Err(self.out_of_patience(call, &failure.reason, failure.hint));
            }
        }
        let used = self.retries.fetch_add(1, Ordering::Relaxed);
        if let Some(budget) = self.settings.retry_budget.filter(|budget| used >= *budget) {
            let message = format!(
                "{} was not answered, and the {budget} retries of this run (`retry_budget`) are exhausted: {}",
                subject(call.about),
                failure.reason
            );
            return Err(self.given_up(ModelErrorKind::Unreachable, message, failure.hint));
        }
        let wait = match failure.retry_after {
            Some(retry_after) if !retry_after.is_zero() => stretched(retry_after),
            _ => {
                let wait = backoff(self.settings.retry_wait, attempts.all);
                self.first_answer.longest_wait().map_or(wait, |longest| wait.min(longest))
            }
        };
        self.stats.retry(self.secrets.mask(failure.reason));
        Ok(wait)
    }

    fn out_of_attempts(&self, call: &Call<'_>, attempts: u32, failure: Failure) -> ModelError {
        let plural = if attempts == 1 { "" } else { "s" };
        let message = format!(
            "{} was not answered in {attempts} attempt{plural}: {}",
            subject(call.about),
            failure.reason
        );
        self.given_up(failure.kind, message, failure.hint)
    }

    fn out_of_patience(&self, call: &Call<'_>, reason: &str, hint: Option<String>) -> ModelError {
        let message = format!(
            "{} was not answered, nor was any other call for {} s (`patience`): {reason}",
            subject(call.about),
            self.settings.patience.as_secs_f64()
        );
        self.given_up(ModelErrorKind::Unreachable, message, hint)
    }

    pub(super) fn given_up(&self, kind: ModelErrorKind, message: String, hint: Option<String>) -> ModelError {
        let mut message = self.secrets.mask(message);
        if message.starts_with("the ") {
            message.replace_range(..1, "T");
        }
        let error = ModelError::new(kind, message);
        match hint {
            Some(hint) => error.hint(self.secrets.mask(hint)),
            None => error,
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// The error of a call that no server can answer.
pub(super) fn nobody(call: &Call<'_>) -> ModelError {
    let message = format!("{} has no server that could answer it", subject(call.about));
    ModelError::new(ModelErrorKind::Unreachable, message)
}

/// The path under which a server has all its endpoints, given that of one of them.
pub(crate) fn server_path(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    let endings = ["/v1/completions", "/v1/chat/completions", "/generate", "/v1"];
    endings.iter().find_map(|end| path.strip_suffix(end)).unwrap_or(path).trim_end_matches('/')
}

/// Reads a body to its end, without copying when it arrives in one chunk.
async fn read_body(
    response: &mut Response,
    (url, about): (&str, &str),
    limit: Limit<'_>,
    tap: Tap<'_>,
) -> Result<Bytes, AttemptError> {
    let Some(first) = next_chunk(response, url, limit, tap).await? else {
        return Ok(Bytes::new());
    };
    let Some(second) = next_chunk(response, url, limit, tap).await? else {
        return Ok(first);
    };
    let expected = response.content_length().and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
    let mut body = BytesMut::with_capacity(expected.clamp(first.len() + second.len(), 1 << 24));
    body.extend_from_slice(&first);
    body.extend_from_slice(&second);
    while let Some(chunk) = next_chunk(response, url, limit, tap).await? {
        if body.len() + chunk.len() > MAX_ANSWER_BYTES {
            return Err(too_large(url, about));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// The next bytes of a body, which the tap gets, too.
async fn next_chunk(
    response: &mut Response,
    url: &str,
    limit: Limit<'_>,
    tap: Tap<'_>,
) -> Result<Option<Bytes>, AttemptError> {
    let chunk = response.chunk().await.map_err(|error| classify_body_error(error, url, limit))?;
    if let (Some(tap), Some(chunk)) = (tap, &chunk) {
        tap(chunk);
    }
    Ok(chunk)
}
