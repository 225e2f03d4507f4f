//! Log-likelihoods for fewer prompt tokens than `echo` computes.
//!
//! With `echo`, a server computes every prompt in full, once per continuation, without its prefix cache. Two protocols
//! avoid that. Neither is used before it has been proven on this server, and every answer is checked:
//!
//! - **next token** ([`next_token`]): one request per context returns the log-probabilities of all its one-token
//!   continuations;
//! - **tail** ([`tail`]): a request returns the log-probabilities of the uncached end of its prompt only.
//!
//! [`probe`] proves a protocol: its numbers must agree with those of `echo`. [`group`] splits requests by protocol. An
//! unexpected answer is replaced by one of `echo`; a few of them turn the protocol off for the run.

mod chat;
mod group;
mod member;
mod metrics;
mod next_token;
mod probe;
mod record;
mod tail;

use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use lmeval_core::{ModelError, ModelErrorKind, ModelSettings, ModelStats};
use lmeval_pycompat::Value;
use rustc_hash::{FxHashMap, FxHasher};
use tokio::sync::OnceCell;

use super::protocol::Scored;
pub(super) use group::together;
use member::Reference;
pub(super) use member::Verdict;
use next_token::Canary;
pub(super) use next_token::id_of;
use tail::Tail;

/// Unexpected answers after which a protocol is turned off.
const MAX_SURPRISES: u32 = 3;
/// Contexts of the run that are scored twice, by the protocol and by `echo`.
const VERIFIED_CONTEXTS: u32 = 3;
/// Contexts that agree in this many tokens are taken to share a prefix.
const HEAD: usize = 64;
/// Prefixes remembered.
const MAX_HEADS: usize = 4096;

/// The model argument `scoring`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The cheapest protocol that the server proves.
    Auto,
    Echo,
    NextToken,
    Tail,
}

impl Choice {
    pub(super) fn from_settings(settings: &ModelSettings) -> Result<Self, ModelError> {
        match settings.get("scoring") {
            None => Ok(Self::Auto),
            Some(Value::Str(name)) => match name.as_ref() {
                "auto" => Ok(Self::Auto),
                "echo" => Ok(Self::Echo),
                "next_token" => Ok(Self::NextToken),
                "tail" => Ok(Self::Tail),
                _ => Err(Self::unknown(&Value::Str(Arc::clone(name)))),
            },
            Some(other) => Err(Self::unknown(other)),
        }
    }

    fn unknown(found: &Value) -> ModelError {
        ModelSettings::wrong("scoring", "`auto`, `echo`, `next_token` or `tail`", found)
    }

    /// Whether the user named a protocol that must work.
    fn is_required(self) -> bool {
        matches!(self, Self::NextToken | Self::Tail)
    }
}

/// The precision of a server's logits, estimated from its log-probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Precision {
    Full,
    /// `bfloat16` or `float16`.
    Half,
}

/// How far two log-probabilities of the same token may be apart.
#[derive(Clone, Copy, Debug)]
struct Tolerance {
    absolute: f64,
    /// Multiplied by the magnitude of the log-probability.
    relative: f64,
}

impl Tolerance {
    fn of(precision: Precision) -> Self {
        match precision {
            Precision::Full => Self { absolute: 1e-3, relative: 1e-4 },
            // A few units in the last place of a bfloat16 logit.
            Precision::Half => Self { absolute: 0.125, relative: 1.0 / 64.0 },
        }
    }

    /// Whether two numbers agree. NaN and infinity agree with nothing.
    fn holds(self, one: f64, other: f64) -> bool {
        one.is_finite()
            && other.is_finite()
            && (one - other).abs() <= self.absolute + self.relative * one.abs().max(other.abs())
    }
}

/// The protocols that the server has proven.
#[derive(Clone, Debug)]
pub(super) struct Proven {
    precision: Precision,
    tolerance: Tolerance,
    next_token: Option<Canary>,
    tail: Option<Tail>,
    /// Why other protocols are not used, or which checks these passed.
    evidence: Vec<Value>,
    /// Numbers that every member of a pool must give.
    reference: Option<Reference>,
}

impl Proven {
    fn echo(reason: impl Into<String>) -> Self {
        let reason = Value::from(reason.into());
        Self {
            precision: Precision::Full,
            tolerance: Tolerance::of(Precision::Full),
            next_token: None,
            tail: None,
            evidence: vec![Value::dict([("reason", reason)])],
            reference: None,
        }
    }

    /// The name of the protocol in keys and results; `None` for `echo`.
    fn name(&self) -> Option<&'static str> {
        match (&self.next_token, &self.tail) {
            (Some(_), Some(_)) => Some("next_token+tail"),
            (Some(_), None) => Some("next_token"),
            (None, Some(_)) => Some("tail"),
            (None, None) => None,
        }
    }
}

