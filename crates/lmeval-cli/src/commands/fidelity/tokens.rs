//! The distributions of two models, one model after the other.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, anyhow};
use lmeval_analysis::fidelity::{Measured, Store, StoreSize, Stored, measure};
use lmeval_core::{
    Distribution, DistributionPart, DistributionSink, Kept, Model, ModelError, ModelErrorKind, ModelRequest,
};
use lmeval_engine::Cancel;
use lmeval_pycompat::{Value, repr};
use sha2::{Digest as _, Sha256};

use super::requests::Requests;
use crate::printer::Notes;
use crate::progress::ProgressDisplay;
use crate::run::shard::hex;
use crate::settings::ProgressMode;
use crate::words::counted;

/// How often progress is shown, in tokens.
const STEP: usize = 256;
/// The likely tokens that are listed for a token that differs much.
const LISTED: usize = 5;

/// Why there are no distributions.
#[derive(Debug)]
pub(super) enum Refused {
    /// The model does not return them.
    Unsupported(ModelError),
    /// The models have different tokenizers.
    Tokenizers(String),
    /// The user has stopped the command.
    Stopped,
}

/// The outcome of asking a model.
pub(super) type Outcome<T> = Result<std::result::Result<T, Refused>>;

/// What is known about the tokens of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct OfRequest {
    /// The tokens of the context by the base model, and by the new one.
    pub(super) contexts: (Vec<u32>, Vec<u32>),
    /// The scored tokens.
    pub(super) scored: Vec<u32>,
    /// How the models differ in the place of each scored token.
    pub(super) measured: Vec<Measured>,
    /// Why it could not be asked.
    pub(super) failed: Option<String>,
    /// Whether the models split it into different tokens.
    pub(super) is_split_otherwise: bool,
}

/// A token whose distributions differ much.
#[derive(Clone, Debug)]
pub(super) struct Worst {
    /// The index of the request of the new model.
    pub(super) request: usize,
    pub(super) position: usize,
    pub(super) measured: Measured,
    /// The most likely tokens by the base model, and by the new one.
    pub(super) likely: [Vec<(u32, f64)>; 2],
}

/// The tokens of all requests of the new model.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    pub(super) requests: Vec<OfRequest>,
    pub(super) worst: Vec<Worst>,
    pub(super) size: StoreSize,
}

/// Asks the base model, unless the answers are in the file.
pub(super) fn of_base(
    (model, cancel): (&Arc<dyn Model>, &Cancel),
    requests: &Requests,
    kept: Kept,
    path: &Path,
    notes: &Notes,
) -> Outcome<Store> {
    let label = label(&**model, requests, kept)?;
    if let Some(store) = Store::open(path, &label)? {
        notes.info(&format!(
            "The distributions of the reference were reused from {}; `--fresh` starts over",
            path.display()
        ));
        return Ok(Ok(store));
    }
    let state = Arc::new(Mutex::new((Store::create(path, &label)?, None::<anyhow::Error>)));
    let (own, mut progress) = (Arc::clone(&state), Progress::new(notes, cancel));
    let sink: DistributionSink = Box::new(move |request, part| {
        let (store, failed) = &mut *own.lock().unwrap_or_else(PoisonError::into_inner);
        let added = match part {
            DistributionPart::Tokens { tokens, scored } => store.add_tokens(request as u32, &tokens, scored),
            DistributionPart::Token { position, logprob, distribution } => {
                let stored = Stored { logprob, distribution };
                store.add_distribution(request as u32, position as u32, &stored)
            }
            // The run has reported failures; the new model is not compared on this request.
            DistributionPart::Failed(_) => Ok(()),
        };
        *failed = failed.take().or(added.err().map(anyhow::Error::from));
        failed.is_none() && progress.advance()
    });
    let asked = ask(&**model, requests.to_model(), kept, sink);
    let (store, failed) = taken(state)?;
    if let Some(error) = failed {
        return Err(error);
    }
    if let Err(refused) = asked? {
        return Ok(Err(refused));
    }
    if cancel.is_cancelled() {
        return Ok(Err(Refused::Stopped));
    }
    let mut store = store;
    store.finish()?;
    Ok(Ok(store))
}

