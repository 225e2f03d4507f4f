//! The servers that answer calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use reqwest::Url;
use reqwest::header::HeaderMap;
use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;

use super::connect::Transport;

/// How much a new latency changes the average.
const SMOOTHING: f64 = 0.2;
/// A latency measured longer ago than this says nothing about an idle member.
const STALE: Duration = Duration::from_secs(10);
/// Shorter latencies do not differ, in seconds.
const LEAST_LATENCY: f64 = 0.001;

/// A base URL with everything needed to call it.
pub(super) struct Endpoint {
    /// The URL as given, with credentials.
    pub(super) given: String,
    pub(super) url: Url,
    /// The URL without credentials, for messages.
    pub(super) shown: String,
    /// Sent with every call.
    pub(super) headers: HeaderMap,
    pub(super) transport: Transport,
}

/// Whether a member gets calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has not been examined since it joined or could not be reached.
    Candidate,
    Serving,
    /// The examination found another model.
    Refused,
}

/// A member as its examiner sees it.
#[derive(Clone, Debug)]
pub(crate) struct MemberView {
    /// Never used for another member of the same client.
    pub(crate) id: usize,
    /// The URL as given, with credentials.
    pub(crate) given: String,
    pub(crate) url: Url,
    /// The URL without credentials, for messages.
    pub(crate) shown: String,
    pub(crate) standing: Standing,
    /// The protocols that it has proven, as bits; `None` if that was not examined.
    pub(crate) proven: Option<u8>,
}

/// The calls of a member.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) answered: u64,
    /// Attempts that failed.
    pub(crate) failed: u64,
    /// The sum of the latencies of answers, in seconds.
    pub(crate) seconds: f64,
    /// When the first answered call was sent, and the last one answered.
    pub(crate) busy: Option<(Instant, Instant)>,
}

impl Tally {
    /// Adds the calls of an earlier membership of the same server.
    pub(super) fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        self.failed += other.failed;
        self.seconds += other.seconds;
        self.busy = match (self.busy, other.busy) {
            (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
            (one, other) => one.or(other),
        };
    }
}

/// A query that a dead server did not answer.
pub(super) struct Unanswered {
    /// When the query had failed.
    pub(super) at: Instant,
    /// Why.
    pub(super) cause: String,
}

/// The state of a server that has gone silent.
#[derive(Default)]
pub(super) struct Vitals {
    /// Held by the one call that queries the server for all of them, with what it last found out about a dead server.
    pub(super) watcher: Mutex<Option<Unanswered>>,
    /// Its calls in flight are given up.
    pub(super) taken_back: Notify,
    /// It has not answered a query since its calls were taken back, so it gets no calls.
    is_dead: AtomicBool,
    /// It came back after its calls were taken back because it answered no query. It may answer one request at a time, so
    /// that proves nothing.
    may_be_serial: AtomicBool,
    /// The seconds of silence after which its calls were taken back.
    silence: AtomicU64,
}

impl Vitals {
    pub(super) fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Relaxed)
    }

    pub(super) fn may_be_serial(&self) -> bool {
        self.may_be_serial.load(Ordering::Relaxed)
    }

    /// The seconds of silence after which its calls were taken back.
    pub(super) fn silence(&self) -> u64 {
        self.silence.load(Ordering::Relaxed)
    }

    /// Takes back the calls in flight after a silence.
    pub(super) fn die(&self, silence: Duration, is_refused: bool) {
        self.silence.store(silence.as_secs(), Ordering::Relaxed);
        self.is_dead.store(true, Ordering::Relaxed);
        if !is_refused {
            self.may_be_serial.store(true, Ordering::Relaxed);
        }
        self.taken_back.notify_waiters();
    }

    /// It has answered a query.
    pub(super) fn revive(&self) {
        self.is_dead.store(false, Ordering::Relaxed);
    }
}

