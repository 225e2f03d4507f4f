//! The journal of a run, and the model whose answers are looked up in it.

use std::sync::{Arc, Mutex, PoisonError};

use lmeval_core::{Model, ModelIdentity, SCORING_FACT};
use lmeval_journal::{Fingerprint, Journal, Opened, StoredModel};
use tokio::sync::OnceCell;

use crate::contact::{Contact, Introduction, Needs, introduce};
use crate::error::EngineError;
use crate::event::{Event, Events, NoEvents};
use crate::judging::{JudgeModel, as_judge};
use crate::options::{EvaluateOptions, JournalOptions};
use crate::plan::settings;

/// An open journal and the model that answers are looked up for.
pub(crate) struct Attribution {
    pub(crate) journal: Arc<Journal>,
    pub(crate) models: Fingerprints,
    /// Set if the model was not asked who it is. The identity is then the last one that the journal has for its settings,
    /// and is confirmed before the first request is sent.
    pub(crate) assumed: Option<Arc<Assumed>>,
}

/// The fingerprints under which answers are saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprints {
    pub(crate) model: Fingerprint,
    /// That of log-likelihoods, unless they are obtained by the default protocol.
    pub(crate) scoring: Option<Fingerprint>,
}

impl Fingerprints {
    /// For a run that saves nothing.
    pub(crate) fn unsaved() -> Self {
        let nobody = ModelIdentity { backend: String::new(), facts: Vec::new() };
        Self { model: Fingerprint::of(&nobody), scoring: None }
    }

    /// The fingerprints of a model; log-likelihoods are those of its scoring protocol.
    pub(crate) fn of(model: &StoredModel) -> Self {
        let scoring = model.fact(SCORING_FACT).map(|_| model.fingerprint());
        Self { model: model.with(SCORING_FACT, None).fingerprint(), scoring }
    }

    /// The number of answers that tasks with these needs may use.
    fn answers(self, journal: &Journal, needs: Needs) -> usize {
        let scoring = self.scoring.filter(|_| needs.loglikelihoods);
        let uses_model = needs.others || scoring.is_none();
        let of_model = if uses_model { journal.answers_of(self.model) } else { 0 };
        of_model + scoring.map_or(0, |scoring| journal.answers_of(scoring))
    }
}

/// An identity that the model has not confirmed.
#[derive(Default)]
pub(crate) struct Assumed {
    /// The model's answer to the first worker that asked.
    pub(crate) is_confirmed: OnceCell<bool>,
    other: Mutex<Option<Refutation>>,
}

/// A model that is not the assumed one.
pub(crate) struct Refutation {
    pub(crate) introduction: Introduction,
    /// Whether it only scores log-likelihoods by another protocol.
    pub(crate) is_same_model: bool,
}

impl Assumed {
    /// Notes that the model is another one.
    pub(crate) fn refute(&self, refutation: Refutation) {
        *self.other.lock().unwrap_or_else(PoisonError::into_inner) = Some(refutation);
    }

