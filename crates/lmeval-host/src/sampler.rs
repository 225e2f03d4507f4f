//! Host functions for samplers that are Python classes.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Function, Value};
use lmeval_scoring::HostError;
use lmeval_scoring::sampler::{Draw, Drawn, Sampler, SamplerError};

use crate::message::{Message, wrong_type};
use crate::pool::Pool;
use crate::protocol::encode_dict;
use crate::services::encode_documents;

/// An instance of a Python class with the method `sample`.
///
/// Any worker can make the next draw: the state of the random generator travels with the messages.
#[derive(Debug)]
pub(crate) struct PythonSampler {
    class: Function,
    seed: Option<i64>,
    /// The state of the generator after the last draw.
    state: Value,
    /// Identifies the sampler and its documents to workers.
    id: u64,
    pool: Arc<Pool>,
}

impl PythonSampler {
    /// Imports a sampler class.
    pub(crate) fn new(class: &Function, seed: Option<i64>, pool: &Arc<Pool>) -> Result<Self, HostError> {
        Message::new("load", class).ask_once(pool)?;
        Ok(Self {
            class: class.clone(),
            seed,
            state: Value::None,
            id: pool.services.next_id(),
            pool: Arc::clone(pool),
        })
    }

    fn ask(&mut self, draw: &Draw<'_>, excluded: &[Option<&Dict>]) -> Result<Vec<Vec<usize>>, HostError> {
        let message = Message::new("sample", &self.class)
            .with("sampler", &Value::Int(self.id as i64))
            .with("seed", &Value::from(self.seed))
            .with("state", &self.state)
            .with("count", &Value::Int(draw.count as i64))
            .with_list("evaluated", excluded, |text, document| match document {
                Some(document) => encode_dict(text, document),
                None => {
                    text.push_str("null");
                    Ok(())
                }
            });
        let pool = draw.pool;
        let own = |kind: &str, _: &Dict| (kind == "pool").then(|| encode_documents(pool));
        let answers = message.ask_serving(&self.pool, 1, |_| None, &own)?;
        let answer = answers.into_iter().next().unwrap_or_default();
        let part = |name: &str| answer.as_dict().and_then(|answer| answer.get_str(name));
        let position = |value: &Value| value.as_i64().and_then(|index| usize::try_from(index).ok());
        let draws = part("draws").and_then(Value::as_list).map(|draws| {
            let positions = |draw: &Value| draw.as_list()?.iter().map(position).collect::<Option<Vec<_>>>();
            draws.iter().map(positions).collect::<Option<Vec<_>>>()
        });
        match draws.flatten() {
            Some(draws) if draws.len() == excluded.len() => {
                self.state = part("state").cloned().unwrap_or_default();
                Ok(draws)
            }
            _ => Err(wrong_type(&self.class, "positions of examples", &answer)),
        }
    }
}

impl Sampler for PythonSampler {
    fn draw(&mut self, draw: Draw<'_>) -> Drawn {
        let excluded = [draw.excluded];
        self.draw_many(draw, &excluded).pop().unwrap_or(Err(SamplerError::Empty))
    }

    fn draw_many(&mut self, draw: Draw<'_>, excluded: &[Option<&Dict>]) -> Vec<Drawn> {
        match self.ask(&draw, excluded) {
            Ok(draws) => draws.into_iter().map(Ok).collect(),
            // One failure ends the run, so it does not matter which draw gets it.
            Err(error) => vec![Err(SamplerError::Host(error))],
        }
    }
}
