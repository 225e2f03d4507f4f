//! Who answers the requests of a run: the evaluated model, then its judges.

use std::sync::{Arc, Mutex, mpsc};

use lmeval_core::Model;
use lmeval_journal::Journal;
use rustc_hash::FxHashMap;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::Receiver;

use crate::attribution::{self, Assumed, Attribution, Fingerprints, Refutation};
use crate::cancel::Cancel;
use crate::collect::Message;
use crate::contact::{Contact, Introduction, Needs, prepare as prepare_model};
use crate::dispatch::Dispatcher;
use crate::error::EngineError;
use crate::event::Events;
use crate::key::Keys;
use crate::options::EvaluateOptions;
use crate::produce::Job;

/// The models of a run that have been met, and the journal of their answers.
pub(crate) struct Answerers {
    journal: Option<Arc<Journal>>,
    /// The evaluated model comes first.
    all: Vec<Answerer>,
}

struct Answerer {
    model: Arc<dyn Model>,
    /// The role of a judge.
    judge: Option<Arc<str>>,
    needs: Needs,
    /// `None` if its answers are not saved.
    attribution: Option<Attribution>,
}

/// What all dispatchers of a run share.
pub(crate) struct Wiring<'a> {
    pub(crate) events: &'a Arc<dyn Events>,
    pub(crate) messages: &'a mpsc::Sender<Message>,
    pub(crate) stop: &'a Cancel,
}

impl Answerers {
    /// Opens the journal and meets the model and its judges. `known` has what some of them are known to be.
    pub(crate) fn meet(
        model: &Arc<dyn Model>,
        needs: Needs,
        options: &EvaluateOptions,
        known: &[Option<Introduction>],
        contact: &Contact<'_>,
        events: &dyn Events,
    ) -> Result<Self, EngineError> {
        let attribution = match options.journal.as_ref().filter(|_| model.traits().is_worth_saving) {
            Some(wanted) => {
                Some(attribution::open(wanted, model, (known[0].clone(), needs), options, contact, events)?)
            }
            None if options.part.is_some() => {
                attribution::report_identity(model, needs, contact, events)?;
                None
            }
            None => {
                contact.wait(prepare_model(Arc::clone(model), needs))?;
                None
            }
        };
        let journal = match &attribution {
            Some(attribution) => Some(Arc::clone(&attribution.journal)),
            None => open_for_judges(options, events)?,
        };
        let mut all = vec![Answerer { model: Arc::clone(model), judge: None, needs, attribution }];
        for (judge, known) in options.judges.iter().zip(&known[1..]) {
            let attribution = match journal.as_ref().filter(|_| judge.model.traits().is_worth_saving) {
                Some(journal) => Some(attribution::open_judge(journal, judge, known.clone(), contact)?),
                None => {
                    let met = contact.wait(prepare_model(Arc::clone(&judge.model), Needs::JUDGE));
                    met.map_err(|error| error.of_judge(&judge.role))?;
                    None
                }
            };
            let (model, role) = (Arc::clone(&judge.model), Arc::clone(&judge.role));
            all.push(Answerer { model, judge: Some(role), needs: Needs::JUDGE, attribution });
        }
        Ok(Self { journal, all })
    }

    /// The journal of the answers of judges, and of the evaluated model's if those are saved.
    pub(crate) fn journal(&self) -> Option<Arc<Journal>> {
        self.journal.clone()
    }

    /// The journal of the evaluated model's answers.
    pub(crate) fn journal_of_model(&self) -> Option<Arc<Journal>> {
        Some(Arc::clone(&self.all.first()?.attribution.as_ref()?.journal))
    }

    /// Starts to answer the requests of the queues, of which each model has one.
    pub(crate) fn start(
        self,
        runtime: &Runtime,
        queues: impl IntoIterator<Item = Receiver<Vec<Job>>>,
        options: &EvaluateOptions,
        shared: &Wiring<'_>,
    ) -> Assumptions {
        let mut all = Vec::new();
        for (Answerer { model, judge, needs, attribution }, queue) in self.all.into_iter().zip(queues) {
            let (journal, models, assumed) = match attribution {
                Some(Attribution { journal, models, assumed }) => (Some(journal), models, assumed),
                None => (None, Fingerprints::unsaved(), None),
            };
            let per_document = model.traits().depends_on_document;
            all.push(assumed.clone());
            let dispatcher = Dispatcher {
                model,
                journal,
                assumed,
                needs,
                keys: Keys { models, per_document, dialect: options.dialect },
                judge,
                events: Arc::clone(shared.events),
                messages: shared.messages.clone(),
                stop: shared.stop.clone(),
                seen: Mutex::new(FxHashMap::default()),
            };
            runtime.spawn(Arc::new(dispatcher).run(queue));
        }
        Assumptions(all)
    }
}

/// Which models were taken for those that the journal has answers of.
pub(crate) struct Assumptions(Vec<Option<Arc<Assumed>>>);

impl Assumptions {
    /// The first model that turned out to be another one, by its index.
    pub(crate) fn refuted(&self) -> Option<(usize, Refutation)> {
        let mut all = self.0.iter().enumerate();
        all.find_map(|(index, assumed)| Some((index, assumed.as_ref()?.take_other()?)))
    }
}

/// The journal for the answers of judges, if those of the evaluated model are not worth saving.
fn open_for_judges(
    options: &EvaluateOptions,
    events: &dyn Events,
) -> Result<Option<Arc<Journal>>, EngineError> {
    let saves = options.judges.iter().any(|judge| judge.model.traits().is_worth_saving);
    let wanted = options.journal.as_ref().filter(|_| saves);
    wanted.map(|wanted| attribution::open_for_judges(wanted, events)).transpose()
}