    /// Whether the model is another one.
    pub(crate) fn is_refuted(&self) -> bool {
        self.other.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// The other model.
    pub(crate) fn take_other(&self) -> Option<Refutation> {
        self.other.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Opens the journal. The model is asked for its identity and its scoring protocol only if they are not `known` and the
/// journal has no answers of a model with its settings.
pub(crate) fn open(
    wanted: &JournalOptions,
    model: &Arc<dyn Model>,
    (known, needs): (Option<Introduction>, Needs),
    options: &EvaluateOptions,
    contact: &Contact<'_>,
    events: &dyn Events,
) -> Result<Attribution, EngineError> {
    let ask = || {
        let asked = Arc::clone(model);
        contact.wait(async move { introduce(&*asked, needs).await })
    };
    // A journal is not emptied, and none is created, for a model that cannot be reached. Old caches are imported for a
    // known model only.
    let may_assume = known.is_none() && !wanted.fresh && wanted.import.is_empty() && wanted.path.exists();
    let assumable = model.known_identity().filter(|_| may_assume);
    let asked = match (known, &assumable) {
        (Some(known), _) => Some(known),
        (None, Some(_)) => None,
        (None, None) => Some(ask()?),
    };
    let (journal, opened) =
        if wanted.fresh { Journal::open_fresh(&wanted.path)? } else { Journal::open(&wanted.path)? };
    events.event(Event::JournalOpened {
        answers: opened.answers,
        repaired_bytes: opened.repaired_bytes,
        damage: &opened.damage,
        is_exclusive: opened.is_exclusive,
    });
    let may_score = |stored: &StoredModel| model.may_score_by(stored.fact(SCORING_FACT));
    let last = assumable.and_then(|identity| journal.last_model_where(&identity, may_score));
    if let Some(last) = last.filter(|last| Fingerprints::of(last).answers(&journal, needs) > 0) {
        return Ok(assume(journal, &opened, &last, model, needs, events));
    }
    let introduction = match asked {
        Some(introduction) => introduction,
        None => ask()?,
    };
    events.event(Event::Model(&introduction.identity));
    let registered = register(&journal, &introduction, needs, events)?;
    report_reuse(&journal, &opened, &introduction, (&registered, needs), events);
    let models = registered.models;
    import(wanted, options, &journal, models.model, events)?;
    Ok(Attribution { journal: Arc::new(journal), models, assumed: None })
}

/// Uses the saved answers of a model without asking the server.
fn assume(
    journal: Journal,
    opened: &Opened,
    last: &StoredModel,
    model: &Arc<dyn Model>,
    needs: Needs,
    events: &dyn Events,
) -> Attribution {
    let unscored = last.with(SCORING_FACT, None);
    model.assume(&|name| match (name, last.fact(name)) {
        (SCORING_FACT, fact) => needs.loglikelihoods.then(|| fact.unwrap_or("echo").to_owned()),
        (_, fact) => fact.map(str::to_owned),
    });
    report_model(if needs.loglikelihoods { last } else { &unscored }, events);
    let models = Fingerprints::of(last);
    let answers = models.answers(&journal, needs);
    let of_others = opened.answers.saturating_sub(answers);
    let from = origin(|name| last.fact(name), needs);
    events.event(Event::Reusing { answers, from: &from, is_assumed: true, of_unknown_server: 0, of_others });
    Attribution { journal: Arc::new(journal), models, assumed: Some(Arc::default()) }
}

/// Reports the identity of a model whose answers are not saved.
pub(crate) fn report_identity(
    model: &Arc<dyn Model>,
    needs: Needs,
    contact: &Contact<'_>,
    events: &dyn Events,
) -> Result<(), EngineError> {
    let asked = Arc::clone(model);
    let Introduction { identity, protocol } = contact.wait(async move { introduce(&*asked, needs).await })?;
    report_model(&StoredModel::from(&identity).with(SCORING_FACT, protocol.as_deref()), events);
    Ok(())
}

/// Reports the model of a run, with the protocol of its log-likelihoods.
fn report_model(model: &StoredModel, events: &dyn Events) {
    events.event(Event::Attributed { model: model.fingerprint(), description: &model.to_string() });
}

/// Decides whose saved answers a judge of a run uses. Like the evaluated model, it is contacted only if the journal has no
/// answers of a judge with its settings.
pub(crate) fn open_judge(
    journal: &Arc<Journal>,
    JudgeModel { role, model: judge, .. }: &JudgeModel,
    known: Option<Introduction>,
    contact: &Contact<'_>,
) -> Result<Attribution, EngineError> {
    let journal = Arc::clone(journal);
    let assumable = judge.known_identity().filter(|_| known.is_none()).map(as_judge);
    let last = assumable.and_then(|identity| journal.last_model(&identity));
    if let Some(last) = last.filter(|last| journal.answers_of(last.fingerprint()) > 0) {
        judge.assume(&|name| last.fact(name).map(str::to_owned));
        return Ok(Attribution { journal, models: Fingerprints::of(&last), assumed: Some(Arc::default()) });
    }
    let introduction = match known {
        Some(introduction) => introduction,
        None => {
            let asked = Arc::clone(judge);
            let introduced = contact.wait(async move { introduce(&*asked, Needs::JUDGE).await });
            introduced.map_err(|error| error.of_judge(role))?
        }
    };
    let introduction = introduction.of_judge();
    // The events of a run are about the evaluated model.
    let models = register(&journal, &introduction, Needs::JUDGE, &NoEvents)?.models;
    Ok(Attribution { journal, models, assumed: None })
}

/// Opens the journal for judges alone: the answers of the evaluated model are not worth saving.
pub(crate) fn open_for_judges(
    wanted: &JournalOptions,
    events: &dyn Events,
) -> Result<Arc<Journal>, EngineError> {
    let (journal, opened) =
        if wanted.fresh { Journal::open_fresh(&wanted.path)? } else { Journal::open(&wanted.path)? };
    let Opened { answers, repaired_bytes, damage, is_exclusive, .. } = &opened;
    let (answers, repaired_bytes, is_exclusive) = (*answers, *repaired_bytes, *is_exclusive);
    events.event(Event::JournalOpened { answers, repaired_bytes, damage, is_exclusive });
    Ok(Arc::new(journal))
}

/// Reports how many answers of the model, and of others, the journal has.
fn report_reuse(
    journal: &Journal,
    opened: &Opened,
    introduction: &Introduction,
    (registered, needs): (&Registered, Needs),
    events: &dyn Events,
) {
    let Introduction { identity, protocol } = introduction;
    let answers = registered.models.answers(journal, needs);
    let former = former_identities(identity);
    let of_unknown_server: usize = former
        .iter()
        .map(Fingerprint::of)
        .filter(|former| *former != registered.models.model)
        .map(|former| journal.answers_of(former))
        .sum();
    let of_others = opened.answers.saturating_sub(registered.answers + of_unknown_server);
    let fact = |name: &str| match name {
        SCORING_FACT => protocol.as_deref(),
        name => identity.fact(name),
    };
    let from = origin(fact, needs);
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

/// The names of protocols besides the default one under which a journal may have log-likelihoods.
const SCORING_PROTOCOLS: [&str; 3] = ["next_token", "next_token+tail", "tail"];

/// A model that is registered in the journal.
pub(crate) struct Registered {
    pub(crate) models: Fingerprints,
    /// Its answers by any protocol.
    answers: usize,
}

/// Registers the model, and its scoring protocol unless it is the default one. Reports answers by other protocols.
pub(crate) fn register(
    journal: &Journal,
    introduction: &Introduction,
    needs: Needs,
    events: &dyn Events,
) -> Result<Registered, EngineError> {
    let Introduction { identity, protocol } = introduction;
    let model = stored(journal, identity, events);
    let is_same = |other: &StoredModel| other.with(SCORING_FACT, None) == model;
    let before = journal.last_model_where(identity, is_same);
    journal.register(model.clone())?;
    let scored = match protocol {
        Some(_) => Some(model.with(SCORING_FACT, protocol.as_deref())),
        // A run without log-likelihoods leaves their protocol as it was.
        None => before.filter(|before| !needs.loglikelihoods && before.fact(SCORING_FACT).is_some()),
    };
    let models = Fingerprints::of(scored.as_ref().unwrap_or(&model));
    report_model(scored.as_ref().filter(|_| needs.loglikelihoods).unwrap_or(&model), events);
    if let Some(scored) = scored {
        journal.register(scored)?;
    }
    let answers = |protocol| journal.answers_of(model.with(SCORING_FACT, protocol).fingerprint());
    let protocols = || [None].into_iter().chain(SCORING_PROTOCOLS.map(Some));
    let protocol = protocol.as_deref();
    if needs.loglikelihoods
        && answers(protocol) == 0
        && let Some(other) = protocols().find(|other| *other != protocol && answers(*other) > 0)
    {
        events.event(Event::OtherScoring { protocol, other });
    }
    Ok(Registered { models, answers: protocols().map(answers).sum() })
}

/// The model as the journal stores it. A server that does not report its model is assumed to run the same one as before.
///
/// Older versions recorded fewer facts. If the last model with these settings lacks only what they did not record, it is
/// taken for the same one, so that a run begun by an older version can be resumed.
fn stored(journal: &Journal, identity: &ModelIdentity, events: &dyn Events) -> StoredModel {
    let has = |name: &str| identity.fact(name).is_some();
    if has("server")
        && !has("serves")
        && let Some(last) = last_unscored(journal, identity)
        && let Some(serves) = last.fact("serves")
    {
        events.event(Event::ModelAssumed { serves });
        return last;
    }
    recorded_by_older_version(journal, identity).unwrap_or_else(|| StoredModel::from(identity))
}

/// The last model with these facts, without the protocol of its log-likelihoods.
fn last_unscored(journal: &Journal, identity: &ModelIdentity) -> Option<StoredModel> {
    journal.last_model(identity).map(|last| last.with(SCORING_FACT, None))
}

/// The last model of the journal with these settings, if it equals the identity without `reports`.
fn recorded_by_older_version(journal: &Journal, identity: &ModelIdentity) -> Option<StoredModel> {
    identity.fact("reports")?;
    let without = |omitted: &[&str]| {
        let facts = identity.facts.iter().filter(|(name, _)| !omitted.contains(name)).cloned().collect();
        ModelIdentity { backend: identity.backend.clone(), facts }
    };
    let last = last_unscored(journal, &without(&["serves", "reports"]))?;
    (last.fingerprint() == Fingerprint::of(&without(&["reports"]))).then_some(last)
}

/// Where the answers of a model come from, for messages; empty for models that are not served.
fn origin<'a>(fact: impl Fn(&str) -> Option<&'a str>, needs: Needs) -> String {
    let scoring = fact(SCORING_FACT).filter(|_| needs.loglikelihoods);
    let scoring =
        scoring.map_or_else(String::new, |protocol| format!(", log-likelihoods by `{protocol}` scoring"));
    if let Some(model_id) = fact("model_id") {
        return format!("`{model_id}` (`model_id`) at any address{scoring}");
    }
    let Some(server) = fact("server") else { return scoring.trim_start_matches(", ").to_owned() };
    let name = fact("serves").map_or_else(String::new, |name| format!("`{name}` at "));
    let reports = fact("reports").map_or_else(String::new, |reports| format!(" ({reports})"));
    format!("{name}{server}{reports}{scoring}")
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