/// Asks the new model and compares with the stored distributions. `matched` has the index of the base model's request for each.
pub(super) fn of_new(
    (model, cancel): (&Arc<dyn Model>, &Cancel),
    (requests, base, matched): (&Requests, &Requests, Vec<Option<usize>>),
    kept: Kept,
    (store, worst): (Store, usize),
    notes: &Notes,
) -> Outcome<Tokens> {
    let same_text =
        requests.all.iter().zip(&matched).map(|(asked, of_base)| {
            of_base.is_some_and(|index| base.all[index].arguments == asked.arguments)
        });
    let comparing = Comparing {
        same_text: same_text.collect(),
        tokens: Tokens {
            requests: vec![OfRequest::default(); requests.all.len()],
            worst: Vec::new(),
            size: store.size(),
        },
        store,
        matched,
        kept: worst,
        split: None,
        failed: None,
    };
    let state = Arc::new(Mutex::new(comparing));
    let (own, mut progress) = (Arc::clone(&state), Progress::new(notes, cancel));
    let sink: DistributionSink = Box::new(move |request, part| {
        let comparing = &mut *own.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = comparing.take(request, part).err();
        comparing.failed = comparing.failed.take().or(failed);
        comparing.failed.is_none() && comparing.split.is_none() && progress.advance()
    });
    // These are not stored, so a model that computes here returns them whole.
    let kept = Kept { share: 1.0, most: usize::MAX >> 1, ..kept };
    let asked = ask(&**model, requests.to_model(), kept, sink);
    let mut comparing = taken(state)?;
    if let Some(error) = comparing.failed {
        return Err(error);
    }
    if let Some((request, what)) = comparing.split {
        let name = requests.name(request);
        return Ok(Err(Refused::Tokenizers(format!("{name}: {what}"))));
    }
    if let Err(refused) = asked? {
        return Ok(Err(refused));
    }
    if cancel.is_cancelled() {
        return Ok(Err(Refused::Stopped));
    }
    for request in &mut comparing.tokens.requests {
        request.measured.retain(|measured| !measured.base.is_nan());
    }
    Ok(Ok(comparing.tokens))
}

/// Takes the state back from the model, which no longer uses it.
fn taken<T>(state: Arc<Mutex<T>>) -> Result<T> {
    let state = Arc::into_inner(state).ok_or_else(|| anyhow!("The model still passes on distributions"))?;
    Ok(state.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Asks a model and waits for the last distribution.
fn ask(model: &dyn Model, requests: Vec<ModelRequest>, kept: Kept, sink: DistributionSink) -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let asked = runtime.block_on(async {
        model.first_contact().await?;
        model.distributions(requests, kept, sink).await
    });
    runtime.shutdown_background();
    match asked {
        Ok(()) => Ok(Ok(())),
        Err(error) if error.kind() == ModelErrorKind::Unsupported => Ok(Err(Refused::Unsupported(error))),
        Err(error) => Err(error.into()),
    }
}

/// What a file of distributions is of: the model, its requests, and how much of each distribution is kept.
fn label(model: &dyn Model, requests: &Requests, kept: Kept) -> Result<String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let identity = runtime.block_on(model.identity())?;
    let mut hash = Sha256::new();
    hash.update(format!("{identity} {kept:?}"));
    for asked in &requests.all {
        let arguments = repr::repr(&Value::list(asked.arguments.to_values(true)));
        hash.update(format!("\n{} {} {}", requests.tasks[asked.task], asked.doc_id, arguments));
    }
    Ok(hex(&hash.finalize()))
}

/// Shows how many tokens were compared.
struct Progress {
    notes: Notes,
    cancel: Cancel,
    is_shown: bool,
    parts: usize,
}

