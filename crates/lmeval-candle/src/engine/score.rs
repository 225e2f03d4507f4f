//! Scoring: the log-probability of the end of a text.

use candle_core::Tensor;

use super::Engine;
use super::head::summarise;
use super::trie::Trie;
use crate::batch::{Segment, Span};
use crate::cache::Cache;
use crate::error::{Error, Result};

/// Rows of logits that are made at once on a processor.
const CPU_HEAD_ROWS: usize = 256;
/// How large the logits are that other devices make at once.
const DEVICE_HEAD_BYTES: usize = 512 << 20;

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
    /// Rows of logits that are made at once.
    fn head_rows(&self) -> usize {
        if self.device.is_cpu() {
            return CPU_HEAD_ROWS;
        }
        let fitting = DEVICE_HEAD_BYTES / (self.model.shape().vocabulary * size_of::<f32>()).max(1);
        fitting.clamp(1, self.rows())
    }

    /// Scores texts, until the work is ended; what came of each text is handed over as soon as it is known, in any order.
    ///
    /// Only what concerns all texts is an error of the whole; a text that there is too little memory for has its own.
    pub(crate) fn score(
        &self,
        requests: &[ScoreRequest],
        deliver: &mut dyn FnMut(usize, Result<Score>),
    ) -> Result<()> {
        self.enter()?;
        for (class, members) in self.classes(requests.iter().map(|request| request.tokens.len() - 1)) {
            let mut members: Vec<(usize, &ScoreRequest)> =
                members.into_iter().map(|index| (index, &requests[index])).collect();
            // Texts that begin in the same way stand together, also where a pass does not take all of them.
            members.sort_by(|(_, a), (_, b)| a.tokens.cmp(&b.tokens));
            // How many texts a pass takes at most; one where there is no memory for the smallest passes of several.
            let mut most = usize::MAX;
            while !members.is_empty() {
                let mut scored = 0;
                let fits = |(_, request): &&(usize, &ScoreRequest)| {
                    scored += request.scored;
                    scored <= self.scored
                };
                let count = members.iter().take(most).take_while(fits).count().max(1);
                let later = members.split_off(count);
                let mut pass = Pass::new(self, &members, class);
                let failed = match pass.work(deliver) {
                    Err(error) if error.is_out_of_memory() => Some(error),
                    other => other.map(|()| None)?,
                };
                let left = pass.left();
                members = match failed {
                    // There is less to do at once from now on.
                    Some(_) if self.shrink_rows() => left,
                    Some(_) if count > 1 => {
                        most = 1;
                        left
                    }
                    Some(error) => {
                        for (index, _) in left {
                            deliver(index, Err(error.too_large()));
                        }
                        // The others may be smaller.
                        most = usize::MAX;
                        self.restore();
                        Vec::new()
                    }
                    None => left,
                };
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
    /// How many texts each node is a part of.
    users: Vec<usize>,
    /// For each node the one behind the last that is below it.
    last: Vec<usize>,
    /// Rows of the cache by node, as long as they are needed.
    spans: Vec<Vec<Span>>,
}

impl<'a, 'r> Pass<'a, 'r> {
    fn new(engine: &'a Engine, requests: &'a [(usize, &'r ScoreRequest)], class: usize) -> Self {
        let inputs: Vec<&[u32]> = requests.iter().map(|(_, request)| request.input()).collect();
        let trie = Trie::new(&inputs, engine.shortest(), engine.rows());
        let mut users = vec![0; trie.nodes.len()];
        let mut wants = vec![Vec::new(); trie.nodes.len()];
        let mut progress = Vec::with_capacity(requests.len());
        for (index, (_, request)) in requests.iter().enumerate() {
            let first = inputs[index].len() - request.scored;
            trie.path(index).for_each(|node| users[node] += 1);
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
        Self { engine, requests, class, trie, wants, progress, users, last, spans }
    }

    /// The texts that are not done.
    fn left(&self) -> Vec<(usize, &'r ScoreRequest)> {
        let missing = self.progress.iter().map(|progress| progress.missing);
        let texts = self.requests.iter().zip(missing);
        texts.filter(|(_, missing)| *missing > 0).map(|(text, _)| *text).collect()
    }

    /// Scores the texts.
    fn work(&mut self, deliver: &mut dyn FnMut(usize, Result<Score>)) -> Result<()> {
        let longest = self.trie.nodes.iter().map(|node| node.end).max().unwrap_or(0);
        let mut guard = self.engine.cache(longest + self.engine.rows(), longest)?;
        let Some(cache) = guard.as_mut() else { return Ok(()) };
        let mut first = 0;
        let mut held = Vec::new();
        while first < self.trie.nodes.len() {
            self.engine.check()?;
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
        deliver: &mut dyn FnMut(usize, Result<Score>),
    ) -> Result<()> {
        let mut tokens = Vec::new();
        let mut segments = Vec::new();
        // Rows of the batch that are read, and what is read off them.
        let mut rows: Vec<u32> = Vec::new();
        let mut wants: Vec<(usize, Want)> = Vec::new();
        for &node in nodes {
            let bounds = &self.trie.nodes[node];
            let spans = self.trie.spans(node, &self.spans);
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
        let hidden = self.engine.forward(&tokens, segments, cache)?;
        let asked = nodes.iter().map(|node| self.users[*node] * self.trie.nodes[*node].len());
        self.engine.count(asked.sum(), 0);
        let mut results = Vec::with_capacity(wants.len());
        let mut wanted = wants.as_slice();
        let most = self.engine.head_rows();
        for (index, chunk) in rows.chunks(most).enumerate() {
            let base = index * most;
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
                deliver(self.requests[want.request].0, Ok(score));
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
            .score(requests, &mut |index, score| {
                assert!(scores[index].replace(score.unwrap()).is_none(), "{index} came twice");
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
                    if engine.device.is_cpu() {
                        assert_eq!(alone, together, "{name}, {index}");
                    }
                    // GPUs add products of matrices of other sizes up in another order.
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
        // Only those fail that are too large by themselves.
        let small = requests.iter().filter(|request| request.tokens.len() <= 40).count();
        let mut done = [0, 0];
        let count = |_, score: Result<Score>| {
            if let Err(error) = &score {
                assert!(error.to_string().contains("too little memory"), "{error}");
            }
            done[usize::from(score.is_ok())] += 1;
        };
        scarce("llama", 39).score(&requests, &mut { count }).unwrap();
        assert_eq!(done, [requests.len() - small, small]);
    }

    #[test]
    fn a_run_that_ends_stops() {
        let engine = engine("llama", 64, None);
        let request = ScoreRequest { tokens: vec![1, 2, 3], scored: 1 };
        engine.end();
        let error = engine.score(&[request], &mut |_, _| {}).unwrap_err();
        assert!(matches!(error, Error::Ended));
    }
}
