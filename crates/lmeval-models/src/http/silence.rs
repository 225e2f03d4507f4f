//! Notices servers that keep connections open but do not answer any more.
//!
//! A server that is silent for longer than usual is queried beside its calls. If it refuses connections, or answers no query
//! for a while, its calls are taken back: they go to other servers, or wait until it answers queries again.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use reqwest::{Method, Url};
use tokio::time::Instant;
use tracing::debug;

use super::balance::{Chosen, Silence};
use super::client::{Call, Client, Route, server_path};
use super::direct::Outgoing;
use super::failure::{AttemptError, Class, Failure};
use super::member::{Endpoint, Unanswered};
use super::stream::{Limit, Receiver};

/// The shortest silence after which a server is queried.
const QUIET: Duration = Duration::from_secs(15);
/// A silence is unusual if it is this many times longer than the average latency.
const UNUSUAL: f64 = 3.0;
/// The time limit of a query, and the wait between queries that are answered.
const QUERY: Duration = Duration::from_secs(5);
/// The wait after a query that was not answered.
const AGAIN: Duration = Duration::from_secs(1);
/// The number of refused connections in a row after which the server counts as gone.
const REFUSALS: u32 = 2;
/// The number of unanswered queries in a row after which the server counts as hung.
const UNANSWERED: u32 = 3;

/// A receiver for which a part of an answer is a sign of life of its server.
struct Lively<'a> {
    receiver: &'a dyn Receiver,
    chosen: &'a Chosen<'a>,
}

impl Receiver for Lively<'_> {
    fn begin(&self) -> Bytes {
        self.receiver.begin()
    }

    fn receive(&self, bytes: &[u8]) {
        self.chosen.seen();
        self.receiver.receive(bytes);
    }

    fn has_kept(&self) -> bool {
        self.receiver.has_kept()
    }
}

/// The answer to a query.
enum Sign {
    Alive,
    /// No connection: nothing listens there any more.
    Refused(String),
    /// A connection, but no answer.
    Nothing(String),
}

/// The queries during one silence.
#[derive(Default)]
struct Watch {
    refused: u32,
    unanswered: u32,
    /// The last finding that was reported, and how long the silence has to be for the next report.
    finding: String,
    report_at: Duration,
}

impl Watch {
    /// Counts the answer to a query; returns the wait before the next one.
    fn count(&mut self, sign: &Sign, is_evidence: bool) -> Duration {
        match sign {
            Sign::Alive => {
                (self.refused, self.unanswered) = (0, 0);
                QUERY
            }
            Sign::Refused(_) => {
                self.refused += 1;
                AGAIN
            }
            Sign::Nothing(_) => {
                self.unanswered += u32::from(is_evidence);
                AGAIN
            }
        }
    }
}

impl Client {
    /// [`attempt`](Self::attempt), given up if the server turns out to be gone.
    pub(super) async fn attempt_watched(
        &self,
        chosen: &Chosen<'_>,
        route: Route<'_>,
        call: &Call<'_>,
    ) -> Result<Bytes, AttemptError> {
        if chosen.vitals.is_dead() {
            self.await_revival(chosen).await?;
        }
        let lively = route.receiver.map(|receiver| Lively { receiver, chosen });
        let receiver = lively.as_ref().map(|lively| lively as &dyn Receiver);
        let route = Route { receiver, ..route };
        tokio::select! {
            biased;
            answer = self.attempt(&chosen.endpoint, route, call) => answer,
            failure = self.watch(chosen) => Err(AttemptError::Retry(failure)),
        }
    }

    /// Fails unless a server whose calls were taken back answers a query: it must not get the same calls again and again.
    async fn await_revival(&self, chosen: &Chosen<'_>) -> Result<(), AttemptError> {
        let asked = Instant::now();
        let mut last = chosen.vitals.watcher.lock().await;
        if !chosen.vitals.is_dead() {
            return Ok(());
        }
        // One query answers for all calls that waited for it.
        if let Some(Unanswered { at, cause }) = last.as_ref()
            && *at >= asked
        {
            return Err(AttemptError::Retry(Failure::new(Class::Unreachable, cause.clone())));
        }
        match self.query(&chosen.endpoint).await {
            Sign::Alive => {
                chosen.vitals.revive();
                Ok(())
            }
            Sign::Refused(cause) | Sign::Nothing(cause) => {
                let line =
                    format!("Waiting for `{}` to answer queries again: {cause}", chosen.endpoint.shown);
                self.report_waiting(line);
                *last = Some(Unanswered { at: Instant::now(), cause: cause.clone() });
                Err(AttemptError::Retry(Failure::new(Class::Unreachable, cause)))
            }
        }
    }

