//! Queries of the model before its first request.

use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use lmeval_core::{Model, ModelError, ModelErrorKind, ModelIdentity, OutputType};
use tokio::runtime::Runtime;

use crate::cancel::Cancel;
use crate::error::EngineError;
use crate::judging::as_judge;
use crate::plan::PlannedTask;

/// How often cancellation is checked while waiting for the model.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Waits for answers of the model.
pub(crate) struct Contact<'a> {
    pub(crate) runtime: &'a Runtime,
    pub(crate) cancel: &'a Cancel,
    /// For the error of an interrupted run.
    pub(crate) journal: Option<&'a Path>,
}

impl Contact<'_> {
    /// Waits for an answer of the model. Avoids `block_on`, because the caller may be inside a runtime.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        query: impl Future<Output = Result<T, ModelError>> + Send + 'static,
    ) -> Result<T, EngineError> {
        let (answer, answered) = mpsc::channel();
        self.runtime.spawn(async move {
            // Fails only if the run was cancelled meanwhile.
            let _ = answer.send(query.await);
        });
        loop {
            match answered.recv_timeout(POLL_INTERVAL) {
                Ok(found) => return Ok(found?),
                Err(RecvTimeoutError::Timeout) if self.cancel.is_cancelled() => {
                    let journal = self.journal.map(Path::to_owned);
                    return Err(EngineError::Interrupted { answered: 0, journal });
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let message = "The model panicked while reporting its identity";
                    return Err(ModelError::new(ModelErrorKind::Capability, message).into());
                }
            }
        }
    }
}

/// The kinds of requests that the tasks of a run make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) loglikelihoods: bool,
    /// Generations and rolling log-likelihoods.
    pub(crate) others: bool,
}

impl Needs {
    /// Judges only generate.
    pub(crate) const JUDGE: Self = Self { loglikelihoods: false, others: true };

    pub(crate) fn of(planned: &[PlannedTask]) -> Self {
        let mut needs = Self { loglikelihoods: false, others: false };
        for PlannedTask { task, .. } in planned {
            let makes_any = task.class_task().is_some_and(|class| class.makes_requests());
            let scores =
                matches!(task.config.output_type, OutputType::Loglikelihood | OutputType::MultipleChoice);
            needs.loglikelihoods |= scores || makes_any;
            needs.others |= !scores || makes_any;
        }
        needs
    }
}

/// The model's description of itself.
#[derive(Clone, Debug)]
pub(crate) struct Introduction {
    pub(crate) identity: ModelIdentity,
    /// The protocol of log-likelihoods; `None` is the default one.
    pub(crate) protocol: Option<String>,
}

impl Introduction {
    /// The introduction of a judge, whose answers are saved apart from those of an evaluated model.
    pub(crate) fn of_judge(self) -> Self {
        Self { identity: as_judge(self.identity), ..self }
    }
}

/// Contacts the model for the first time, and settles how it obtains log-likelihoods if tasks need any.
pub(crate) async fn introduce(model: &dyn Model, needs: Needs) -> Result<Introduction, ModelError> {
    model.first_contact().await?;
    let identity = model.identity().await?;
    let protocol = if needs.loglikelihoods { model.scoring_protocol().await? } else { None };
    Ok(Introduction { identity, protocol })
}

/// The same for a run that saves no answers, so that the identity does not matter.
pub(crate) async fn prepare(model: Arc<dyn Model>, needs: Needs) -> Result<(), ModelError> {
    model.first_contact().await?;
    if needs.loglikelihoods {
        model.scoring_protocol().await?;
    }
    Ok(())
}
