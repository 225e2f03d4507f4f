//! Scoring: the log-probability of the end of a text.

use std::sync::atomic::{AtomicBool, Ordering};

use candle_core::Tensor;

use super::Engine;
use super::head::summarise;
use super::trie::Trie;
use crate::batch::{Batch, Segment, Span};
use crate::cache::Cache;
use crate::error::{Error, Result};

/// Rows of logits that are made at once.
const HEAD_ROWS: usize = 256;

/// A text whose last tokens are scored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScoreRequest {
    /// All tokens. There is at least one before those that are scored.
    pub(crate) tokens: Vec<u32>,
    /// How many of the last ones are scored, at least one.
    pub(crate) scored: usize,
}

impl ScoreRequest {
    /// What goes through the model: the last token is only looked for.
    fn input(&self) -> &[u32] {
        &self.tokens[..self.tokens.len() - 1]
    }
}

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Score {
    /// The sum of the log-probabilities.
    pub(crate) logprob: f64,
    /// Whether each token is the most likely one.
    pub(crate) is_greedy: bool,
}

/// What is read off a row of a node.
#[derive(Clone, Copy, Debug)]
struct Want {
    row: usize,
    request: usize,
    /// Which of the request's scored tokens it is.
    place: usize,
    token: u32,
}

/// What is known of a request so far.
struct Progress {
    missing: usize,
    /// By place; they are added in order, so that no sum depends on how texts went through the model.
    logprobs: Vec<f64>,
    is_greedy: bool,
}

impl Engine {
    /// Scores texts, until `is_ending` is set. What came of each is handed over as soon as it is known, in any order.
    pub(crate) fn score(
        &self,
        requests: &[ScoreRequest],
        is_ending: &AtomicBool,
        deliver: &mut dyn FnMut(usize, Score),
    ) -> Result<()> {
        self.count(requests.iter().map(|request| request.tokens.len() - 1).sum(), 0);
        for (class, members) in self.classes(requests.iter().map(|request| request.tokens.len() - 1)) {
            let mut members: Vec<(usize, &ScoreRequest)> =
                members.into_iter().map(|index| (index, &requests[index])).collect();
            // Texts that begin in the same way stand together, also where a pass does not take all of them.
            members.sort_by(|(_, a), (_, b)| a.tokens.cmp(&b.tokens));
            while !members.is_empty() {
                let mut scored = 0;
                let fits = |(_, request): &&(usize, &ScoreRequest)| {
                    scored += request.scored;
                    scored <= self.scored
                };
                let count = members.iter().take_while(fits).count().max(1);
                let later = members.split_off(count);
                members = Pass::new(self, &members, class).run(is_ending, deliver)?;
                members.extend(later);
            }
        }
        Ok(())
    }
}

/// A trie of texts on its way through the model.
struct Pass<'a, 'r> {
    engine: &'a Engine,
    requests: &'a [(usize, &'r ScoreRequest)],
    /// The length of the texts where it matters, else 0.
    class: usize,
    trie: Trie,
    wants: Vec<Vec<Want>>,
    progress: Vec<Progress>,
    /// For each node the one behind the last that is below it.
    last: Vec<usize>,
    /// Rows of the cache by node, as long as they are needed.
    spans: Vec<Vec<Span>>,
}