impl Progress {
    fn new(notes: &Notes, cancel: &Cancel) -> Self {
        let is_shown = ProgressDisplay::new(ProgressMode::Auto, false) == ProgressDisplay::Terminal;
        Self { notes: notes.clone(), cancel: cancel.clone(), is_shown, parts: 0 }
    }

    /// Counts a part; false if the user has stopped the command.
    fn advance(&mut self) -> bool {
        self.parts += 1;
        if self.is_shown && self.parts.is_multiple_of(STEP) {
            self.notes.status(&format!("Distributions: {}", counted(self.parts, "token")));
        }
        !self.cancel.is_cancelled()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            self.notes.status("");
        }
    }
}

/// The new model's distributions on their way to figures.
struct Comparing {
    /// Whether the requests of both models have the same text.
    same_text: Vec<bool>,
    tokens: Tokens,
    store: Store,
    matched: Vec<Option<usize>>,
    /// The number of tokens to list.
    kept: usize,
    /// A request with the same text that the models split into other tokens, and how.
    split: Option<(usize, String)>,
    failed: Option<anyhow::Error>,
}

impl Comparing {
    fn take(&mut self, request: usize, part: DistributionPart) -> Result<()> {
        let Some(of_base) = self.matched.get(request).copied().flatten() else { return Ok(()) };
        match part {
            DistributionPart::Failed(error) => {
                self.tokens.requests[request].failed = Some(error.to_string());
            }
            DistributionPart::Tokens { tokens, scored } => {
                let Some((base_tokens, base_scored)) = self.store.tokens(of_base as u32)? else {
                    self.tokens.requests[request].failed =
                        Some("the reference could not be asked".to_owned());
                    return Ok(());
                };
                let (context, of_new) = tokens.split_at(tokens.len() - scored);
                let (base_context, of_base) = base_tokens.split_at(base_tokens.len() - base_scored);
                if of_new != of_base && self.same_text[request] {
                    self.split = Some((request, differing(of_base, of_new)));
                }
                let found = &mut self.tokens.requests[request];
                found.is_split_otherwise = of_new != of_base;
                found.contexts = (base_context.to_vec(), context.to_vec());
                found.scored = of_new.to_vec();
                found.measured = vec![UNKNOWN; scored];
            }
            DistributionPart::Token { position, logprob, distribution } => {
                let found = &self.tokens.requests[request];
                let is_wanted = !found.is_split_otherwise
                    && found.measured.get(position).is_some_and(|measured| measured.base.is_nan());
                if is_wanted && let Some(base) = self.store.distribution(of_base as u32, position as u32)? {
                    self.compare((request, position), &base, logprob, &distribution);
                }
            }
        }
        Ok(())
    }

    fn compare(
        &mut self,
        (request, position): (usize, usize),
        base: &Stored,
        logprob: f64,
        new: &Distribution,
    ) {
        let measured = measure(&base.distribution, new, (base.logprob, logprob));
        self.tokens.requests[request].measured[position] = measured;
        let worst = &mut self.tokens.worst;
        let place = worst.partition_point(|other| other.measured.kl >= measured.kl);
        if place < self.kept {
            let likely = [&base.distribution, new].map(|distribution| distribution.top(LISTED));
            worst.insert(place, Worst { request, position, measured, likely });
            worst.truncate(self.kept);
        }
    }
}

/// A token whose distributions are not both known yet.
const UNKNOWN: Measured = Measured {
    kl: f64::NAN,
    kl_high: f64::NAN,
    reverse: f64::NAN,
    reverse_high: f64::NAN,
    agrees: false,
    base: f64::NAN,
    new: f64::NAN,
};

/// The first difference of two lists of tokens.
pub(super) fn differing(base: &[u32], new: &[u32]) -> String {
    let same = base.iter().zip(new).take_while(|(base, new)| base == new).count();
    let shown = |tokens: &[u32]| match tokens.get(same) {
        Some(token) => format!("token {token}"),
        None => format!("the end after {}", counted(tokens.len(), "token")),
    };
    format!("at scored token {same}, the reference has {} and the other model {}", shown(base), shown(new))
}
