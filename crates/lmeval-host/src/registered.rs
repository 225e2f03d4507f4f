//! Host functions for names registered by Python code.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Function, Value};
use lmeval_scoring::HostError;
use lmeval_scoring::registry::{NameLookup, NameScope, Registered};
use lmeval_scoring::scorers::HostScorer;
use rayon::prelude::*;

use crate::message::{Message, wrong_type};
use crate::pool::{Pin, Pool};
use crate::protocol::encode;

/// How many documents are sent to a worker at once.
const BATCH: usize = 64;

/// Looks up a name that Python code registered.
pub(crate) fn find(pool: &Pool, kind: &str, name: &str, scope: &NameScope) -> Result<NameLookup, HostError> {
    let function = Function { directory: String::new(), reference: format!("registry:{kind}/{name}") };
    if !pool.has_plugins() && pool.worker().is_err_and(|error| error.is_missing_python()) {
        return Err(HostError::needs_python(&function));
    }
    let text = |text: &str| Value::str(text);
    let answer = Message::about("registered", &function)
        .with("kind", &text(kind))
        .with("name", &text(name))
        .with("folders", &Value::list(scope.folders.iter().map(|folder| text(folder))))
        .with("whole", &Value::Bool(scope.import_utils))
        .ask_once(pool)?;
    let part = |name: &str| answer.as_dict().and_then(|answer| answer.get_str(name));
    match (part("function"), part("facts"), part("known")) {
        (Some(Value::Function(function)), Some(Value::Dict(facts)), _) => {
            Ok(NameLookup::Found(Registered { function: Arc::clone(function), facts: Dict::clone(facts) }))
        }
        (_, _, Some(Value::List(known))) => {
            Ok(NameLookup::Unknown(known.iter().filter_map(Value::as_str).map(str::to_owned).collect()))
        }
        _ => Err(wrong_type(&function, "a registry entry", &answer)),
    }
}

/// An instance of a scorer class.
#[derive(Debug)]
pub(crate) struct ClassScorer {
    class: Arc<Function>,
    pipeline: Dict,
    pool: Arc<Pool>,
    overridden_steps: Vec<String>,
    /// The worker of the instance, if it overrides several steps and may keep state between them.
    pin: Option<Pin>,
}

impl ClassScorer {
    /// Creates the instance once, so that wrong arguments fail before anything is sent to a model.
    pub(crate) fn new(class: &Arc<Function>, pipeline: &Dict, pool: &Arc<Pool>) -> Result<Self, HostError> {
        // Two tasks with the same scorer have separate instances.
        let id = pool.services.next_id();
        let mut pipeline = pipeline.clone();
        pipeline.insert("object", i64::try_from(id).unwrap_or(i64::MAX));
        let description = Message::new("scorer", class).with_dict("pipeline", &pipeline).ask_once(pool)?;
        let own =
            description.as_dict().and_then(|description| description.get_str("own")).and_then(Value::as_list);
        let own = own.unwrap_or_default().iter().filter_map(Value::as_str);
        let overridden_steps: Vec<String> = own.map(str::to_owned).collect();
        let pin = (!overridden_steps.is_empty()).then(Pin::default);
        Ok(Self { class: Arc::clone(class), pipeline, pool: Arc::clone(pool), overridden_steps, pin })
    }

    fn message(&self, operation: &str) -> Message<'_> {
        let message = Message::new(operation, &self.class).with_dict("pipeline", &self.pipeline);
        message.pinned(self.pin.as_ref())
    }

    fn score_some(&self, documents: &[Value], context: &Dict, batch: bool) -> Result<Vec<Value>, HostError> {
        let message = self
            .message("score")
            .with_dict("context", context)
            .with("batch", &Value::Bool(batch))
            .with_list("documents", documents, encode);
        let document = |index: usize| documents.get(index)?.as_dict()?.get_str("doc")?.as_dict();
        // A batch that fails does not identify a document.
        message.ask(&self.pool, documents.len(), |index| if batch { None } else { document(index) })
    }
}

impl HostScorer for ClassScorer {
    fn score(&self, documents: &[Value], context: &Dict, batch: bool) -> Result<Vec<Value>, HostError> {
        if batch || self.pin.is_some() {
            return self.score_some(documents, context, batch);
        }
        let batches = documents.par_chunks(BATCH).map(|some| self.score_some(some, context, false));
        Ok(batches.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    fn overridden_steps(&self) -> &[String] {
        &self.overridden_steps
    }

    fn apply_filter(&self, documents: &[Value]) -> Result<Vec<Value>, HostError> {
        let message = self.message("apply_filter").with_list("documents", documents, encode);
        message.ask(&self.pool, documents.len(), |_| None)
    }

    fn reduce(&self, scored: &[Value]) -> Result<Vec<Value>, HostError> {
        let message = self.message("reduce").with_list("scored", scored, encode);
        message.ask(&self.pool, scored.len(), |_| None)
    }

    fn aggregate(&self, reduced: &[Value], bootstrap_iters: i64) -> Result<Value, HostError> {
        let message = self.message("aggregate").with("bootstrap_iters", &Value::Int(bootstrap_iters));
        message.with_list("reduced", reduced, encode).ask_once(&self.pool)
    }

    fn higher_is_better(&self, reduced: &[Value]) -> Result<Value, HostError> {
        self.message("directions").with_list("reduced", reduced, encode).ask_once(&self.pool)
    }
}
