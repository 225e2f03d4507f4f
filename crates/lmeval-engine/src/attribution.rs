//! The journal of a run, and the model whose answers are looked up in it.

use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use lmeval_core::{Model, ModelError, ModelErrorKind, ModelIdentity};
use lmeval_journal::{Fingerprint, Journal, Opened, StoredModel};
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;

use crate::cancel::Cancel;
use crate::error::EngineError;
use crate::event::{Event, Events};
use crate::options::{EvaluateOptions, JournalOptions};
use crate::plan::settings;

/// How often cancellation is checked while waiting for the model's identity.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// An open journal and the model that answers are looked up for.
pub(crate) struct Attribution {
    pub(crate) journal: Arc<Journal>,
    pub(crate) model: Fingerprint,
    /// Set if the model was not asked who it is. The identity is then the last one that the journal has for its settings,
    /// and is confirmed before the first request is sent.
    pub(crate) assumed: Option<Arc<Assumed>>,
}

/// An identity that the model has not confirmed.
#[derive(Default)]
pub(crate) struct Assumed {
    /// The model's answer to the first worker that asked.
    pub(crate) is_confirmed: OnceCell<bool>,
    other: Mutex<Option<ModelIdentity>>,
}

impl Assumed {
    /// Notes that the model is another one.
    pub(crate) fn refute(&self, identity: ModelIdentity) {
        *self.other.lock().unwrap_or_else(PoisonError::into_inner) = Some(identity);
    }

