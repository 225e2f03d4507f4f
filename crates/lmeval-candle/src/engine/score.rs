//! Scoring: log-probabilities of continuations, with shared prefixes computed once.

use candle_core::DType;

use super::head::{Summaries, summarise};
use super::trie::{Line, Trie};
use super::{BRANCHES, Engine, Room};
use crate::batch::{Segment, Span, StateUse, numbers_on};
use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::matrix::gather;

/// Rows of logits computed at once on the CPU.
const CPU_HEAD_ROWS: usize = 256;
/// Bytes of logits computed at once on GPUs, and the number of rows that products take in one tile.
const DEVICE_HEAD_BYTES: usize = 128 << 20;
const DEVICE_TILE: usize = 128;

/// A sequence whose last tokens are scored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScoreRequest {
    /// Context and continuation. The context has at least one token.
    pub(crate) tokens: Vec<u32>,
    /// The length of the continuation, at least 1.
    pub(crate) scored: usize,
    /// The number of tokens at the start that an encoder reads; 0 without one.
    pub(crate) source: usize,
}

impl ScoreRequest {
    /// The input of the model. The last token is only a target.
    fn input(&self) -> Line<'_> {
        Line { tokens: &self.tokens[..self.tokens.len() - 1], source: self.source }
    }
}

/// The result of a [`ScoreRequest`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Score {
    /// The log-probability of the continuation.
    pub(crate) logprob: f64,
    /// Whether every token of the continuation is the most likely one.
    pub(crate) is_greedy: bool,
}

/// The logits in the place of a scored token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    /// The index of the request.
    pub(crate) request: usize,
    /// The index among the request's scored tokens.
    pub(crate) index: usize,
    /// The log-probability of the token itself.
    pub(crate) logprob: f64,
    /// The logits of all tokens.
    pub(crate) logits: &'a [f32],
}