    /// Ends with the failure of all calls in flight when the server is gone.
    async fn watch(&self, chosen: &Chosen<'_>) -> Failure {
        let started = Instant::now();
        let taken_back = chosen.vitals.taken_back.notified();
        tokio::pin!(taken_back);
        tokio::select! {
            () = &mut taken_back => {}
            () = self.await_death(chosen, started) => {}
        }
        let (url, seconds) = (&chosen.endpoint.shown, chosen.vitals.silence());
        let reason = format!("`{url}` has not answered for {seconds} s, not even a query for its models");
        Failure::new(Class::Unreachable, reason)
    }

    /// Queries a silent server until it is gone. One call does so for all of them.
    async fn await_death(&self, chosen: &Chosen<'_>, started: Instant) {
        let mut due = started + QUIET;
        loop {
            tokio::time::sleep_until(due).await;
            let _watcher = chosen.vitals.watcher.lock().await;
            let mut watch = Watch::default();
            loop {
                let silence = chosen.silence();
                let last_sign = silence.last_sign.map_or(started, |sign| sign.max(started));
                due = last_sign + usual(silence);
                if Instant::now() < due {
                    break;
                }
                let sign = self.query(&chosen.endpoint).await;
                self.report_silence(chosen, last_sign, &sign, &mut watch);
                // A server that has never answered may be slow, or answer one request at a time.
                let is_evidence = silence.latency.is_some() && !chosen.vitals.may_be_serial();
                let wait = watch.count(&sign, is_evidence);
                debug!(
                    url = chosen.endpoint.shown,
                    refused = watch.refused,
                    unanswered = watch.unanswered,
                    "Silent server queried"
                );
                if watch.refused >= REFUSALS || watch.unanswered >= UNANSWERED {
                    return chosen.vitals.die(last_sign.elapsed(), watch.refused >= REFUSALS);
                }
                tokio::time::sleep(wait).await;
            }
        }
    }

    /// Queries a server for its models. Any answer is a sign of life.
    async fn query(&self, endpoint: &Endpoint) -> Sign {
        let (url, shown) = (models_url(&endpoint.url), &endpoint.shown);
        let headers = &endpoint.headers;
        let request = Outgoing { method: &Method::GET, url: &url, headers, body: &Bytes::new(), tap: None };
        match self.exchange(&endpoint.transport, &request, shown, "the query", Limit::whole(QUERY)).await {
            Ok(_) | Err(AttemptError::Final(_)) => Sign::Alive,
            Err(AttemptError::Retry(failure)) => match failure.class {
                Class::Wrong | Class::Busy => Sign::Alive,
                Class::Unreachable => Sign::Refused(failure.reason),
                Class::Unavailable | Class::Timeout => Sign::Nothing(failure.reason),
            },
        }
    }

    /// Says how long no answer has come, when the finding changes and at intervals that grow.
    fn report_silence(&self, chosen: &Chosen<'_>, last_sign: Instant, sign: &Sign, watch: &mut Watch) {
        let finding = match sign {
            Sign::Alive => "it still answers queries for its models",
            Sign::Refused(cause) | Sign::Nothing(cause) => cause,
        };
        let silence = last_sign.elapsed();
        if watch.finding == finding && silence < watch.report_at {
            return;
        }
        (watch.finding, watch.report_at) = (finding.to_owned(), silence * 2);
        let calls = chosen.silence().in_flight;
        let calls = if calls == 1 { "1 call".to_owned() } else { format!("{calls} calls") };
        let (url, seconds) = (&chosen.endpoint.shown, silence.as_secs());
        let line = format!("No answer from `{url}` for {seconds} s, with {calls} in flight: {finding}");
        self.report_waiting(line);
    }

    fn report_waiting(&self, line: String) {
        self.is_silent.store(true, Ordering::Relaxed);
        self.stats.wait_for(Some(self.secrets.mask(line)));
    }

    /// An answer has come.
    pub(super) fn end_silence(&self) {
        if self.is_silent.load(Ordering::Relaxed) && self.is_silent.swap(false, Ordering::Relaxed) {
            self.stats.wait_for(None);
        }
    }
}

/// How long a silence has to be before it is unusual.
fn usual(silence: Silence) -> Duration {
    let longest = silence.latency.map(|latency| latency * UNUSUAL);
    let longest = longest.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    longest.unwrap_or_default().max(QUIET)
}

/// The URL of an address's model list. The query may hold a key, so it is kept.
pub(crate) fn models_url(address: &Url) -> Url {
    let mut url = address.clone();
    url.set_path(&format!("{}/v1/models", server_path(address.path())));
    url
}
