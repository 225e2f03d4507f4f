//! Calls to a server.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use lmeval_core::{ModelError, ModelErrorKind, ModelStats};
use reqwest::{Method, Request, Response, Url};
use tokio::time::Instant;

use super::balance::{Balancer, Chosen, Endpoint};
use super::connect::{Connections, Road, endpoints};
use super::direct::{Reply, Trouble};
use super::ending::Ending;
use super::failure::{
    Class, Failed, Failure, bad_status, half_answer, no_answer, strays, subject, too_large, trouble_of,
};
use super::limiter::{Limiter, MOST};
use super::rate::Bucket;
use super::redact::{Secrets, public_url};
use super::retry::{Outage, asked_wait, backoff};
use super::settings::ClientSettings;

/// The largest answer that is read.
const LARGEST_ANSWER: usize = 1 << 30;
/// How often a call may fail because the server is not there for it, while the server answers other calls.
const UNAVAILABLE_AMONG_ANSWERS: usize = 20;
/// The same for a server that has too many requests, where others may just have been quicker.
const BUSY_AMONG_ANSWERS: usize = 100;
/// How many answers without log-probabilities show that a server cannot give them, where it never has.
const INCAPABLE_ANSWERS: usize = 3;
/// How often a question on the side is asked.
const GET_ATTEMPTS: u32 = 3;

/// A client of one server, or of several that are alike.
pub struct Client {
    settings: ClientSettings,
    secrets: Secrets,
    connections: Connections,
    balancer: Balancer,
    limiter: Limiter,
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    outage: Outage,
    ending: Ending,
    /// Whether the server has given log-probabilities.
    has_scored: AtomicBool,
    retries: AtomicU64,
    stats: ModelStats,
}

/// A call: JSON that is posted to the server.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// What follows the address of the server; nothing calls the address as it is.
    pub path: &'a str,
    /// The JSON.
    pub body: Bytes,
    /// Which document or documents it is about, for messages.
    pub about: &'a str,
    /// About how many tokens it sends and asks for, for the limit of tokens.
    pub tokens: u64,
    /// Whether it asks for log-probabilities.
    pub scores: bool,
}

/// Why an answer cannot be used.
#[derive(Debug)]
pub enum BadAnswer {
    /// It is no JSON, or has another shape: another attempt may do better. The text says what is wrong.
    Retry(String),
    /// No call will get a better one.
    Fatal(ModelError),
    /// It lacks the log-probabilities: another attempt may do better where the server has given them before, else no call
    /// will get a better one.
    Incapable(ModelError),
    /// This call will not get a better one.
    Final(ModelError),
}

/// The attempts of a call so far.
#[derive(Default)]
struct Attempts {
    all: u32,
    wrong: usize,
    /// Failures of a server that answered other calls meanwhile.
    among_answers: usize,
    /// Answers without the log-probabilities that were asked for.
    incapable: usize,
    /// The address of the last one.
    last: Option<usize>,
}

impl Client {
    /// A client with its connections, which are made when they are needed.
    pub fn new(settings: ClientSettings) -> Result<Self, ModelError> {
        let connections = Connections::new(&settings, settings.num_concurrent.unwrap_or(MOST))?;
        let stats = ModelStats::default();
        Ok(Self {
            secrets: Secrets::new(&settings.headers, &settings.base_urls),
            balancer: Balancer::new(endpoints(&settings, &connections)?, settings.retry_wait),
            limiter: Limiter::new(settings.num_concurrent, &stats),
            requests: settings.requests_per_minute.map(Bucket::new),
            tokens: settings.tokens_per_minute.map(Bucket::new),
            outage: Outage::new(),
            ending: Ending::default(),
            has_scored: AtomicBool::new(false),
            retries: AtomicU64::new(0),
            connections,
            stats,
            settings,
        })
    }

    /// What is counted while calls are made.
    pub fn stats(&self) -> &ModelStats {
        &self.stats
    }

    /// Ends calls that wait: for the server, for a limit, or for the next attempt.
    pub fn wind_down(&self) {
        self.ending.begin();
    }

    /// How many calls may be made at once; those beyond what the server bears wait inside.
    pub fn most_in_flight(&self) -> usize {
        self.settings.num_concurrent.unwrap_or(MOST)
    }

    /// How long a server that is away is waited for.
    pub fn patience(&self) -> Duration {
        self.settings.patience
    }

