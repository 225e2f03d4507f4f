//! What the caller of a run says about requests.

use std::sync::Arc;

use lmeval_core::registry::Registry;
use lmeval_core::{ChatTemplate, Dialect, Host, NoHost, Splits};

/// The few-shot seed where none is given.
pub const DEFAULT_FEWSHOT_SEED: i64 = 1234;

/// How the requests of a task are built.
#[derive(Clone, Debug)]
pub struct RequestOptions {
    /// The rules where the two lines of the harness differ.
    pub dialect: Dialect,
    /// The seed of the examples; `None` draws differently in each run.
    pub fewshot_seed: Option<i64>,
    /// Text before everything else.
    pub system_instruction: Option<String>,
    /// The chat template of the model, where prompts are conversations.
    pub chat_template: Option<Arc<dyn ChatTemplate>>,
    /// Whether, in a conversation, each example is a turn of its own.
    pub fewshot_as_multiturn: bool,
    /// How many documents are evaluated: below 1 a share of them, otherwise their number.
    pub limit: Option<f64>,
    /// The documents that are evaluated, by number; `None` and an empty list mean all.
    pub samples: Option<Vec<i64>>,
    /// The part of the documents that is evaluated here.
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
    /// The process, from 0.
    pub rank: usize,
    /// The number of processes, at least 1.
    pub world_size: usize,
}

impl Default for Shard {
    fn default() -> Self {
        Self { rank: 0, world_size: 1 }
    }
}

/// What the requests of a task are built from, beside the task.
#[derive(Clone, Debug)]
pub struct RequestSources {
    /// The data set.
    pub splits: Arc<dyn Splits>,
    /// What runs the functions of the task.
    pub host: Arc<dyn Host>,
    /// What the task can name.
    pub registry: Arc<Registry>,
}

impl RequestSources {
    /// A data set, no Python and what is built in.
    pub fn new(splits: Arc<dyn Splits>) -> Self {
        Self { splits, host: Arc::new(NoHost), registry: Arc::default() }
    }

    /// Sets what runs functions.
    pub fn with_host(mut self, host: Arc<dyn Host>) -> Self {
        self.host = host;
        self
    }

    /// Sets what the task can name.
    pub fn with_registry(mut self, registry: Arc<Registry>) -> Self {
        self.registry = registry;
        self
    }
}