    /// Whether the model is another one.
    pub(crate) fn is_refuted(&self) -> bool {
        self.other.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// The identity of the other model.
    pub(crate) fn take_other(&self) -> Option<ModelIdentity> {
        self.other.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Opens the journal. The model is asked for its identity only if it is not `known` and the journal has no answers of a
/// model with its settings.
pub(crate) fn open(
    wanted: &JournalOptions,
    model: &Arc<dyn Model>,
    known: Option<ModelIdentity>,
    options: &EvaluateOptions,
    runtime: &Runtime,
    events: &dyn Events,
) -> Result<Attribution, EngineError> {
    let ask = || identity(model, runtime, &options.cancel, Some(&wanted.path));
    // A journal is not emptied, and none is created, for a model that cannot be reached. Old caches are imported for a
    // known model only.
    let may_assume = known.is_none() && !wanted.fresh && wanted.import.is_empty() && wanted.path.exists();
    let assumable = model.known_identity().filter(|_| may_assume);
    let asked = match (known, &assumable) {
        (Some(identity), _) => Some(identity),
        (None, Some(_)) => None,
        (None, None) => Some(ask()?),
    };
    let (journal, opened) =
        if wanted.fresh { Journal::open_fresh(&wanted.path)? } else { Journal::open(&wanted.path)? };
    events.event(Event::JournalOpened {
        answers: opened.answers,
        repaired_bytes: opened.repaired_bytes,
        damage: &opened.damage,
    });
    let last = assumable.and_then(|identity| journal.last_model(&identity));
    if let Some(last) = last.filter(|last| journal.answers_of(last.fingerprint()) > 0) {
        model.assume(&|name| last.fact(name).map(str::to_owned));
        let model = last.fingerprint();
        events.event(Event::Attributed { model, description: &last.to_string() });
        let answers = journal.answers_of(model);
        let of_others = opened.answers.saturating_sub(answers);
        let from = origin(|name| last.fact(name));
        events.event(Event::Reusing {
            answers,
            from: &from,
            is_assumed: true,
            of_unknown_server: 0,
            of_others,
        });
        return Ok(Attribution { journal: Arc::new(journal), model, assumed: Some(Arc::default()) });
    }
    let identity = match asked {
        Some(identity) => identity,
        None => ask()?,
    };
    events.event(Event::Model(&identity));
    let model = register(&journal, &identity, events)?;
    events.event(Event::Attributed { model, description: &identity.to_string() });
    report_reuse(&journal, &opened, &identity, model, events);
    import(wanted, options, &journal, model, events)?;
    Ok(Attribution { journal: Arc::new(journal), model, assumed: None })
}

/// Reports the identity of a model whose answers are not saved.
pub(crate) fn report_identity(
    model: &Arc<dyn Model>,
    options: &EvaluateOptions,
    runtime: &Runtime,
    events: &dyn Events,
) -> Result<(), EngineError> {
    let identity = identity(model, runtime, &options.cancel, None)?;
    let model = Fingerprint::of(&identity);
    events.event(Event::Attributed { model, description: &identity.to_string() });
    Ok(())
}

/// Reports how many answers of the model, and of others, the journal has.
fn report_reuse(
    journal: &Journal,
    opened: &Opened,
    identity: &ModelIdentity,
    model: Fingerprint,
    events: &dyn Events,
) {
    let answers = journal.answers_of(model);
    let former = former_identities(identity);
    let of_unknown_server: usize = former
        .iter()
        .map(Fingerprint::of)
        .filter(|former| *former != model)
        .map(|former| journal.answers_of(former))
        .sum();
    let of_others = opened.answers.saturating_sub(answers + of_unknown_server);
    let from = origin(|name| identity.fact(name));
    events.event(Event::Reusing { answers, from: &from, is_assumed: false, of_unknown_server, of_others });
}

/// Imports old response caches as answers of the model.
fn import(
    wanted: &JournalOptions,
    options: &EvaluateOptions,
    journal: &Journal,
    model: Fingerprint,
    events: &dyn Events,
) -> Result<(), EngineError> {
    for cache in wanted.import.iter().filter(|cache| cache.is_file()) {
        let Some(python) = &options.data.python else {
            let message =
                format!("The old response cache `{}` cannot be read without Python", cache.display());
            return Err(settings(message, "Run with Python enabled, or use another --use_cache"));
        };
        let rows = python.old_cache(cache)?.map(|row| row.map_err(EngineError::from));
        let imported = journal.import(rows, model)?;
        events.event(Event::CacheImported { answers: imported.answers, skipped: imported.skipped });
    }
    Ok(())
}

/// The model's identity. Avoids `block_on`, because the caller may be inside a runtime.
fn identity(
    model: &Arc<dyn Model>,
    runtime: &Runtime,
    cancel: &Cancel,
    journal: Option<&Path>,
) -> Result<ModelIdentity, EngineError> {
    let (answer, answered) = mpsc::channel();
    let model = Arc::clone(model);
    runtime.spawn(async move {
        // Fails only if the run was cancelled meanwhile.
        let _ = answer.send(model.identity().await);
    });
    loop {
        match answered.recv_timeout(POLL_INTERVAL) {
            Ok(identity) => return Ok(identity?),
            Err(RecvTimeoutError::Timeout) if cancel.is_cancelled() => {
                return Err(EngineError::Interrupted { answered: 0, journal: journal.map(Path::to_owned) });
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let message = "The model panicked while reporting its identity";
                return Err(ModelError::new(ModelErrorKind::Capability, message).into());
            }
        }
    }
}

/// Registers the model. A server that does not report its model is assumed to run the same one as before.
///
/// Older versions recorded fewer facts. If the last model with these settings lacks only what they did not record, it is
/// taken for the same one, so that a run begun by an older version can be resumed.
pub(crate) fn register(
    journal: &Journal,
    identity: &ModelIdentity,
    events: &dyn Events,
) -> Result<Fingerprint, EngineError> {
    let has = |name: &str| identity.fact(name).is_some();
    if has("server")
        && !has("serves")
        && let Some(last) = journal.last_model(identity)
        && let Some(serves) = last.fact("serves")
    {
        events.event(Event::ModelAssumed { serves });
        return Ok(journal.register(last)?);
    }
    if let Some(older) = recorded_by_older_version(journal, identity) {
        return Ok(journal.register(older)?);
    }
    Ok(journal.register_model(identity)?)
}

/// The last model of the journal with these settings, if it equals the identity without `reports`.
fn recorded_by_older_version(journal: &Journal, identity: &ModelIdentity) -> Option<StoredModel> {
    identity.fact("reports")?;
    let without = |omitted: &[&str]| {
        let facts = identity.facts.iter().filter(|(name, _)| !omitted.contains(name)).cloned().collect();
        ModelIdentity { backend: identity.backend.clone(), facts }
    };
    let last = journal.last_model(&without(&["serves", "reports"]))?;
    (last.fingerprint() == Fingerprint::of(&without(&["reports"]))).then_some(last)
}

/// Where the answers of a model come from, for messages; empty for models that are not served.
fn origin<'a>(fact: impl Fn(&str) -> Option<&'a str>) -> String {
    if let Some(model_id) = fact("model_id") {
        return format!("`{model_id}` (`model_id`) at any address");
    }
    let Some(server) = fact("server") else { return String::new() };
    let name = fact("serves").map_or_else(String::new, |name| format!("`{name}` at "));
    let reports = fact("reports").map_or_else(String::new, |reports| format!(" ({reports})"));
    format!("{name}{server}{reports}")
}

/// The identities that older versions recorded for the same model: without the server's address, or with its host
/// only.
fn former_identities(identity: &ModelIdentity) -> Vec<ModelIdentity> {
    let Some(server) = identity.fact("server") else { return Vec::new() };
    let mut former = Vec::new();
    let others = || {
        let newer = ["server", "reports"];
        identity.facts.iter().filter(move |(name, _)| !newer.contains(name)).cloned()
    };
    if identity.fact("serves").is_some() {
        former.push(ModelIdentity { backend: identity.backend.clone(), facts: others().collect() });
    } else if let Some((host, _)) = server.split_once(['/', '?', ';']) {
        let facts = others().chain([("server", host.to_owned())]).collect();
        former.push(ModelIdentity { backend: identity.backend.clone(), facts });
    }
    former
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn former_identities_omit_the_address() {
        let identity = |facts: &[(&'static str, &str)]| ModelIdentity {
            backend: "local-completions".to_owned(),
            facts: facts.iter().map(|(name, fact)| (*name, (*fact).to_owned())).collect(),
        };
        let of = |facts: &[(&'static str, &str)]| former_identities(&identity(facts));
        assert_eq!(
            of(&[("model", "m"), ("serves", "m"), ("server", "host:1")]),
            [identity(&[("model", "m"), ("serves", "m")])]
        );
        // Older versions recorded the host alone too, so the identity is unchanged.
        assert_eq!(of(&[("model", "m"), ("server", "host:1")]), []);
        assert_eq!(
            of(&[("model", "m"), ("server", "host:1/left")]),
            [identity(&[("model", "m"), ("server", "host:1")])]
        );
        assert_eq!(of(&[("model", "m")]), []);
        assert_eq!(
            of(&[("model", "m"), ("serves", "m"), ("server", "host:1"), ("reports", "version 1")]),
            [identity(&[("model", "m"), ("serves", "m")])]
        );
    }
}
