//! Judges that repeat what they said of the same answers before.

use std::sync::Arc;

use anyhow::Result;
use lmeval_analysis::read::Run;
use lmeval_core::{
    Dialect, InProcess, LocalModel, ModelError, ModelErrorKind, ModelIdentity, ModelRequest, ModelTemplate,
    ModelTraits, Response,
};
use lmeval_engine::{JournalAnswers, JudgeModel, is_judge};
use lmeval_journal::SavedAnswers;
use lmeval_pycompat::{Dict, Value};

/// A judge for each role of the run. They answer from its journal, and nothing else: an answer that was cut has not been
/// judged, and its document has no score.
pub(super) fn stored(run: &Run, dialect: Dialect) -> Result<Vec<JudgeModel>> {
    let Some(roles) = run.section("judges").filter(|roles| !roles.is_empty()) else { return Ok(Vec::new()) };
    let mut answers = Vec::new();
    if let Some(path) = run.journal() {
        for (model, _) in SavedAnswers::open(&path)?.models() {
            if is_judge(|name| model.fact(name)) {
                answers.push(JournalAnswers::new(SavedAnswers::open(&path)?, &model, dialect));
            }
        }
    }
    let judge = StoredJudge { answers: answers.into(), dialect };
    let of_role = |(role, settings): (&Value, &Value)| {
        Some(JudgeModel {
            role: role.as_str()?.into(),
            model: Arc::new(InProcess::new(judge.clone())),
            settings: settings.as_dict().cloned().unwrap_or_else(Dict::new),
            in_caller: false,
        })
    };
    Ok(roles.iter().filter_map(of_role).collect())
}

/// The stored answers of all judges of a run. A question names its judge only by its key.
#[derive(Clone)]
struct StoredJudge {
    answers: Arc<[JournalAnswers]>,
    dialect: Dialect,
}

impl std::fmt::Debug for StoredJudge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredJudge").field("journals", &self.answers.len()).finish_non_exhaustive()
    }
}

impl LocalModel for StoredJudge {
    fn traits(&self) -> ModelTraits {
        ModelTraits { is_worth_saving: false, is_lookup: true, ..ModelTraits::local() }
    }

    fn identity(&self) -> ModelIdentity {
        ModelIdentity { backend: "stored".to_owned(), facts: Vec::new() }
    }

    fn chat_template(&self, _: Option<&str>) -> Result<ModelTemplate, ModelError> {
        Ok(lmeval_models::server_template(self.dialect))
    }

    fn answer(&self, request: &ModelRequest) -> Result<Response, ModelError> {
        for answers in &*self.answers {
            let found = answers
                .find(request)
                .map_err(|error| ModelError::new(ModelErrorKind::Configuration, error.to_string()))?;
            if let Some(answer) = found {
                return Ok(answer.response);
            }
        }
        Err(ModelError::new(ModelErrorKind::Request, "The answer was not judged at this length"))
    }
}
