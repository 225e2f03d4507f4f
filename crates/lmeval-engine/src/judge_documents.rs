//! Documents that judges grade: their questions, and the verdicts so far.

use std::sync::Arc;

use lmeval_core::{Answer, Response};
use lmeval_scoring::judge::{JudgeCall, Judgement};
use lmeval_scoring::scorers::{AnsweredDocument, TaskScorer};

use crate::error::EngineError;
use crate::judging::{Baseline, JudgeModel, JudgePool};
use crate::plan::PlannedTask;
use crate::produce::Slot;

/// A question in flight, or answered.
struct Asked {
    call: JudgeCall,
    /// How often it was asked.
    attempts: usize,
    judgement: Option<Judgement>,
}

/// An answered document that waits for judges.
pub(crate) struct Judging {
    pub(crate) answered: Box<AnsweredDocument>,
    asked: Vec<Asked>,
    /// The number of questions without an outcome.
    pub(crate) open: usize,
}

impl Judging {
    /// The document with its judgements.
    pub(crate) fn finish(self) -> AnsweredDocument {
        let mut answered = *self.answered;
        answered.judgements = self.asked.into_iter().filter_map(|asked| asked.judgement).collect();
        answered
    }
}

/// How each task is judged.
#[derive(Default)]
pub(crate) struct TaskJudges {
    /// By task: its key, and what makes its questions.
    tasks: Vec<(String, Option<TaskScorer>)>,
    baseline: Option<Arc<Baseline>>,
    pool: Option<Arc<JudgePool>>,
}

impl TaskJudges {
    /// Takes what makes questions from the plan.
    pub(crate) fn new(
        planned: &mut [PlannedTask],
        judges: &[JudgeModel],
        baseline: Option<&Arc<Baseline>>,
        pool: &Arc<JudgePool>,
    ) -> Self {
        if judges.is_empty() {
            return Self::default();
        }
        Self {
            tasks: planned.iter_mut().map(|planned| (planned.key.clone(), planned.judging.take())).collect(),
            baseline: baseline.cloned(),
            pool: Some(Arc::clone(pool)),
        }
    }

    /// Whether the run has no judges.
    pub(crate) fn is_empty(&self) -> bool {
        self.pool.is_none()
    }

    /// Asks the judges about an answered document. Without questions, nothing is open.
    pub(crate) fn start(&mut self, slot: Slot, answered: AnsweredDocument) -> Result<Judging, EngineError> {
        let answered = Box::new(answered);
        let (Some((key, Some(scorer))), Some(pool)) = (self.tasks.get_mut(slot.task), &self.pool) else {
            return Ok(Judging { answered, asked: Vec::new(), open: 0 });
        };
        let baseline = self.baseline.as_deref();
        let find = |pipeline: &str| baseline?.answer(key, answered.doc_id, pipeline);
        let calls = scorer
            .judge_calls(&answered, find)
            .map_err(|source| EngineError::Score { task: key.clone(), source: Box::new(source) })?;
        let about = about(&answered);
        for (index, call) in calls.iter().enumerate() {
            pool.send(call, 0, Slot { instance: index, repeat: 0, ..slot }, (&about, answered.doc_id))?;
        }
        let open = calls.len();
        let asked = calls.into_iter().map(|call| Asked { call, attempts: 1, judgement: None });
        Ok(Judging { answered, asked: asked.collect(), open })
    }

    /// Records the answer to a question; `None` if the request failed permanently. Asks again if there is no verdict and the
    /// task says so.
    pub(crate) fn settle(
        &mut self,
        judging: &mut Judging,
        slot: Slot,
        answer: Option<&Answer>,
    ) -> Result<(), EngineError> {
        let Some(asked) = judging.asked.get_mut(slot.instance).filter(|asked| asked.judgement.is_none())
        else {
            return Ok(());
        };
        let judgement = match answer {
            None => Judgement::failed(&asked.call, asked.attempts),
            Some(answer) => {
                if let Some(pool) = &self.pool {
                    pool.count(&asked.call.role, answer);
                }
                let text = match &answer.response {
                    Response::Text(text) => text,
                    _ => "",
                };
                asked.call.spec.judgement(&asked.call, text, asked.attempts)
            }
        };
        if answer.is_some()
            && judgement.value.is_none()
            && asked.call.spec.asks_again(asked.attempts)
            && let Some(pool) = &self.pool
        {
            let about = (&about(&judging.answered), judging.answered.doc_id);
            pool.send(&asked.call, asked.attempts, slot, about)?;
            asked.attempts += 1;
            return Ok(());
        }
        asked.judgement = Some(judgement);
        judging.open -= 1;
        Ok(())
    }
}

/// The task of a document as requests name it.
fn about(document: &AnsweredDocument) -> Arc<str> {
    document.answers.first().map_or_else(|| Arc::from(""), |answer| Arc::clone(&answer.instance.task_name))
}