/// A server that may answer calls, and its health.
pub(super) struct Member {
    pub(super) id: usize,
    pub(super) endpoint: Arc<Endpoint>,
    /// Its share of the contexts depends on nothing but this and its weight.
    key: u64,
    /// A member with twice the weight gets twice the calls.
    pub(super) weight: f64,
    pub(super) standing: Standing,
    pub(super) proven: Option<u8>,
    /// Whether it is removed once its calls in flight are answered.
    pub(super) is_leaving: bool,
    pub(super) in_flight: usize,
    /// Failures since the last answer.
    pub(super) failures: u32,
    /// Consecutive ejections.
    pub(super) ejections: u32,
    pub(super) ejected_until: Option<Instant>,
    pub(super) vitals: Arc<Vitals>,
    /// When a call was last answered or failed.
    pub(super) last_sign: Option<Instant>,
    /// When the probe in flight was sent.
    pub(super) probed: Option<Instant>,
    /// The average latency in seconds, and when it was measured.
    latency: Option<(f64, Instant)>,
    pub(super) tally: Tally,
}

impl Member {
    pub(super) fn new(id: usize, endpoint: Endpoint, weight: f64, standing: Standing) -> Self {
        let key = endpoint.given.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self {
            id,
            endpoint: Arc::new(endpoint),
            key,
            weight,
            standing,
            proven: None,
            is_leaving: false,
            in_flight: 0,
            failures: 0,
            ejections: 0,
            ejected_until: None,
            vitals: Arc::default(),
            last_sign: None,
            probed: None,
            latency: None,
            tally: Tally::default(),
        }
    }

    pub(super) fn view(&self) -> MemberView {
        let Endpoint { given, url, shown, .. } = &*self.endpoint;
        let (given, url, shown) = (given.clone(), url.clone(), shown.clone());
        MemberView { id: self.id, given, url, shown, standing: self.standing, proven: self.proven }
    }

    /// Makes it a candidate again: whatever answers next may be another server.
    pub(super) fn demote(&mut self) {
        (self.standing, self.proven) = (Standing::Candidate, None);
        (self.failures, self.ejections, self.ejected_until) = (0, 0, None);
    }

    /// Counts an answer.
    pub(super) fn note_answer(&mut self, latency: Duration) {
        let (seconds, now) = (latency.as_secs_f64(), Instant::now());
        self.last_sign = Some(now);
        let average = self.latency.map_or(seconds, |(average, _)| average + SMOOTHING * (seconds - average));
        self.latency = Some((average, now));
        self.tally.answered += 1;
        self.tally.seconds += seconds;
        let sent = now.checked_sub(latency).unwrap_or(now);
        let (first, _) = self.tally.busy.unwrap_or((sent, now));
        self.tally.busy = Some((first.min(sent), now));
    }

    /// The measured latency in seconds, if it can be relied on. An idle member that was slow once is tried again.
    pub(super) fn latency(&self, now: Instant) -> Option<f64> {
        let (average, measured) = self.latency?;
        let is_stale = self.in_flight == 0 && now.saturating_duration_since(measured) > STALE;
        (!is_stale).then_some(average.max(LEAST_LATENCY))
    }

    /// The rank of the member for calls with this number: the highest is preferred. If a member leaves, the others keep
    /// their order (rendezvous hashing).
    pub(super) fn rank(&self, affinity: u64) -> f64 {
        let bits = mix(mix(affinity) ^ self.key) >> 11;
        let uniform = (bits as f64 + 0.5) / (1_u64 << 53) as f64;
        -self.weight / uniform.ln()
    }

    /// Whether it may answer calls that need these protocols.
    pub(super) fn serves(&self, needs: u8) -> bool {
        self.standing == Standing::Serving
            && !self.is_leaving
            && (needs == 0 || self.proven.unwrap_or(0) & needs == needs)
    }
}

/// Spreads the bits of a number.
fn mix(mut number: u64) -> u64 {
    number = (number ^ (number >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    number = (number ^ (number >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ (number >> 33)
}
