//! Answering a batch of requests through a queue.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc::channel;

use super::queue::{Item, Queue};
use super::sink::{Sink, unanswered};
use crate::{Answer, AnswerSink, Model, ModelError, ModelFuture, ModelRequest};

impl Queue {
    /// Adds the requests of a batch and waits until workers have answered all of them. A request that cannot be
    /// serialised fails alone.
    pub async fn answer_each(
        &self,
        requests: Vec<ModelRequest>,
        sink: AnswerSink,
        serialise: impl Fn(&ModelRequest) -> Result<String, ModelError>,
    ) {
        let sink = Arc::new(Sink::new(sink, requests.len()));
        let (open, mut done) = channel(1);
        let mut items = Vec::with_capacity(requests.len());
        for (index, request) in requests.iter().enumerate() {
            match serialise(request) {
                Ok(json) => items.push(Item::new(json, index, &sink, &open)),
                Err(error) => sink.deliver(index, Err(error)),
            }
        }
        drop((requests, open));
        self.add(items);
        // Nothing is ever sent: the channel closes when the last request is answered.
        let _ = done.recv().await;
    }
}

/// Collects the answers of [`Model::answer_each`] in the order of the requests.
pub fn in_order(
    model: &dyn Model,
    requests: Vec<ModelRequest>,
) -> ModelFuture<'_, Vec<Result<Answer, ModelError>>> {
    Box::pin(async move {
        let answers = Arc::new(Mutex::new(vec![None; requests.len()]));
        let slots = Arc::clone(&answers);
        let sink = move |index: usize, answer| {
            if let Some(slot) = slots.lock().unwrap_or_else(PoisonError::into_inner).get_mut(index) {
                *slot = Some(answer);
            }
        };
        model.answer_each(requests, Box::new(sink)).await;
        let answers = std::mem::take(&mut *answers.lock().unwrap_or_else(PoisonError::into_inner));
        answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(unanswered()))).collect()
    })
}
