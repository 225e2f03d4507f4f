//! The caller's options for building requests.

use std::sync::Arc;

use lmeval_core::registry::Registry;
use lmeval_core::{ChatTemplate, Dialect, Host, NoHost, Splits};

/// The default few-shot seed.
pub const DEFAULT_FEWSHOT_SEED: i64 = 1234;

/// Options for building the requests of a task.
#[derive(Clone, Debug)]
pub struct RequestOptions {
    /// Which release of the harness to follow where they differ.
    pub dialect: Dialect,
    /// The few-shot seed; `None` draws differently in each run.
    pub fewshot_seed: Option<i64>,
    /// Precedes everything else in the prompt.
    pub system_instruction: Option<String>,
    /// The chat template of the model, if prompts are conversations.
    pub chat_template: Option<Arc<dyn ChatTemplate>>,
    /// Whether each example is a separate turn of the conversation.
    pub fewshot_as_multiturn: bool,
    /// The number of documents to evaluate, or a fraction if below 1.
    pub limit: Option<f64>,
    /// Indices of the documents to evaluate; `None` or an empty list means all.
    pub samples: Option<Vec<i64>>,
    /// The subset of documents that this process evaluates.
    pub shard: Shard,
}

impl Default for RequestOptions {
    fn default() -> Self {
        Self {
            dialect: Dialect::default(),
            fewshot_seed: Some(DEFAULT_FEWSHOT_SEED),
            system_instruction: None,
            chat_template: None,
            fewshot_as_multiturn: false,
            limit: None,
            samples: None,
            shard: Shard::default(),
        }
    }
}

/// One of several processes that share the documents of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The index of the process, from 0.
    pub rank: usize,
    /// The number of processes, at least 1.
    pub world_size: usize,
}

impl Default for Shard {
    fn default() -> Self {
        Self { rank: 0, world_size: 1 }
    }
}

/// The data and code that the requests of a task are built from.
#[derive(Clone, Debug)]
pub struct RequestSources {
    /// The splits of the data set.
    pub splits: Arc<dyn Splits>,
    /// Runs the functions of the task.
    pub host: Arc<dyn Host>,
    /// The registry in which the task's names are looked up.
    pub registry: Arc<Registry>,
}

impl RequestSources {
    /// A data set without Python, and the built-in registry.
    pub fn new(splits: Arc<dyn Splits>) -> Self {
        Self { splits, host: Arc::new(NoHost), registry: Arc::default() }
    }

    /// Sets the host that runs functions.
    pub fn with_host(mut self, host: Arc<dyn Host>) -> Self {
        self.host = host;
        self
    }

    /// Sets the registry in which the task's names are looked up.
    pub fn with_registry(mut self, registry: Arc<Registry>) -> Self {
        self.registry = registry;
        self
    }
}