impl<'a, 'r> Pass<'a, 'r> {
    fn new(engine: &'a Engine, requests: &'a [(usize, &'r ScoreRequest)], class: usize) -> Self {
        let inputs: Vec<&[u32]> = requests.iter().map(|(_, request)| request.input()).collect();
        let trie = Trie::new(&inputs, engine.shortest(), engine.rows());
        let mut wants = vec![Vec::new(); trie.nodes.len()];
        let mut progress = Vec::with_capacity(requests.len());
        for (index, (_, request)) in requests.iter().enumerate() {
            let first = inputs[index].len() - request.scored;
            for node in trie.path(index) {
                let bounds = &trie.nodes[node];
                if bounds.end <= first {
                    break;
                }
                for position in first.max(bounds.start)..bounds.end {
                    let token = request.tokens[position + 1];
                    let row = position - bounds.start;
                    wants[node].push(Want { row, request: index, place: position - first, token });
                }
            }
            let missing = request.scored;
            progress.push(Progress { missing, logprobs: vec![0.0; missing], is_greedy: true });
        }
        let mut last: Vec<usize> = (1..=trie.nodes.len()).collect();
        for node in (0..trie.nodes.len()).rev() {
            if let Some(parent) = trie.nodes[node].parent {
                last[parent] = last[parent].max(last[node]);
            }
        }
        let spans = vec![Vec::new(); trie.nodes.len()];
        Self { engine, requests, class, trie, wants, progress, last, spans }
    }

    /// Scores the texts; those are returned that there was too little memory for, to be tried in smaller parts.
    fn run(
        mut self,
        is_ending: &AtomicBool,
        deliver: &mut dyn FnMut(usize, Score),
    ) -> Result<Vec<(usize, &'r ScoreRequest)>> {
        match self.work(is_ending, deliver) {
            Err(error) if error.is_out_of_memory() && self.engine.shrink() => {}
            other => other?,
        }
        let missing = self.progress.iter().map(|progress| progress.missing);
        Ok(self
            .requests
            .iter()
            .zip(missing)
            .filter(|(_, missing)| *missing > 0)
            .map(|(text, _)| *text)
            .collect())
    }

    fn work(&mut self, is_ending: &AtomicBool, deliver: &mut dyn FnMut(usize, Score)) -> Result<()> {
        let longest = self.trie.nodes.iter().map(|node| node.end).max().unwrap_or(0);
        let mut guard = self.engine.cache(longest + self.engine.rows(), longest)?;
        let Some(cache) = guard.as_mut() else { return Ok(()) };
        let mut first = 0;
        let mut held = Vec::new();
        while first < self.trie.nodes.len() {
            if is_ending.load(Ordering::Relaxed) {
                return Err(Error::Ended);
            }
            let end = self.gather(first, cache)?;
            for wave in self.waves(first, end) {
                self.compute(&wave, cache, deliver)?;
            }
            held.extend(first..end);
            held.retain(|node: &usize| {
                let is_needed = self.last[*node] > end;
                if !is_needed {
                    cache.give_back(std::mem::take(&mut self.spans[*node]));
                }
                is_needed
            });
            first = end;
        }
        Ok(())
    }

    /// Takes rows for the nodes of the next pass; the node behind the last of them.
    fn gather(&mut self, first: usize, cache: &mut Cache) -> Result<usize> {
        let texts = self.engine.texts.unwrap_or(usize::MAX);
        let mut rows = 0;
        let mut end = first;
        while let Some(node) = self.trie.nodes.get(end) {
            if end > first && (rows + node.len() > self.engine.rows() || end - first >= texts) {
                break;
            }
            let Some(spans) = cache.take(node.len()) else { break };
            self.spans[end] = spans;
            rows += node.len();
            end += 1;
        }
        if end == first {
            return Err(Error::unsupported("The key/value cache has no room for the next text"));
        }
        Ok(end)
    }

    /// The nodes of a pass as they are computed at once.
    ///
    /// A processor takes all: each segment costs what it has. Other devices fill segments up to the longest one, so
    /// they get nodes of about the same length that are not below each other.
    fn waves(&self, first: usize, end: usize) -> Vec<Vec<usize>> {
        if self.engine.device.is_cpu() {
            return vec![(first..end).collect()];
        }
        let mut levels: Vec<Vec<usize>> = Vec::new();
        let mut depths = vec![0; end - first];
        for node in first..end {
            let parent = self.trie.nodes[node].parent.filter(|parent| *parent >= first);
            let depth = parent.map_or(0, |parent| depths[parent - first] + 1);
            depths[node - first] = depth;
            if depth == levels.len() {
                levels.push(Vec::new());
            }
            levels[depth].push(node);
        }
        let length = |node: &usize| self.trie.nodes[*node].len();
        let mut waves = Vec::new();
        for mut level in levels {
            level.sort_by_key(|node| std::cmp::Reverse(length(node)));
            while let Some(longest) = level.first().map(length) {
                let shorter = level.split_off(level.partition_point(|node| length(node) * 2 > longest));
                waves.push(std::mem::replace(&mut level, shorter));
            }
        }
        waves
    }

    fn compute(
        &mut self,
        nodes: &[usize],
        cache: &Cache,
        deliver: &mut dyn FnMut(usize, Score),
    ) -> Result<()> {
        let mut tokens = Vec::new();
        let mut segments = Vec::new();
        // Rows of the batch that are read, and what is read off them.
        let mut rows: Vec<u32> = Vec::new();
        let mut wants: Vec<(usize, Want)> = Vec::new();
        for &node in nodes {
            let bounds = &self.trie.nodes[node];
            let mut above: Vec<usize> = self.trie.above(node).collect();
            above.reverse();
            let spans = above.into_iter().flat_map(|node| self.spans[node].iter().copied()).collect();
            let start = tokens.len();
            segments.push(Segment {
                first: start,
                len: bounds.len(),
                offset: bounds.start,
                spans,
                length: self.class,
            });
            tokens.extend_from_slice(&self.requests[bounds.text].1.tokens[bounds.start..bounds.end]);
            let mut own = self.wants[node].clone();
            own.sort_by_key(|want| want.row);
            for want in own {
                let row = (start + want.row) as u32;
                if rows.last() != Some(&row) {
                    rows.push(row);
                }
                wants.push((rows.len() - 1, want));
            }
        }
        let batch = Batch::new(&tokens, segments, &self.engine.device)?;
        let hidden = self.engine.model.forward(&batch, cache)?;
        self.engine.count(0, tokens.len());
        let mut results = Vec::with_capacity(wants.len());
        let mut wanted = wants.as_slice();
        for (index, chunk) in rows.chunks(HEAD_ROWS).enumerate() {
            let base = index * HEAD_ROWS;
            let count = wanted.partition_point(|(row, _)| *row < base + chunk.len());
            let (own, others) = wanted.split_at(count);
            wanted = others;
            let chunk = Tensor::new(chunk, &self.engine.device)?;
            let logits = self.engine.model.head(&hidden.index_select(&chunk, 0)?)?;
            let pairs: Vec<(usize, u32)> = own.iter().map(|(row, want)| (row - base, want.token)).collect();
            let (summaries, found) = summarise(&logits, &pairs)?;
            for ((row, token), logit) in pairs.into_iter().zip(found) {
                let summary = summaries[row];
                results.push((summary.log_probability(logit), summary.best == token));
            }
        }
        for ((_, want), (logprob, is_best)) in wants.into_iter().zip(results) {
            let progress = &mut self.progress[want.request];
            progress.logprobs[want.place] = logprob;
            progress.is_greedy &= is_best;
            progress.missing -= 1;
            if progress.missing == 0 {
                let score = Score { logprob: progress.logprobs.iter().sum(), is_greedy: progress.is_greedy };
                progress.logprobs = Vec::new();
                deliver(self.requests[want.request].0, score);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Draws, engine, scarce};
    use super::*;

    fn all(engine: &Engine, requests: &[ScoreRequest]) -> Vec<Score> {
        let mut scores = vec![None; requests.len()];
        engine
            .score(requests, &AtomicBool::new(false), &mut |index, score| {
                assert!(scores[index].replace(score).is_none(), "{index} came twice");
            })
            .unwrap();
        scores.into_iter().map(Option::unwrap).collect()
    }

    /// Documents with the same examples before them, several options each, some of them of one token.
    fn requests(draws: &mut Draws, documents: usize) -> Vec<ScoreRequest> {
        let examples = draws.tokens(37, 100);
        let mut requests = Vec::new();
        for document in 0..documents {
            let count = 1 + draws.below(9);
            let question = [examples[..37 - (document % 2) * 30].to_vec(), draws.tokens(count, 100)].concat();
            for _ in 0..=draws.below(4) {
                let scored = 1 + draws.below(if document % 3 == 0 { 1 } else { 5 });
                let option = draws.tokens(scored, 4);
                requests.push(ScoreRequest { tokens: [question.clone(), option].concat(), scored });
            }
        }
        requests
    }

    #[test]
    fn together_as_alone() {
        for name in ["llama", "gpt2", "gemma3", "qwen3_moe", "phi3_longrope", "llama_rope_dynamic"] {
            let requests = requests(&mut Draws(3), 24);
            let alone: Vec<Score> = {
                let engine = engine(name, 1024, None);
                requests.iter().map(|request| all(&engine, std::slice::from_ref(request))[0]).collect()
            };
            for (rows, texts) in [(1024, None), (64, None), (20, None), (1024, Some(3))] {
                let engine = engine(name, rows, texts);
                let together = all(&engine, &requests);
                for (index, (alone, together)) in alone.iter().zip(&together).enumerate() {
                    // Products of matrices of other sizes are added up in another order.
                    let apart = (alone.logprob - together.logprob).abs();
                    assert!(apart < 5e-5, "{name}, {index}: {alone:?} {together:?}");
                    assert_eq!(alone.is_greedy, together.is_greedy, "{name}, {index}");
                }
                // Texts that depend on their lengths share less.
                let least = if engine.model.length_boundary().is_none() { 0.66 } else { 0.2 };
                assert!(engine.stats.saved().unwrap() > least, "{name}: {:?}", engine.stats);
                let cache = engine.cache(1, 1).unwrap();
                assert_eq!(cache.as_ref().unwrap().available(), cache.as_ref().unwrap().capacity());
            }
        }
    }

    #[test]
    fn the_same_requests_give_the_same_bits() {
        let mut draws = Draws(5);
        let requests = requests(&mut draws, 12);
        let engine = engine("llama", 64, None);
        let first = all(&engine, &requests);
        assert_eq!(first, all(&engine, &requests));
        // The order of requests does not matter either.
        let reversed: Vec<ScoreRequest> = requests.iter().rev().cloned().collect();
        let mut scores = all(&engine, &reversed);
        scores.reverse();
        assert_eq!(first, scores);
    }

    #[test]
    fn what_does_not_fit_is_computed_in_parts() {
        let mut draws = Draws(9);
        let mut requests = requests(&mut draws, 12);
        requests.push(ScoreRequest { tokens: draws.tokens(700, 100), scored: 600 });
        let expected = all(&engine("llama", 1024, None), &requests);
        let mut small = engine("llama", 1024, None);
        small.scored = 20;
        let tight = scarce("llama", 300);
        for engine in [&small, &tight] {
            for (index, (found, expected)) in all(engine, &requests).iter().zip(&expected).enumerate() {
                assert!((found.logprob - expected.logprob).abs() < 1e-3, "{index}: {found:?} {expected:?}");
            }
        }
        assert_eq!((small.rows(), tight.rows()), (1024, 256));
        let none = scarce("llama", 10);
        let error = none.score(&requests, &AtomicBool::new(false), &mut |_, _| {}).unwrap_err();
        assert!(error.is_out_of_memory(), "{error}");
    }

    #[test]
    fn a_run_that_ends_stops() {
        let engine = engine("llama", 64, None);
        let request = ScoreRequest { tokens: vec![1, 2, 3], scored: 1 };
        let error = engine.score(&[request], &AtomicBool::new(true), &mut |_, _| {}).unwrap_err();
        assert!(matches!(error, Error::Ended));
    }
}
