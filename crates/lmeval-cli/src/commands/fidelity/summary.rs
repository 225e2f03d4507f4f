//! What the tokens of two models say, by task, by document and by position.

use lmeval_analysis::fidelity::{Figures, Measured, mean_and_error};
use std::collections::HashMap;

use super::Found;

/// The tokens of a document.
pub(super) struct Document {
    pub(super) task: usize,
    pub(super) doc_id: i64,
    pub(super) measured: Vec<Measured>,
    /// Where its lines start in the samples files of the base run and of the new one.
    pub(super) offsets: [u64; 2],
}

impl Document {
    /// The mean divergence of its tokens.
    pub(super) fn kl(&self) -> f64 {
        self.measured.iter().map(|measured| measured.kl).sum::<f64>() / self.measured.len() as f64
    }
}

/// The tokens of all documents, in the order of the new run.
pub(super) fn documents(found: &Found) -> Vec<Document> {
    let mut documents: Vec<Document> = Vec::new();
    let mut known: HashMap<(usize, i64), usize> = HashMap::default();
    let Some(tokens) = &found.tokens else { return documents };
    for ((asked, of_request), of_base) in found.requests.all.iter().zip(&tokens.requests).zip(&found.matched)
    {
        let Some(of_base) = of_base.filter(|_| !of_request.measured.is_empty()) else { continue };
        let offsets = [found.base_requests.all[of_base].offset, asked.offset];
        let index = *known.entry((asked.task, asked.doc_id)).or_insert_with(|| {
            documents.push(Document {
                task: asked.task,
                doc_id: asked.doc_id,
                measured: Vec::new(),
                offsets,
            });
            documents.len() - 1
        });
        documents[index].measured.extend_from_slice(&of_request.measured);
    }
    documents
}

/// The figures of each task with tokens.
pub(super) fn by_task<'a>(found: &'a Found, documents: &[Document]) -> Vec<(&'a str, Figures)> {
    let tasks = found.requests.tasks.iter().enumerate();
    let of_task = |(task, name): (usize, &'a String)| {
        let own = documents.iter().filter(|document| document.task == task);
        let own: Vec<&[Measured]> = own.map(|document| document.measured.as_slice()).collect();
        Some((name.as_str(), Figures::of(&own)?))
    };
    tasks.filter_map(of_task).collect()
}

/// The probability of the right option among the options of a question, over the questions of a task.
pub(super) struct Gold {
    pub(super) questions: usize,
    pub(super) base: f64,
    pub(super) new: f64,
    /// The standard error of the difference.
    pub(super) stderr: f64,
}

/// The probabilities of the right options, by task.
pub(super) fn gold(found: &Found) -> Vec<(&str, Gold)> {
    let mut golds = Vec::new();
    for (task, name) in found.requests.tasks.iter().enumerate() {
        let mut pairs = Vec::new();
        for question in found.requests.questions.iter().filter(|question| question.task == task) {
            let new = question.options.iter().map(|index| found.requests.all[*index].answer);
            let base = question.options.iter().map(|index| {
                let of_base = found.matched[*index]?;
                found.base_requests.all[of_base].answer
            });
            if let (Some(base), Some(new)) =
                (share(base.collect(), question.gold), share(new.collect(), question.gold))
            {
                pairs.push((base, new));
            }
        }
        if pairs.is_empty() {
            continue;
        }
        let mean = |pick: fn(&(f64, f64)) -> f64| pairs.iter().map(pick).sum::<f64>() / pairs.len() as f64;
        let differences: Vec<(f64, usize)> = pairs.iter().map(|(base, new)| (new - base, 1)).collect();
        let (_, stderr) = mean_and_error(&differences);
        let (base, new) = (mean(|pair| pair.0), mean(|pair| pair.1));
        golds.push((name.as_str(), Gold { questions: pairs.len(), base, new, stderr }));
    }
    golds
}

/// The probability of one option, given the log-likelihoods of all.
fn share(answers: Option<Vec<f64>>, gold: usize) -> Option<f64> {
    let answers = answers?;
    let largest = answers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = answers.iter().map(|answer| (answer - largest).exp()).sum();
    Some((answers.get(gold)? - largest).exp() / total).filter(|share| share.is_finite())
}

/// The tokens at some distance from the start of their sequence.
pub(super) struct Positions {
    /// The first position, and the first one after the last.
    pub(super) from: usize,
    pub(super) to: Option<usize>,
    pub(super) tokens: usize,
    pub(super) kl: f64,
}

/// Where classes of positions begin.
const BOUNDS: [usize; 5] = [0, 64, 256, 1024, 4096];

/// The mean divergence by position in the sequence: mistakes in positions or in a cache grow with it.
pub(super) fn by_position(found: &Found) -> Vec<Positions> {
    let mut sums = [(0_usize, 0.0_f64); BOUNDS.len()];
    for of_request in found.tokens.iter().flat_map(|tokens| &tokens.requests) {
        for (position, measured) in of_request.measured.iter().enumerate() {
            let at = of_request.contexts.1.len() + position;
            let class = BOUNDS.partition_point(|bound| *bound <= at) - 1;
            sums[class] = (sums[class].0 + 1, sums[class].1 + measured.kl);
        }
    }
    let classes = sums.into_iter().enumerate().filter(|(_, (tokens, _))| *tokens > 0);
    classes
        .map(|(class, (tokens, sum))| Positions {
            from: BOUNDS[class],
            to: BOUNDS.get(class + 1).copied(),
            tokens,
            kl: sum / tokens as f64,
        })
        .collect()
}