/// A protocol other than `echo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shortcut {
    NextToken,
    Tail,
}

impl Shortcut {
    fn name(self) -> &'static str {
        match self {
            Self::NextToken => "next_token",
            Self::Tail => "tail",
        }
    }

    /// The bit that marks servers which have proven it.
    fn bit(self) -> u8 {
        match self {
            Self::NextToken => 1,
            Self::Tail => 2,
        }
    }
}

/// The use of one protocol in this run.
#[derive(Debug, Default)]
struct Use {
    is_off: AtomicBool,
    surprises: AtomicU32,
    calls: AtomicU64,
    scores: AtomicU64,
    /// Contexts scored twice so far; locked while one is.
    verified: tokio::sync::Mutex<u32>,
    is_verified: AtomicBool,
}

/// Chooses protocols, and remembers what happened to them.
#[derive(Debug)]
pub(super) struct Planner {
    choice: Choice,
    proven: OnceCell<Proven>,
    /// The tokens of the test prompt.
    test_tokens: OnceCell<Vec<u32>>,
    /// The evidence of servers that joined later.
    joined: Mutex<Vec<Value>>,
    /// The protocol of saved answers that are used without contacting the server.
    assumed: OnceLock<String>,
    next_token: Use,
    tail: Use,
    echo: AtomicU64,
    /// Prefixes by hash; initialized once the server has seen them.
    heads: Mutex<FxHashMap<u64, Arc<OnceCell<()>>>>,
    /// Tail requests that found nothing in the cache.
    cold: AtomicU32,
    prompt_tokens: PromptTokens,
    /// Tokens that the servers had computed before the run, and those of the run itself, for all clients.
    metrics: tokio::sync::Mutex<Option<(u64, Option<u64>)>>,
}

/// Prompt tokens of this run.
#[derive(Debug, Default)]
struct PromptTokens {
    /// That `echo` would have sent.
    asked: AtomicU64,
    sent: AtomicU64,
    /// Of those sent, the ones that the server reports as cached.
    cached: AtomicU64,
    /// Whether the server reports them.
    is_cached_known: AtomicBool,
}

impl Planner {
    pub(super) fn new(choice: Choice) -> Self {
        Self {
            choice,
            proven: OnceCell::new(),
            test_tokens: OnceCell::new(),
            joined: Mutex::default(),
            assumed: OnceLock::new(),
            next_token: Use::default(),
            tail: Use::default(),
            echo: AtomicU64::new(0),
            heads: Mutex::default(),
            cold: AtomicU32::new(0),
            prompt_tokens: PromptTokens::default(),
            metrics: tokio::sync::Mutex::default(),
        }
    }

    /// Takes note of the protocol of saved answers; `None` if they are not log-likelihoods.
    pub(super) fn assume(&self, protocol: Option<String>) {
        if let Some(protocol) = protocol {
            // A restarted run has asked the server.
            let _ = self.assumed.set(protocol);
        }
    }

    /// Whether the user's choice allows a protocol.
    pub(super) fn may_score_by(&self, protocol: Option<&str>) -> bool {
        match self.choice {
            Choice::Auto => true,
            Choice::Echo => protocol.is_none(),
            Choice::NextToken => protocol == Some("next_token"),
            Choice::Tail => protocol.is_some_and(|protocol| protocol.ends_with("tail")),
        }
    }

    /// The proven protocols, if any is in use.
    pub(super) fn active(&self) -> Option<&Proven> {
        let proven = self.proven.get()?;
        let is_used = self.canary(proven).is_some() || self.tail(proven).is_some();
        is_used.then_some(proven)
    }

    /// Whether protocols were proven but have all been turned off.
    fn is_off(&self) -> bool {
        self.proven.get().is_some_and(|proven| proven.name().is_some()) && self.active().is_none()
    }

