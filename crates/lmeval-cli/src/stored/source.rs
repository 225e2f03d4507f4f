//! A model that answers only from a stored run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, bail};
use lmeval_analysis::answers::StoredSamples;
use lmeval_analysis::read::Run;
use lmeval_core::{
    Answer, Diagnose as _, Diagnostic, Dialect, LocalModel, ModelError, ModelErrorKind, ModelIdentity,
    ModelRequest, ModelTemplate, ModelTraits, Response, SCORING_FACT,
};
use lmeval_engine::{Abilities, JournalAnswers, is_judge};
use lmeval_journal::{SavedAnswers, StoredModel as JournalModel};
use lmeval_pycompat::{Dict, Value};
use lmeval_tokenizers::TokenizerTemplate;

use super::prompts::StoredPrompts;
use super::settings;
use crate::words::counted;

/// The number of documents without an answer that are listed for each task.
const LISTED: usize = 20;

/// The number of documents without an answer that are explained for each task.
const EXPLAINED: usize = 3;

/// The source to use of a run that has both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefer {
    /// The documents as the user sees them, who may have edited them.
    Samples,
    /// The answers with the numbers of their tokens.
    Journal,
}

/// Where answers are looked up.
#[derive(Debug)]
pub(crate) enum Source {
    Samples(Arc<StoredSamples>),
    Journal(Box<JournalAnswers>),
}

impl Source {
    /// The samples files of a run or its journal, whichever it has; of both, the preferred one.
    pub(crate) fn open(
        run: &Run,
        named: &Path,
        model: Option<&str>,
        dialect: Dialect,
        prefer: Prefer,
    ) -> Result<Self> {
        let is_named = named.extension().is_some_and(|extension| extension == "journal");
        let is_preferred = prefer == Prefer::Journal && run.journal().is_some();
        if !is_named && !is_preferred && !run.samples.is_empty() {
            return Ok(Self::Samples(Arc::new(StoredSamples::open(&run.samples)?)));
        }
        let journal = if is_named { Some(named.to_owned()) } else { run.journal() };
        let Some(journal) = journal else {
            let diagnostic = Diagnostic::new(format!(
                "`{}` has neither samples files nor a journal beside it, so its answers are not stored",
                run.path.display()
            ));
            bail!(diagnostic.hint(
                "`lm-eval run --output_path DIR` writes a journal, and with `--log_samples` samples files"
            ));
        };
        let saved = SavedAnswers::open(&journal)?;
        let is_evaluated =
            |(model, answers): &(JournalModel, usize)| *answers > 0 && !is_judge(|name| model.fact(name));
        let models: Vec<_> = saved.models().into_iter().filter(is_evaluated).collect();
        let fits = |identity: &str| model.is_none_or(|wanted| identity.contains(wanted));
        let fitting: Vec<_> = models.iter().filter(|(model, _)| fits(&model.to_string())).collect();
        let unscored = |model: &JournalModel| model.with(SCORING_FACT, None);
        // The most recent scoring protocol of one model.
        let last = fitting
            .last()
            .filter(|(last, _)| fitting.iter().all(|(model, _)| unscored(model) == unscored(last)));
        let Some((last, _)) = last else {
            let what = if fitting.is_empty() {
                "has no answers of such a model"
            } else {
                "has answers of several models"
            };
            let mut diagnostic = Diagnostic::new(format!("`{}` {what}", journal.display()));
            for (model, answers) in &models {
                diagnostic = diagnostic.hint(format!("{} of {model}", counted(*answers, "answer")));
            }
            bail!(diagnostic.hint("Choose one with `--model TEXT`, a part of its description"));
        };
        Ok(Self::Journal(Box::new(JournalAnswers::new(saved, last, dialect))))
    }

    /// The kind of files, for the results.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Samples(_) => "samples",
            Self::Journal(_) => "journal",
        }
    }

    fn find(&self, requests: &[ModelRequest]) -> Result<Vec<Option<Answer>>, ModelError> {
        let failed = |message: String| ModelError::new(ModelErrorKind::Configuration, message);
        match self {
            Self::Samples(samples) => samples
                .find(requests)
                .map_err(|error| error.hints().into_iter().fold(failed(error.to_string()), ModelError::hint)),
            Self::Journal(journal) => {
                let found = requests.iter().map(|request| journal.find(request));
                found.collect::<Result<_, _>>().map_err(|error| failed(error.to_string()))
            }
        }
    }

    /// The templates that may have rendered the prompts of a chat run, likeliest first.
    pub(crate) fn templates(&self, run: &Run, dialect: Dialect) -> Vec<ModelTemplate> {
        let server = lmeval_models::server_template(dialect);
        let source = settings::text(run, "chat_template").filter(|source| !source.is_empty());
        let tokens: Dict = ["bos_token", "eos_token", "pad_token"]
            .into_iter()
            .filter_map(|name| {
                let stored = run.results.as_ref()?.get_str(&format!("tokenizer_{name}"))?;
                Some((Value::str(name), stored.as_list()?.first()?.clone()))
            })
            .filter(|(_, token)| token.as_str().is_some())
            .collect();
        // The source need not be Jinja: a model in Python may render prompts as it likes.
        let local = source.and_then(|source| TokenizerTemplate::from_server(&source, tokens).ok());
        let local = local.map(TokenizerTemplate::into_model_template);
        match self {
            Self::Samples(samples) if samples.is_chat() => vec![server],
            Self::Samples(samples) => {
                let template = local.map(|local| local.template);
                let prompts = StoredPrompts { samples: Arc::clone(samples), template };
                vec![ModelTemplate { template: Arc::new(prompts), source: None }]
            }
            Self::Journal(_) => local.into_iter().chain([server]).collect(),
        }
    }
}