    /// The addresses that answer calls, without credentials.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &Url> {
        self.balancer.endpoints().iter().map(|endpoint| &endpoint.url)
    }

    /// The first address, for messages.
    pub fn shown_url(&self) -> &str {
        &self.balancer.endpoints()[0].shown
    }

    /// Makes a call until it is answered, and gives what the parser makes of the answer.
    pub async fn post<T>(
        &self,
        call: Call<'_>,
        parse: impl Fn(&[u8]) -> Result<T, BadAnswer> + Send + Sync,
    ) -> Result<T, ModelError> {
        let mut attempts = Attempts::default();
        loop {
            let permit = self.ending.unless(self.limiter.acquire(&self.stats)).await?;
            let deadline = || self.outage.deadline(self.settings.patience).map(|(deadline, _)| deadline);
            let choosing = self.balancer.choose(attempts.last, deadline);
            let Some(chosen) = self.ending.unless(choosing).await? else {
                let reason =
                    self.outage.deadline(Duration::ZERO).map_or_else(String::new, |(_, reason)| reason);
                return Err(self.out_of_patience(&call, &reason, None));
            };
            self.ending.unless(self.wait_for_rates(call.tokens)).await?;
            let answers = self.outage.answers();
            let started = Instant::now();
            let failure = match self.attempt(&chosen, &call).await {
                Ok(body) => {
                    self.limiter.answered(started, &self.stats);
                    chosen.answered();
                    self.outage.end();
                    match parse(&body) {
                        Ok(parsed) => {
                            if call.scores {
                                self.has_scored.store(true, Ordering::Relaxed);
                            }
                            return Ok(parsed);
                        }
                        Err(BadAnswer::Retry(reason)) => Failure::bad_answer(&reason, &body, &self.secrets),
                        Err(BadAnswer::Incapable(error)) => {
                            attempts.incapable += 1;
                            if self.is_incapable(attempts.incapable) {
                                return Err(self.secrets.mask_error(&error));
                            }
                            Failure::bad_answer(&error.to_string(), &body, &self.secrets)
                        }
                        Err(BadAnswer::Fatal(error) | BadAnswer::Final(error)) => {
                            return Err(self.secrets.mask_error(&error));
                        }
                    }
                }
                Err(Failed::Final(error)) => return Err(self.secrets.mask_error(&error)),
                Err(Failed::Passing(failure)) => {
                    if failure.is_overload {
                        self.limiter.overloaded(started, &self.stats);
                    }
                    chosen.failed(failure.class == Class::Absent, failure.asked);
                    failure
                }
            };
            attempts.last = Some(chosen.index);
            drop(chosen);
            drop(permit);
            let wait = self.next_wait(&call, &mut attempts, failure, answers)?;
            self.ending.unless(tokio::time::sleep(wait)).await?;
        }
    }

    /// Asks a question on the side, such as which models there are. Few attempts are made. Headers, which may hold a
    /// key, go to the servers of `base_url` only.
    pub async fn get(&self, url: &str, timeout: Duration) -> Result<Bytes, ModelError> {
        let shown = public_url(url);
        let Ok(parsed) = Url::parse(url) else {
            let message = format!("`{shown}` cannot be called");
            return Err(ModelError::new(ModelErrorKind::Configuration, message));
        };
        let own = self.balancer.endpoints().iter().find(|endpoint| endpoint.url.origin() == parsed.origin());
        let mut attempt = 1;
        loop {
            let mut request = Request::new(Method::GET, parsed.clone());
            if let Some(endpoint) = own {
                *request.headers_mut() = endpoint.headers.clone();
            }
            *request.timeout_mut() = Some(timeout);
            let road = self.connections.for_url(&parsed);
            match self.exchange(&road, request, Bytes::new(), &shown, "the question", timeout).await {
                Ok(body) => return Ok(body),
                Err(Failed::Final(error)) => return Err(self.secrets.mask_error(&error)),
                Err(Failed::Passing(failure)) if attempt >= GET_ATTEMPTS => {
                    // A server that answers wrongly is there: whoever waits for one that is away need not.
                    let is_there = failure.class == Class::Wrong;
                    let kind = if is_there { ModelErrorKind::Answer } else { failure.kind };
                    let error = ModelError::new(kind, failure.reason);
                    return Err(self.secrets.mask_error(&error));
                }
                Err(Failed::Passing(failure)) => {
                    let asked = failure.asked.map(|asked| asked.min(timeout));
                    let wait = asked.unwrap_or_else(|| backoff(self.settings.retry_wait, attempt));
                    tokio::time::sleep(wait).await;
                }
            }
            attempt += 1;
        }
    }

    /// One attempt at a call.
    async fn attempt(&self, chosen: &Chosen<'_>, call: &Call<'_>) -> Result<Bytes, Failed> {
        let Endpoint { url, shown, headers, road } = chosen.endpoint();
        let timeout = self.settings.timeout;
        if call.path.is_empty() {
            let request = post_request(url.clone(), headers.clone());
            return self.exchange(road, request, call.body.clone(), shown, call.about, timeout).await;
        }
        let mut longer = url.clone();
        let path = format!("{}/{}", url.path().trim_end_matches('/'), call.path.trim_start_matches('/'));
        longer.set_path(&path);
        let shown = public_url(longer.as_str());
        let request = post_request(longer, headers.clone());
        self.exchange(road, request, call.body.clone(), &shown, call.about, timeout).await
    }

    /// Sends a request and reads the whole answer.
    async fn exchange(
        &self,
        road: &Road,
        request: Request,
        body: Bytes,
        url: &str,
        about: &str,
        timeout: Duration,
    ) -> Result<Bytes, Failed> {
        let is_known = self.outage.answers() > 0;
        let (status, headers, body) = match road {
            Road::Direct(direct) => {
                let sent =
                    tokio::time::timeout(timeout, direct.exchange(&request, &body, LARGEST_ANSWER)).await;
                let reply = sent.unwrap_or(Err(Trouble::TimedOut));
                for server in direct.news_of_strays() {
                    self.stats.warn(self.secrets.mask(strays(&server)));
                }
                let failed = |trouble| trouble_of(trouble, url, about, timeout, is_known);
                let Reply { status, headers, body } = reply.map_err(failed)?;
                (status, headers, body.map_err(failed))
            }
            Road::Library(client) => {
                let mut request = request;
                if !body.is_empty() {
                    *request.body_mut() = Some(body.into());
                }
                let response = client.execute(request).await;
                let mut response = response.map_err(|error| no_answer(error, url, timeout, is_known))?;
                let body = read_body(&mut response, url, about, timeout).await;
                (response.status(), response.headers().clone(), body)
            }
        };
        if status.is_success() {
            return body.map(|body| self.secrets.mask_answer(body));
        }
        // A status tells enough where the rest of the answer is missing.
        let body = body.unwrap_or_default();
        let key_source = &self.settings.key_source;
        Err(bad_status(status, &headers, &body, url, about, key_source, &self.secrets))
    }

    /// Whether the server gives no log-probabilities at all, rather than none for once.
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

    /// How long to wait before the next attempt, or the error where there is none.
    fn next_wait(
        &self,
        call: &Call<'_>,
        attempts: &mut Attempts,
        failure: Failure,
        answers: u64,
    ) -> Result<Duration, ModelError> {
        attempts.all += 1;
        let others_are_answered = self.outage.answers() > answers;
        let is_wrong = match failure.class {
            Class::Wrong => true,
            Class::Timeout => others_are_answered,
            Class::Absent | Class::Unavailable | Class::Busy => false,
        };
        if is_wrong {
            attempts.wrong += 1;
            if attempts.wrong >= self.settings.max_retries {
                return Err(self.out_of_attempts(call, attempts.all, failure));
            }
        } else {
            self.outage.note(failure.asked, &failure.reason);
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
                "{} was not answered, and the {budget} further attempts of the run (`retry_budget`) are used up: {}",
                subject(call.about),
                failure.reason
            );
            return Err(self.given_up(ModelErrorKind::Unreachable, message, failure.hint));
        }
        let wait = match failure.asked {
            Some(asked) if !asked.is_zero() => asked_wait(asked),
            _ => backoff(self.settings.retry_wait, attempts.all),
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

    fn given_up(&self, kind: ModelErrorKind, message: String, hint: Option<String>) -> ModelError {
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

fn post_request(url: Url, headers: reqwest::header::HeaderMap) -> Request {
    let mut request = Request::new(Method::POST, url);
    *request.headers_mut() = headers;
    request
}

/// Reads an answer to its end, without a copy where it comes in one piece.
async fn read_body(
    response: &mut Response,
    url: &str,
    about: &str,
    timeout: Duration,
) -> Result<Bytes, Failed> {
    let broken = |error| half_answer(error, url, timeout);
    let Some(first) = response.chunk().await.map_err(broken)? else {
        return Ok(Bytes::new());
    };
    let Some(second) = response.chunk().await.map_err(broken)? else {
        return Ok(first);
    };
    let expected = response.content_length().and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
    let mut body = BytesMut::with_capacity(expected.clamp(first.len() + second.len(), 1 << 24));
    body.extend_from_slice(&first);
    body.extend_from_slice(&second);
    while let Some(chunk) = response.chunk().await.map_err(broken)? {
        if body.len() + chunk.len() > LARGEST_ANSWER {
            return Err(too_large(url, about));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}
