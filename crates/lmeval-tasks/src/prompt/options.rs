//! The caller's options for building requests.

use std::sync::Arc;

use lmeval_core::{ChatTemplate, Dialect, Splits};
use lmeval_scoring::registry::Registry;
use lmeval_scoring::{Host, NoHost};

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
    /// Whether documents that are selected by their indices keep them as ids even in a dialect that renumbers them. Logs of
    /// every dialect have the true ids.
    pub true_ids: bool,
    /// The subset of documents that this process evaluates, with examples drawn for these documents only.
    pub shard: Shard,
    /// The part of the selected documents whose requests are built. Examples are drawn for all of them, so the prompts
    /// are those of a run over all documents.
    pub part: Option<Part>,
    /// Whether the options of a question are labels, compared in one request.
    pub letters: bool,
    /// Whether built requests keep their document. Otherwise the thread that read a document also frees it, which is cheaper
    /// than leaving that to another thread.
    pub keep_documents: bool,
    /// Whether to compute the digest of the data, see [`RequestBuilder::digest`](super::RequestBuilder::digest). All
    /// selected documents are read for it, whatever the part.
    pub digest: bool,
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
            true_ids: false,
            shard: Shard::default(),
            part: None,
            letters: false,
            keep_documents: true,
            digest: false,
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

/// One of several equal parts of the documents of a run: every `count`th document.
///
/// ```
/// use lmeval_tasks::prompt::Part;
///
/// let parts: Vec<Part> = (0..3).map(|index| Part::new(index, 3).unwrap().of_task("arc_easy")).collect();
/// for position in 0..10 {
///     assert_eq!(parts.iter().filter(|part| part.has(position)).count(), 1);
/// }
/// assert_eq!(parts.iter().map(|part| part.count_in(0..10)).max(), Some(4));
/// assert!(Part::new(3, 3).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The position of the first document.
    first: usize,
    count: usize,
}

impl Part {
    /// The part at an index, from 0; `None` if there are no more than `index` parts.
    pub fn new(index: usize, count: usize) -> Option<Self> {
        (index < count).then_some(Self { first: index, count })
    }

    /// The part of one task. The first document of each task goes to another part, so that the parts are balanced even if
    /// every task has only a few.
    #[must_use]
    pub fn of_task(self, name: &str) -> Self {
        // FNV-1a: the parts must be the same in every version and on every machine.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let shift = (hash % self.count as u64) as usize;
        Self { first: (self.first + shift) % self.count, ..self }
    }

    /// Whether the document at a position among the selected ones belongs to the part.
    pub fn has(self, position: usize) -> bool {
        position % self.count == self.first
    }

    /// The number of documents of the part in a range of positions.
    pub fn count_in(self, positions: std::ops::Range<usize>) -> usize {
        let before = |end: usize| (end + self.count - 1 - self.first) / self.count;
        before(positions.end).saturating_sub(before(positions.start))
    }
}

/// The data and code that the requests of a task are built from.
#[derive(Clone, Debug)]
pub struct RequestSources {
    /// The splits of the dataset.
    pub splits: Arc<dyn Splits>,
    /// Runs the functions of the task.
    pub host: Arc<dyn Host>,
    /// The registry in which the task's names are looked up.
    pub registry: Arc<Registry>,
}

impl RequestSources {
    /// A dataset without Python, and the built-in registry.
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
