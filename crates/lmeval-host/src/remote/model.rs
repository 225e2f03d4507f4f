//! The model that the workers of a run form.

use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lmeval_core::work_queue::in_order;
use lmeval_core::{
    Answer, AnswerSink, ChatError, ChatMessage, ChatTemplate, Context, Level, Model, ModelError,
    ModelErrorKind, ModelFacts, ModelFuture, ModelIdentity, ModelRequest, ModelStats, ModelTemplate,
    ModelTraits,
};

use super::pool::{PoolOptions, PoolState, WorkerNotes};
use super::wire::{Description, ToWorker, request_json};

/// Requests per batch. Prefixes are shared within a batch.
const REQUESTS: usize = 8192;
/// Batches in flight, so that all workers have requests while the last ones of a batch are being answered.
const BATCHES: usize = 4;
/// Bytes of prompts per batch.
const BATCH_BYTES: usize = 32 << 20;
/// How long to wait for a full batch.
const FILL_TIME: Duration = Duration::from_secs(1);

/// A model in workers that connect over the network.
///
/// Workers may come and go at any time. The requests of a worker that leaves, dies or stalls return to the queue.
#[derive(Debug)]
pub struct WorkerPool {
    shared: Arc<PoolState>,
    description: Description,
    accepting: Option<JoinHandle<()>>,
}

impl WorkerPool {
    /// Listens, and waits for the first worker, which describes the model.
    pub fn listen(options: PoolOptions, note: WorkerNotes) -> Result<Self, ModelError> {
        let listen = options.listen.clone();
        let bound = TcpListener::bind(&listen).and_then(|listener| {
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        });
        let (listener, address) = bound.map_err(|error| {
            let message = format!("Cannot listen on `{listen}`: {error}");
            ModelError::new(ModelErrorKind::Configuration, message)
                .hint("Choose another address with `--workers listen=HOST:PORT`; port 0 means any free one")
        })?;
        let tls = if options.tls.is_some() { " --tls_ca FILE" } else { "" };
        note(
            Level::Info,
            &format!(
                "Waiting for workers at {address}: `lm-eval worker --connect {address} --token_file FILE{tls}`"
            ),
        );
        let shared = Arc::new(PoolState::new(options, note));
        let accepting = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.accept(&listener))
        };
        match shared.first_description() {
            Ok(description) => Ok(Self { shared, description, accepting: Some(accepting) }),
            Err(error) => {
                shared.stop();
                Err(error)
            }
        }
    }
}

/// Renders conversations in a worker.
#[derive(Debug)]
struct WorkerTemplate(Arc<PoolState>);

impl ChatTemplate for WorkerTemplate {
    fn apply(&self, messages: Vec<ChatMessage>, add_generation_prompt: bool) -> Result<Context, ChatError> {
        let render = |id| ToWorker::Render { id, messages: messages.clone(), add_generation_prompt };
        let rendered = self.0.ask(render)?;
        Context::from_exact_value(&rendered)
            .ok_or_else(|| "A worker sent something that is not a prompt".into())
    }
}

impl Model for WorkerPool {
    fn identity(&self) -> ModelFuture<'_, Result<ModelIdentity, ModelError>> {
        Box::pin(async { Ok(self.description.identity.clone()) })
    }

    fn chat_template(&self, name: Option<&str>) -> Result<ModelTemplate, ModelError> {
        let source = self.shared.ask(|id| ToWorker::Template { id, name: name.map(str::to_owned) })?;
        let template = Arc::new(WorkerTemplate(Arc::clone(&self.shared)));
        Ok(ModelTemplate { template, source: source.as_str().map(str::to_owned) })
    }

    fn traits(&self) -> ModelTraits {
        ModelTraits {
            batch_size: REQUESTS,
            batch_bytes: BATCH_BYTES,
            in_flight: BATCHES,
            fill_time: FILL_TIME,
            option_scoring: self.description.option_scoring,
            reasons: self.description.reasons,
            depends_on_document: self.description.depends_on_document,
            is_worth_saving: self.description.is_worth_saving,
            takes_media: self.description.takes_media,
            ..ModelTraits::default()
        }
    }

    fn facts(&self) -> ModelFacts {
        self.description.facts.clone()
    }

    fn stats(&self) -> Option<&ModelStats> {
        Some(self.shared.stats())
    }

    fn wind_down(&self) {
        self.shared.stop();
    }

    fn answer(&self, requests: Vec<ModelRequest>) -> ModelFuture<'_, Vec<Result<Answer, ModelError>>> {
        in_order(self, requests)
    }

    fn answer_each(&self, requests: Vec<ModelRequest>, sink: AnswerSink) -> ModelFuture<'_, ()> {
        let serialise = |request: &ModelRequest| {
            request_json(request).map_err(|message| ModelError::new(ModelErrorKind::Request, message))
        };
        Box::pin(self.shared.queue().answer_each(requests, sink, serialise))
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        self.shared.stop();
        self.shared.dismiss();
        if let Some(accepting) = self.accepting.take() {
            // A panicked thread needs no cleanup.
            let _ = accepting.join();
        }
    }
}