/// Requests without a stored answer.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    /// The documents of each task, with the first requests of the first ones.
    tasks: BTreeMap<String, BTreeMap<usize, Option<ModelRequest>>>,
}

impl Missing {
    /// The number of documents.
    pub(crate) fn documents(&self) -> usize {
        self.tasks.values().map(BTreeMap::len).sum()
    }

    /// The number of documents of each task, for the results.
    pub(crate) fn to_dict(&self) -> Dict {
        let tasks = self.tasks.iter();
        tasks
            .map(|(task, documents)| (Value::str(task.as_str()), Value::Int(documents.len() as i64)))
            .collect()
    }

    fn add(&mut self, request: &ModelRequest) {
        let documents = self.tasks.entry(request.task_name.to_string()).or_default();
        let kept = (documents.len() < EXPLAINED).then(|| request.clone());
        documents.entry(request.doc_id.0).or_insert(kept);
    }

    /// Lists the documents, with the reasons of some.
    pub(crate) fn describe(&self, source: &Source) -> String {
        let mut text = String::new();
        for (task, documents) in &self.tasks {
            let listed: Vec<String> = documents.keys().take(LISTED).map(ToString::to_string).collect();
            let more = documents.len().saturating_sub(LISTED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let _ = write!(
                text,
                "\n  `{task}`: {}: {}{more}",
                counted(documents.len(), "document"),
                listed.join(", ")
            );
            for (document, request) in
                documents.iter().filter_map(|(document, request)| Some((document, request.as_ref()?)))
            {
                if let Source::Samples(samples) = source
                    && let Some(reason) = samples.explain(request)
                {
                    let _ = write!(text, "\n    document {document}: {reason}");
                }
            }
        }
        text
    }
}

/// A model that looks answers up and refuses everything else.
#[derive(Debug)]
pub(crate) struct StoredModel {
    pub(crate) source: Source,
    pub(crate) template: Mutex<Option<ModelTemplate>>,
    abilities: Abilities,
    missing: Mutex<Missing>,
}

impl StoredModel {
    pub(crate) fn new(source: Source, abilities: Abilities) -> Self {
        Self { source, template: Mutex::default(), abilities, missing: Mutex::default() }
    }

    /// The requests without an answer so far.
    pub(crate) fn missing(&self) -> MutexGuard<'_, Missing> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the requests without an answer.
    pub(crate) fn take_missing(&self) -> Missing {
        std::mem::take(&mut self.missing())
    }

    /// Sets the template that renders chat prompts.
    pub(crate) fn set_template(&self, template: ModelTemplate) {
        *self.template.lock().unwrap_or_else(PoisonError::into_inner) = Some(template);
    }
}

/// The stored model as the engine uses it.
#[derive(Clone, Debug)]
pub(crate) struct SharedModel(pub(crate) Arc<StoredModel>);

impl LocalModel for SharedModel {
    fn traits(&self) -> ModelTraits {
        let Abilities { scoring, reasons } = self.0.abilities;
        ModelTraits {
            option_scoring: scoring,
            reasons,
            // Repeated prompts are looked up for each document.
            depends_on_document: true,
            is_worth_saving: false,
            takes_media: true,
            is_lookup: true,
            ..ModelTraits::local()
        }
    }

    fn identity(&self) -> ModelIdentity {
        ModelIdentity { backend: "stored".to_owned(), facts: Vec::new() }
    }

    fn chat_template(&self, _: Option<&str>) -> Result<ModelTemplate, ModelError> {
        let template = self.0.template.lock().unwrap_or_else(PoisonError::into_inner).clone();
        template.ok_or_else(|| {
            ModelError::new(ModelErrorKind::Unsupported, "The chat template of the run is not stored")
        })
    }

    fn answer(&self, request: &ModelRequest) -> Result<Response, ModelError> {
        let answer = self.answer_batch(std::slice::from_ref(request)).pop();
        answer.unwrap_or_else(|| Err(absent())).map(|answer| answer.response)
    }

    fn answer_batch(&self, requests: &[ModelRequest]) -> Vec<Result<Answer, ModelError>> {
        let found = match self.0.source.find(requests) {
            Ok(found) => found,
            Err(error) => return requests.iter().map(|_| Err(error.clone())).collect(),
        };
        let answers = requests.iter().zip(found);
        answers
            .map(|(request, answer)| {
                answer.ok_or_else(|| {
                    self.0.missing().add(request);
                    absent()
                })
            })
            .collect()
    }
}

fn absent() -> ModelError {
    ModelError::new(ModelErrorKind::Request, "The stored run has no answer to this request")
}