/// Receives rows of logits, some at a time and in any order. Rows may come twice if memory runs out meanwhile.
pub(crate) type Rows<'a> = &'a mut dyn FnMut(&[Row<'_>]);

/// A token to score in a row of a trie node.
#[derive(Clone, Copy, Debug)]
struct Target {
    row: usize,
    request: usize,
    /// The index among the request's scored tokens.
    index: usize,
    token: u32,
}

/// The partial result of a request.
struct Progress {
    missing: usize,
    /// By token index. Summed in order, so that the result does not depend on batching.
    logprobs: Vec<f64>,
    is_greedy: bool,
}

impl Engine {
    /// Rows of logits computed at once.
    fn head_rows(&self) -> usize {
        if self.device.is_cpu() {
            return CPU_HEAD_ROWS;
        }
        let row = self.model.shape().vocabulary * self.dtype.size_in_bytes();
        let fitting = DEVICE_HEAD_BYTES / row.max(1);
        (fitting / DEVICE_TILE * DEVICE_TILE).clamp(1, self.rows())
    }

    /// Scores requests until all are done or the engine is cancelled. `deliver` gets each result as soon as it is known, in
    /// any order.
    ///
    /// A request that does not fit into memory gets its own error; other errors fail the whole call.
    pub(crate) fn score(
        &self,
        requests: &[ScoreRequest],
        deliver: &mut dyn FnMut(usize, Result<Score>),
    ) -> Result<()> {
        self.score_rows(requests, deliver, None)
    }

    /// The same; `rows` also gets the logits in the place of each scored token.
    pub(crate) fn score_rows(
        &self,
        requests: &[ScoreRequest],
        deliver: &mut dyn FnMut(usize, Result<Score>),
        mut rows: Option<Rows<'_>>,
    ) -> Result<()> {
        self.enter()?;
        for (class, members) in self.classes(requests.iter().map(|request| request.tokens.len() - 1)) {
            let mut members: Vec<(usize, &ScoreRequest)> =
                members.into_iter().map(|index| (index, &requests[index])).collect();
            // Sorted, so that sequences with a common prefix end up in the same pass.
            members.sort_by(|(_, a), (_, b)| a.tokens.cmp(&b.tokens));
            // The maximum number of requests per pass. It drops to 1 if memory does not suffice for the smallest passes of several.
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
                let failed = match pass.work(deliver, &mut rows) {
                    Err(error) if error.is_out_of_memory() => Some(error),
                    other => other.map(|()| None)?,
                };
                let left = pass.unfinished();
                members = match failed {
                    // Retry with smaller passes.
                    Some(_) if self.shrink_rows() => left,
                    Some(_) if count > 1 => {
                        most = 1;
                        left
                    }
                    Some(error) => {
                        for (index, _) in left {
                            deliver(index, Err(error.too_large()));
                        }
                        // The other requests may be smaller.
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

/// A forward pass whose results a device may still be computing.
struct Wave {
    /// The rows of logits that were computed, and the targets in them.
    targets: Vec<(usize, Target)>,
    /// Results of some rows at a time, and the number of targets in these rows.
    parts: Vec<(usize, Summaries)>,
    /// The first row of each part.
    firsts: Vec<usize>,
}

/// One trie of requests being scored.
struct Pass<'a, 'r> {
    engine: &'a Engine,
    requests: &'a [(usize, &'r ScoreRequest)],
    /// The length of the sequences if rotary embeddings depend on it, else 0.
    class: usize,
    trie: Trie,
    targets: Vec<Vec<Target>>,
    progress: Vec<Progress>,
    /// The number of requests that each node is part of.
    users: Vec<usize>,
    /// For each node, the index after its last descendant.
    last: Vec<usize>,
    /// Cache rows by node, while needed.
    spans: Vec<Vec<Span>>,
    /// The state after each node, while needed.
    states: Vec<Option<usize>>,
}

impl<'a, 'r> Pass<'a, 'r> {
    fn new(engine: &'a Engine, requests: &'a [(usize, &'r ScoreRequest)], class: usize) -> Self {
        let inputs: Vec<Line<'_>> = requests.iter().map(|(_, request)| request.input()).collect();
        let trie = Trie::new(&inputs, engine.shortest(), engine.rows());
        let mut users = vec![0; trie.nodes.len()];
        let mut targets = vec![Vec::new(); trie.nodes.len()];
        let mut progress = Vec::with_capacity(requests.len());
        for (index, (_, request)) in requests.iter().enumerate() {
            let first = inputs[index].tokens.len() - request.scored;
            trie.path(index).for_each(|node| users[node] += 1);
            for node in trie.path(index) {
                let bounds = &trie.nodes[node];
                if bounds.end <= first {
                    break;
                }
                for position in first.max(bounds.start)..bounds.end {
                    let token = request.tokens[position + 1];
                    let row = position - bounds.start;
                    targets[node].push(Target { row, request: index, index: position - first, token });
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
        let states = vec![None; trie.nodes.len()];
        Self { engine, requests, class, trie, targets, progress, users, last, spans, states }
    }

    /// Whether other nodes continue a node.
    fn is_continued(&self, node: usize) -> bool {
        self.last[node] > node + 1
    }

    /// The wanted and the least room: for the longest path and one pass, and for the longest path.
    fn room(&self) -> (Room, Room) {
        let rows = self.trie.nodes.iter().map(|node| node.end).max().unwrap_or(0);
        let mut least = Room { rows, states: 0 };
        let mut wanted = Room { rows: rows + self.engine.rows(), states: 0 };
        if self.engine.has_states() {
            // For each node, the states on the path to it.
            let mut depths = vec![0; self.trie.nodes.len()];
            for (node, bounds) in self.trie.nodes.iter().enumerate() {
                let before = bounds.parent.map_or(0, |parent| depths[parent]);
                depths[node] = before + usize::from(self.is_continued(node));
            }
            least.states = depths.iter().copied().max().unwrap_or(0);
            let branches = depths.len().min(BRANCHES);
            wanted.states = least.states + branches;
        }
        (wanted, least)
    }

    /// The unfinished requests.
    fn unfinished(&self) -> Vec<(usize, &'r ScoreRequest)> {
        let missing = self.progress.iter().map(|progress| progress.missing);
        let sequences = self.requests.iter().zip(missing);
        sequences.filter(|(_, missing)| *missing > 0).map(|(sequence, _)| *sequence).collect()
    }

    fn work(
        &mut self,
        deliver: &mut dyn FnMut(usize, Result<Score>),
        rows: &mut Option<Rows<'_>>,
    ) -> Result<()> {
        let (wanted, least) = self.room();
        let mut guard = self.engine.cache(wanted, least)?;
        let Some(cache) = guard.as_mut() else { return Ok(()) };
        let mut first = 0;
        let mut held = Vec::new();
        // The pass that a device computes while the next one is prepared. What it reads of the cache may be freed meanwhile: a device
        // computes passes in their order.
        let mut current: Option<Wave> = None;
        while first < self.trie.nodes.len() {
            self.engine.check()?;
            let end = self.gather(first, cache)?;
            for nodes in self.waves(first, end) {
                let next = self.start(&nodes, cache, rows);
                if let Some(wave) = current.take() {
                    self.finish(wave, deliver)?;
                }
                let next = next?;
                if next.parts.iter().all(|(_, part)| part.is_ready()) {
                    self.finish(next, deliver)?;
                } else {
                    current = Some(next);
                }
            }
            held.extend(first..end);
            held.retain(|node: &usize| {
                let is_needed = self.last[*node] > end;
                if !is_needed {
                    cache.give_back(std::mem::take(&mut self.spans[*node]));
                    cache.give_back_states(self.states[*node].take());
                }
                is_needed
            });
            first = end;
        }
        match current {
            Some(wave) => self.finish(wave, deliver),
            None => Ok(()),
        }
    }

    /// Allocates rows for the nodes of the next pass. Returns the index after the last of them.
    fn gather(&mut self, first: usize, cache: &mut Cache) -> Result<usize> {
        let sequences = self.engine.sequences.unwrap_or(usize::MAX);
        let mut rows = 0;
        let mut end = first;
        while let Some(node) = self.trie.nodes.get(end) {
            if end > first && (rows + node.len() > self.engine.rows() || end - first >= sequences) {
                break;
            }
            let keeps_state = self.engine.has_states() && self.is_continued(end);
            if keeps_state && cache.available_states() == 0 {
                break;
            }
            let Some(spans) = cache.take(node.len()) else { break };
            self.spans[end] = spans;
            self.states[end] = if keeps_state { cache.take_state() } else { None };
            rows += node.len();
            end += 1;
        }
        if end == first {
            return Err(Error::unsupported("The key/value cache has no room for the next sequence"));
        }
        Ok(end)
    }

    /// Splits the nodes of a pass into forward passes.
    ///
    /// All are taken at once if segments are not padded. Else they are padded to the longest one, so each pass gets nodes of similar length
    /// that do not depend on each other.
    fn waves(&self, first: usize, end: usize) -> Vec<Vec<usize>> {
        if !self.engine.pads() {
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

    /// Starts to compute nodes. `receiver` gets their logits at once.
    fn start(&self, nodes: &[usize], cache: &Cache, receiver: &mut Option<Rows<'_>>) -> Result<Wave> {
        let mut tokens = Vec::new();
        let mut segments = Vec::new();
        // The rows of the batch that are needed, and the targets in them.
        let mut rows: Vec<u32> = Vec::new();
        let mut targets: Vec<(usize, Target)> = Vec::new();
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
                state: StateUse {
                    before: bounds.parent.and_then(|parent| self.states[parent]),
                    after: self.states[node],
                },
                source: self.requests[bounds.sequence].1.source,
            });
            tokens.extend_from_slice(&self.requests[bounds.sequence].1.tokens[bounds.start..bounds.end]);
            let mut own = self.targets[node].clone();
            own.sort_by_key(|target| target.row);
            for target in own {
                let row = (start + target.row) as u32;
                if rows.last() != Some(&row) {
                    rows.push(row);
                }
                targets.push((rows.len() - 1, target));
            }
        }
        let hidden = self.engine.forward(&tokens, segments, cache)?;
        let requested = nodes.iter().map(|node| self.users[*node] * self.trie.nodes[*node].len());
        self.engine.count(requested.sum(), 0);
        let (mut parts, mut firsts) = (Vec::new(), Vec::new());
        let mut wanted = targets.as_slice();
        let most = self.engine.head_rows();
        for (index, chunk) in rows.chunks(most).enumerate() {
            let base = index * most;
            let count = wanted.partition_point(|(row, _)| *row < base + chunk.len());
            let (own, others) = wanted.split_at(count);
            wanted = others;
            let chunk = numbers_on(chunk, &self.engine.device)?;
            let logits = self.engine.model.head(&gather(&hidden, &chunk)?)?;
            let pairs: Vec<(usize, u32)> =
                own.iter().map(|(row, target)| (row - base, target.token)).collect();
            let mut part = summarise(&logits, &pairs)?;
            if let Some(receiver) = receiver {
                let (summaries, found) = part.wait()?;
                let logits = logits.to_dtype(DType::F32)?.to_vec2::<f32>()?;
                let found_rows = own.iter().zip(&found).map(|((row, target), logit)| Row {
                    request: self.requests[target.request].0,
                    index: target.index,
                    logprob: summaries[row - base].log_probability(*logit),
                    logits: &logits[row - base],
                });
                receiver(&found_rows.collect::<Vec<_>>());
                part = Summaries::Ready(summaries, found);
            }
            parts.push((count, part));
            firsts.push(base);
        }
        Ok(Wave { targets, parts, firsts })
    }

    /// Waits for a pass and delivers what it completes.
    fn finish(&mut self, wave: Wave, deliver: &mut dyn FnMut(usize, Result<Score>)) -> Result<()> {
        let mut targets = wave.targets.into_iter();
        for ((count, part), base) in wave.parts.into_iter().zip(wave.firsts) {
            let (summaries, found) = part.wait()?;
            for ((row, target), logit) in targets.by_ref().take(count).zip(found) {
                let summary = summaries[row - base];
                let progress = &mut self.progress[target.request];
                progress.logprobs[target.index] = summary.log_probability(logit);
                progress.is_greedy &= summary.best == target.token;
                progress.missing -= 1;
                if progress.missing == 0 {
                    let score =
                        Score { logprob: progress.logprobs.iter().sum(), is_greedy: progress.is_greedy };
                    progress.logprobs = Vec::new();
                    deliver(self.requests[target.request].0, Ok(score));
                }
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
                assert!(scores[index].replace(score.unwrap()).is_none(), "{index} was delivered twice");
            })
            .unwrap();
        scores.into_iter().map(Option::unwrap).collect()
    }

    /// Documents with the same few-shot examples and several options each, some of one token.
    fn requests(draws: &mut Draws, documents: usize) -> Vec<ScoreRequest> {
        let examples = draws.tokens(37, 60);
        let mut requests = Vec::new();
        for document in 0..documents {
            let count = 1 + draws.below(9);
            let question = [examples[..37 - (document % 2) * 30].to_vec(), draws.tokens(count, 60)].concat();
            for _ in 0..=draws.below(4) {
                let scored = 1 + draws.below(if document % 3 == 0 { 1 } else { 5 });
                let option = draws.tokens(scored, 4);
                requests.push(ScoreRequest {
                    tokens: [question.clone(), option].concat(),
                    scored,
                    source: 0,
                });
            }
        }
        requests
    }

    #[test]
    fn batched_results_equal_single_results() {
        for name in
            ["llama", "gpt2", "gemma3", "qwen3_moe", "phi3_longrope", "llama_rope_dynamic", "deepseek_v3"]
        {
            let requests = requests(&mut Draws(3), 24);
            let alone: Vec<Score> = {
                let engine = engine(name, 1024, None);
                requests.iter().map(|request| all(&engine, std::slice::from_ref(request))[0]).collect()
            };
            for (rows, sequences) in [(1024, None), (64, None), (20, None), (1024, Some(3))] {
                let engine = engine(name, rows, sequences);
                let together = all(&engine, &requests);
                for (index, (alone, together)) in alone.iter().zip(&together).enumerate() {
                    if engine.device.is_cpu() {
                        assert_eq!(alone, together, "{name}, {index}");
                    }
                    // On GPUs, the summation order depends on matrix sizes.
                    let apart = (alone.logprob - together.logprob).abs();
                    assert!(apart < 5e-5, "{name}, {index}: {alone:?} {together:?}");
                    assert_eq!(alone.is_greedy, together.is_greedy, "{name}, {index}");
                }
                // Models whose rotation depends on the length share less.
                let least = if engine.model.length_boundary().is_none() { 0.66 } else { 0.2 };
                assert!(engine.stats.saved().unwrap() > least, "{name}: {:?}", engine.stats);
                engine.check_free();
            }
        }
    }

    #[test]
    fn sources_are_encoded_once() {
        let mut draws = Draws(21);
        let sources: Vec<Vec<u32>> = (1..6).map(|length| draws.tokens(7 * length, 60)).collect();
        let mut requests = Vec::new();
        for source in &sources {
            for _ in 0..4 {
                let scored = 1 + draws.below(3);
                let tokens = [source.as_slice(), &[0], &draws.tokens(scored, 3)].concat();
                requests.push(ScoreRequest { tokens, scored, source: source.len() });
            }
        }
        let alone = engine("encoders/t5", 1024, None);
        let alone: Vec<Score> =
            requests.iter().map(|request| all(&alone, std::slice::from_ref(request))[0]).collect();
        for (rows, sequences) in [(1024, None), (10, None), (1024, Some(2))] {
            let engine = engine("encoders/t5", rows, sequences);
            let together = all(&engine, &requests);
            for (alone, together) in alone.iter().zip(&together) {
                assert!((alone.logprob - together.logprob).abs() < 5e-5, "{alone:?} {together:?}");
                assert!(!engine.device.is_cpu() || alone == together, "{alone:?} {together:?}");
            }
            assert!(engine.stats.saved().unwrap() > 0.6, "{:?}", engine.stats);
            engine.check_free();
        }
    }

    #[test]
    fn results_are_deterministic() {
        let mut draws = Draws(5);
        let requests = requests(&mut draws, 12);
        let engine = engine("llama", 64, None);
        let first = all(&engine, &requests);
        assert_eq!(first, all(&engine, &requests));
        // Independent of the order of requests.
        let reversed: Vec<ScoreRequest> = requests.iter().rev().cloned().collect();
        let mut scores = all(&engine, &reversed);
        scores.reverse();
        assert_eq!(first, scores);
    }

    #[test]
    fn shrinks_passes_when_memory_runs_out() {
        let mut draws = Draws(9);
        let mut requests = requests(&mut draws, 12);
        requests.push(ScoreRequest { tokens: draws.tokens(700, 100), scored: 600, source: 0 });
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
        // Only requests that are too large on their own fail.
        let small = requests.iter().filter(|request| request.tokens.len() <= 40).count();
        let mut done = [0, 0];
        let count = |_, score: Result<Score>| {
            if let Err(error) = &score {
                assert!(error.to_string().contains("Not enough memory"), "{error}");
            }
            done[usize::from(score.is_ok())] += 1;
        };
        scarce("llama", 39).score(&requests, &mut { count }).unwrap();
        assert_eq!(done, [requests.len() - small, small]);
    }

    #[test]
    fn stops_when_cancelled() {
        let engine = engine("llama", 64, None);
        let request = ScoreRequest { tokens: vec![1, 2, 3], scored: 1, source: 0 };
        engine.cancel();
        let error = engine.score(&[request], &mut |_, _| {}).unwrap_err();
        assert!(matches!(error, Error::Cancelled));
    }
}