    fn canary<'a>(&self, proven: &'a Proven) -> Option<&'a Canary> {
        proven.next_token.as_ref().filter(|_| !self.next_token.is_off.load(Ordering::Relaxed))
    }

    fn tail<'a>(&self, proven: &'a Proven) -> Option<&'a Tail> {
        proven.tail.as_ref().filter(|_| !self.tail.is_off.load(Ordering::Relaxed))
    }

    fn of(&self, shortcut: Shortcut) -> &Use {
        match shortcut {
            Shortcut::NextToken => &self.next_token,
            Shortcut::Tail => &self.tail,
        }
    }

    /// Counts an unexpected answer. The last one allowed turns the protocol off.
    fn surprise(&self, shortcut: Shortcut, reason: &str, stats: &ModelStats) {
        let before = self.of(shortcut).surprises.fetch_add(1, Ordering::Relaxed);
        if before + 1 >= MAX_SURPRISES {
            self.turn_off(
                shortcut,
                &format!("{MAX_SURPRISES} unexpected answers, the last: {reason}"),
                stats,
            );
        }
    }

    /// Stops using a protocol for the rest of the run, and says so.
    fn turn_off(&self, shortcut: Shortcut, reason: &str, stats: &ModelStats) {
        if !self.of(shortcut).is_off.swap(true, Ordering::Relaxed) {
            stats.warn(format!(
                "Scoring with `{}` is turned off for the rest of the run, and `echo` is used instead: {reason}",
                shortcut.name()
            ));
        }
    }

    /// The cell of the prefix that a context shares with others; `None` for short contexts. Protocols do not share
    /// the server's cache.
    fn head(&self, shortcut: Shortcut, context: &[u32]) -> Option<Arc<OnceCell<()>>> {
        let head = hash(context.get(..HEAD)?) ^ shortcut as u64;
        let mut heads = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        if heads.len() >= MAX_HEADS {
            heads.clear();
        }
        Some(Arc::clone(heads.entry(head).or_default()))
    }

    /// Counts prompt tokens: those that `echo` would have sent, and those that were sent.
    fn count(&self, asked: usize, sent: usize, cached: Option<u64>, stats: &ModelStats) {
        let add = |counter: &AtomicU64, count: u64| counter.fetch_add(count, Ordering::Relaxed);
        let cached_tokens = cached.unwrap_or(0).min(sent as u64);
        add(&self.prompt_tokens.asked, asked as u64);
        add(&self.prompt_tokens.sent, sent as u64);
        add(&self.prompt_tokens.cached, cached_tokens);
        if cached.is_some() {
            self.prompt_tokens.is_cached_known.store(true, Ordering::Relaxed);
        }
        add(&stats.tokens_asked, asked as u64);
        add(&stats.tokens_computed, (sent as u64).saturating_sub(cached_tokens));
    }
}

/// Runs every parser of this module on an answer, for tests and fuzz targets.
pub(super) fn read_any(answer: &Value, prompt: &Scored) {
    let ids = [5, 6];
    let _ = next_token::read(answer, 1, &ids);
    let _ = next_token::read_chat(answer, &ids);
    let _ = next_token::cached_tokens(answer);
    for tail in [Tail::Vllm { salt: String::new() }, Tail::Sglang] {
        for fresh in [true, false] {
            let _ = tail.read(answer, &prompt.tokens, prompt.context, fresh);
        }
    }
}

/// A hash of tokens.
fn hash(tokens: &[u32]) -> u64 {
    let mut hasher = FxHasher::default();
    for token in tokens {
        hasher.write_u32(*token);
    }
    hasher.finish()
}

/// The number that calls with this context share, for their choice of endpoint.
fn affinity(context: &[u32]) -> u64 {
    let hash = hash(&context[..context.len().min(HEAD)]);
    // The high bits of the hash are the good ones.
    hash ^ (hash >> 32)
}

/// A string that no other run has.
fn salt() -> String {
    let hasher = std::hash::RandomState::new();
    format!("{:016x}{:016x}", hasher.hash_one(0_u8), hasher.hash_one(1_u8))
}

/// The error for a protocol that the user named and the server failed.
fn not_proven(choice: Choice, reason: &str) -> ModelError {
    let name = if choice == Choice::Tail { "tail" } else { "next_token" };
    ModelError::new(ModelErrorKind::Capability, format!("`scoring={name}` cannot be used: {reason}"))
        .hint("Drop `scoring`, or use `scoring=echo`, to score with `echo`")
        .hint("`lm-eval doctor` with the same model arguments shows each check")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerances_depend_on_precision() {
        let full = Tolerance::of(Precision::Full);
        assert!(full.holds(-1.0, -1.0005) && full.holds(-20.0, -20.002));
        assert!(
            !full.holds(-1.0, -1.01) && !full.holds(f64::NAN, -1.0) && !full.holds(f64::NEG_INFINITY, -1.0)
        );
        let half = Tolerance::of(Precision::Half);
        assert!(half.holds(-1.0, -1.1) && half.holds(-20.0, -20.4) && !half.holds(-1.0, -1.3));
    }

    #[test]
    fn surprises_turn_a_protocol_off() {
        let (planner, stats) = (Planner::new(Choice::Auto), ModelStats::default());
        for _ in 0..MAX_SURPRISES {
            assert!(!planner.next_token.is_off.load(Ordering::Relaxed));
            planner.surprise(Shortcut::NextToken, "no ids", &stats);
        }
        assert!(planner.next_token.is_off.load(Ordering::Relaxed));
        assert!(!planner.tail.is_off.load(Ordering::Relaxed));
        let warnings = stats.take_warnings();
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("no ids"), "{warnings:?}");
    }
}
