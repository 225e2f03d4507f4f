//! The record of scoring protocols in the results.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use lmeval_pycompat::{Dict, Value, repr};

use super::{Planner, Use};

impl Planner {
    /// The protocols with their evidence and use; `None` if no log-likelihoods were requested, and in results of
    /// the 0.4 line unless the user names a protocol.
    pub(in super::super) fn record(&self, is_v04: bool) -> Option<Value> {
        if is_v04 && !self.choice.is_required() {
            return None;
        }
        let mut record = Dict::new();
        let Some(proven) = self.proven.get() else {
            record.insert("protocol", self.assumed.get()?.as_str());
            let reason = Value::str("all answers are from the journal; the server was not contacted");
            record.insert("evidence", Value::list([Value::dict([("reason", reason)])]));
            return Some(Value::from(record));
        };
        record.insert("protocol", proven.name().unwrap_or("echo"));
        let joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        record.insert("evidence", Value::list(proven.evidence.iter().chain(joined.iter()).cloned()));
        drop(joined);
        if proven.name().is_none() {
            return Some(Value::from(record));
        }
        record.insert("logits", proven.precision.name());
        record.insert(
            "tolerance",
            Value::dict([
                ("absolute", Value::Float(proven.tolerance.absolute)),
                ("relative", Value::Float(proven.tolerance.relative)),
            ]),
        );
        for (name, usage, is_proven) in [
            ("next_token", &self.next_token, proven.next_token.is_some()),
            ("tail", &self.tail, proven.tail.is_some()),
        ] {
            if is_proven {
                record.insert(name, usage.record());
            }
        }
        record.insert("echo", Value::dict([("answers", count(&self.echo))]));
        record.insert("prompt_tokens", self.prompt_tokens());
        Some(Value::from(record))
    }

    /// The evidence as one line.
    pub(in super::super) fn evidence(&self) -> String {
        let Some(proven) = self.proven.get() else { return String::new() };
        let shown = proven.evidence.iter().filter_map(Value::as_dict).map(|one| {
            let facts = one.iter().map(|(name, fact)| match name.as_str() {
                Some("reason") => repr::str(fact),
                _ => format!("{} {}", repr::str(name).replace('_', " "), repr::str(fact)),
            });
            facts.collect::<Vec<_>>().join(", ")
        });
        shown.collect::<Vec<_>>().join("; ")
    }

    fn prompt_tokens(&self) -> Value {
        let tokens = &self.prompt_tokens;
        let mut record = Dict::new();
        record.insert("echo_would_compute", count(&tokens.asked));
        record.insert("sent", count(&tokens.sent));
        let computed = tokens.sent.load(Ordering::Relaxed) - tokens.cached.load(Ordering::Relaxed);
        let is_known = tokens.is_cached_known.load(Ordering::Relaxed);
        record.insert("computed", if is_known { Value::Int(computed as i64) } else { Value::None });
        // Without the server's count, at least what was not sent at all.
        let spent = if is_known { computed } else { tokens.sent.load(Ordering::Relaxed) };
        record.insert("saved", tokens.asked.load(Ordering::Relaxed) as i64 - spent as i64);
        let of_servers = self.metrics.try_lock().ok().and_then(|metrics| (*metrics)?.1);
        let of_servers = of_servers.map_or(Value::None, |computed| Value::Int(computed as i64));
        record.insert("computed_for_all_clients", of_servers);
        Value::from(record)
    }
}

impl Use {
    fn record(&self) -> Value {
        Value::dict([
            ("answers", count(&self.scores)),
            ("calls", count(&self.calls)),
            ("unexpected_answers", small(&self.surprises)),
            ("turned_off", Value::Bool(self.is_off.load(Ordering::Relaxed))),
        ])
    }
}

fn count(counter: &AtomicU64) -> Value {
    Value::Int(counter.load(Ordering::Relaxed) as i64)
}

fn small(counter: &AtomicU32) -> Value {
    Value::Int(counter.load(Ordering::Relaxed).into())
}
