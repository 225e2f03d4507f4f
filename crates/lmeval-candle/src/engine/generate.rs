//! Batched autoregressive generation.

use candle_core::{DType, Tensor};
use rayon::prelude::*;

use super::head::summarise;
use super::sample::{Random, Sampling};
use super::trie::{Line, Trie};
use super::{Engine, Room};
use crate::batch::{Segment, Span, StateUse, numbers_on};
use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::matrix::gather;

/// Rows that a sequence allocates at a time while it grows.
const PAGE: usize = 32;
/// The size of the key/value cache if the available memory is unknown.
const CACHE_BYTES: usize = 4 << 30;

/// A prompt to continue.
#[derive(Clone, Debug)]
pub(crate) struct GenerationRequest {
    /// The prompt tokens, at least one.
    pub(crate) tokens: Vec<u32>,
    /// The number of prompt tokens at the start that an encoder reads; 0 without one.
    pub(crate) source: usize,
    /// The maximum number of tokens to generate.
    pub(crate) limit: usize,
    /// How the next token is chosen.
    pub(crate) sampling: Sampling,
}

/// The result of a [`GenerationRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Generated {
    /// The generated tokens, including the end token.
    pub(crate) tokens: Vec<u32>,
    /// Whether the limit was reached.
    pub(crate) is_cut: bool,
}

/// A request and its tokens so far.
struct Sequence<'a> {
    /// The index of the request.
    index: usize,
    request: &'a GenerationRequest,
    added: Vec<u32>,
    random: Random,
    is_finished: bool,
}

impl Sequence<'_> {
    /// The prompt and the tokens generated so far.
    fn tokens(&self) -> Vec<u32> {
        [self.request.tokens.as_slice(), &self.added].concat()
    }

    /// Cache rows that its remaining tokens may need.
    fn growth(&self) -> usize {
        (self.request.limit - self.added.len()).next_multiple_of(PAGE)
    }
}

/// A sequence being generated.
struct Active {
    sequence: usize,
    /// The cache rows of all its keys.
    spans: Vec<Span>,
    /// The number of keys.
    keys: usize,
    /// Rows allocated for generated tokens, and how many of them are used.
    own: Vec<Span>,
    used: usize,
    /// The maximum size of `own`.
    growth: usize,
    /// Its state, and the one to read in the next step.
    state: Option<usize>,
    before: Option<usize>,
}

impl Active {
    /// Adds a key. The row for it is already allocated.
    fn grow(&mut self) {
        let mut before = 0;
        for span in &self.own {
            if self.used < before + span.len {
                let row = span.start + self.used - before;
                match self.spans.last_mut() {
                    Some(last) if self.used > before && last.start + last.len == row => last.len += 1,
                    _ => self.spans.push(Span { start: row, len: 1 }),
                }
                break;
            }
            before += span.len;
        }
        self.used += 1;
        self.keys += 1;
    }

    /// Rows that it may still allocate.
    fn missing(&self) -> usize {
        self.growth.saturating_sub(self.own.iter().map(|span| span.len).sum())
    }

    fn room(&self) -> usize {
        self.own.iter().map(|span| span.len).sum::<usize>() - self.used
    }
}

impl Engine {
    /// Generates continuations until all are finished or the engine is cancelled. `is_done` decides whether the generated
    /// tokens of a request are complete. `deliver` gets each result as soon as it is known, in any order.
    pub(crate) fn generate(
        &self,
        requests: &[GenerationRequest],
        is_done: &dyn Fn(usize, &[u32]) -> bool,
        deliver: &mut dyn FnMut(usize, Result<Generated>),
    ) -> Result<()> {
        self.enter()?;
        let mut sequences: Vec<Sequence<'_>> = Vec::with_capacity(requests.len());
        for (index, request) in requests.iter().enumerate() {
            let random = Random::new(request.sampling.seed);
            sequences.push(Sequence { index, request, added: Vec::new(), random, is_finished: false });
        }
        // Each round returns the sequences that must be recomputed from the start, with their tokens so far.
        while !sequences.is_empty() {
            let lengths: Vec<usize> = sequences
                .iter()
                .map(|sequence| sequence.request.tokens.len() + sequence.added.len())
                .collect();
            let mut left: Vec<Option<Sequence<'_>>> = sequences.drain(..).map(Some).collect();
            for (class, members) in self.classes(lengths.into_iter()) {
                let members = members.into_iter().filter_map(|member| left[member].take()).collect();
                sequences.extend(Generation::new(self, members, class, is_done).run(deliver)?);
            }
        }
        Ok(())
    }
}

/// One round of generation.
struct Generation<'a, 'r> {
    engine: &'a Engine,
    sequences: Vec<Sequence<'r>>,
    /// The tokens of each sequence at the start of the round.
    prompts: Vec<Vec<u32>>,
    /// The length of the prompts if rotary embeddings depend on it, else 0.
    class: usize,
    is_done: &'a dyn Fn(usize, &[u32]) -> bool,
    trie: Trie,
    /// Cache rows by trie node, while a sequence needs them.
    spans: Vec<Vec<Span>>,
    /// The state after each node, while a sequence needs it.
    states: Vec<Option<usize>>,
    /// The last hidden row of each node, while a sequence needs it: prompts may end there.
    lasts: Vec<Option<Tensor>>,
    /// The number of sequences that need each node.
    users: Vec<usize>,
    /// Waiting sequences, the next one last.
    waiting: Vec<usize>,
    active: Vec<Active>,
}

impl<'a, 'r> Generation<'a, 'r> {
    fn new(
        engine: &'a Engine,
        sequences: Vec<Sequence<'r>>,
        class: usize,
        is_done: &'a dyn Fn(usize, &[u32]) -> bool,
    ) -> Self {
        let prompts: Vec<Vec<u32>> = sequences.iter().map(Sequence::tokens).collect();
        let lines = prompts.iter().zip(&sequences);
        let lines = lines.map(|(tokens, sequence)| Line { tokens, source: sequence.request.source });
        let trie = Trie::new(&lines.collect::<Vec<_>>(), engine.shortest(), engine.rows());
        let mut users = vec![0; trie.nodes.len()];
        for sequence in 0..sequences.len() {
            trie.path(sequence).for_each(|node| users[node] += 1);
        }
        let mut waiting: Vec<usize> = (0..sequences.len()).collect();
        waiting.sort_by_key(|sequence| std::cmp::Reverse(trie.ends[*sequence]));
        let spans = vec![Vec::new(); trie.nodes.len()];
        let lasts = vec![None; trie.nodes.len()];
        let states = vec![None; trie.nodes.len()];
        Self {
            engine,
            sequences,
            prompts,
            class,
            is_done,
            trie,
            spans,
            states,
            lasts,
            users,
            waiting,
            active: Vec::new(),
        }
    }

    /// Runs the round. Returns the sequences that must be recomputed: because they outgrew a length that changes the rotation
    /// of all their tokens, or because memory ran out.
    fn run(mut self, deliver: &mut dyn FnMut(usize, Result<Generated>)) -> Result<Vec<Sequence<'r>>> {
        match self.work(deliver) {
            Err(error) if error.is_out_of_memory() => {
                if !(self.engine.shrink_sequences() | self.engine.shrink_rows()) {
                    self.give_up(&error, deliver);
                    self.engine.restore();
                }
            }
            other => other?,
        }
        Ok(self.sequences.into_iter().filter(|sequence| !sequence.is_finished).collect())
    }

    /// Fails one sequence because memory is insufficient even for a single one: the active one, or else the waiting one that
    /// needs the largest cache.
    fn give_up(&mut self, error: &Error, deliver: &mut dyn FnMut(usize, Result<Generated>)) {
        let is_active =
            |sequence: &usize| !self.sequences[*sequence].is_finished && !self.waiting.contains(sequence);
        let largest = self.waiting.iter().copied().max_by_key(|sequence| self.room(*sequence));
        let chosen = (0..self.sequences.len()).find(is_active).or(largest);
        if let Some(sequence) = chosen.and_then(|sequence| self.sequences.get_mut(sequence)) {
            sequence.is_finished = true;
            deliver(sequence.index, Err(error.too_large()));
        }
    }

    fn work(&mut self, deliver: &mut dyn FnMut(usize, Result<Generated>)) -> Result<()> {
        let (wanted, least) = self.capacity();
        let mut guard = self.engine.cache(wanted, least)?;
        let Some(cache) = guard.as_mut() else { return Ok(()) };
        while !self.waiting.is_empty() || !self.active.is_empty() {
            self.engine.check()?;
            let left = self.admit(cache, deliver)?;
            let left = left + self.step(cache, deliver)?;
            if left == 0 && self.active.is_empty() && !self.waiting.is_empty() {
                return Err(Error::unsupported("The key/value cache has no room for the next sequence"));
            }
        }
        Ok(())
    }

    /// The wanted and the least room: for all sequences at once if memory allows, and for the largest one.
    fn capacity(&self) -> (Room, Room) {
        let rows = (0..self.sequences.len()).map(|sequence| self.room(sequence)).max().unwrap_or(0);
        let states = (0..self.sequences.len()).map(|sequence| self.states_of(sequence)).max().unwrap_or(0);
        let least = Room { rows, states };
        // The other half is for activations, and on the CPU for other processes.
        let memory = self.engine.available().map_or(CACHE_BYTES, |bytes| bytes / 2);
        let sequences = self.engine.generated().min(self.sequences.len());
        let fitting = (memory / self.engine.bytes(least).max(1)).clamp(1, sequences);
        let rows = (rows * sequences).min(memory / self.engine.row_bytes().max(1));
        let wanted = match states {
            0 => Room { rows: rows.max(least.rows), states: 0 },
            _ => Room { rows: least.rows * fitting, states: states * fitting },
        };
        (wanted, least)
    }

    /// States that a sequence may need in total: one after each node, and its own.
    fn states_of(&self, sequence: usize) -> usize {
        if self.engine.has_states() { self.trie.path(sequence).count() + 1 } else { 0 }
    }

    /// Cache rows that a sequence may need in total.
    fn room(&self, sequence: usize) -> usize {
        self.prompts[sequence].len() + self.sequences[sequence].growth()
    }

    /// Activates waiting sequences while there is room, and chooses their first tokens. Returns how many finished at once.
    fn admit(
        &mut self,
        cache: &mut Cache,
        deliver: &mut dyn FnMut(usize, Result<Generated>),
    ) -> Result<usize> {
        let mut admitted = Vec::new();
        let mut nodes = Vec::new();
        let has_states = self.engine.has_states();
        // Rows that active sequences may still allocate, and states of admitted ones.
        let mut reserved: usize = self.active.iter().map(Active::missing).sum();
        let mut reserved_states = 0;
        while self.active.len() + admitted.len() < self.engine.generated() {
            let Some(&sequence) = self.waiting.last() else { break };
            let fresh: Vec<usize> =
                self.trie.path(sequence).take_while(|node| self.spans[*node].is_empty()).collect();
            let rows: usize = fresh.iter().map(|node| self.trie.nodes[*node].len()).sum();
            let growth = self.sequences[sequence].growth();
            let states = if has_states { fresh.len() + 1 } else { 0 };
            if rows + growth + reserved > cache.available()
                || states + reserved_states > cache.available_states()
            {
                break;
            }
            for node in fresh.into_iter().rev() {
                let Some(spans) = cache.take(self.trie.nodes[node].len()) else { break };
                self.spans[node] = spans;
                self.states[node] = if has_states { cache.take_state() } else { None };
                nodes.push(node);
            }
            reserved += growth;
            reserved_states += usize::from(has_states);
            self.waiting.pop();
            admitted.push(sequence);
        }
        if admitted.is_empty() {
            return Ok(0);
        }
        let last = self.prefill(&nodes, &admitted, cache)?;
        for sequence in &admitted {
            let end = self.trie.ends[*sequence];
            let spans = self.trie.spans(end, &self.spans);
            self.active.push(Active {
                sequence: *sequence,
                spans,
                keys: self.prompts[*sequence].len(),
                own: Vec::new(),
                used: 0,
                growth: self.sequences[*sequence].growth(),
                state: if has_states { cache.take_state() } else { None },
                before: self.states[end],
            });
        }
        let first = self.active.len() - admitted.len();
        self.choose(first, &last, cache, deliver)
    }

    /// Computes trie nodes and returns the last hidden rows of the sequences.
    fn prefill(&mut self, nodes: &[usize], sequences: &[usize], cache: &Cache) -> Result<Tensor> {
        let mut rest = nodes;
        while !rest.is_empty() {
            let mut rows = 0;
            let fits = |node: &&usize| {
                rows += self.trie.nodes[**node].len();
                rows <= self.engine.rows()
            };
            let count = rest.iter().take_while(fits).count().max(1);
            let (now, later) = rest.split_at(count);
            rest = later;
            let mut tokens = Vec::new();
            let mut segments = Vec::new();
            for node in now {
                let bounds = &self.trie.nodes[*node];
                let spans = self.trie.spans(*node, &self.spans);
                segments.push(Segment {
                    first: tokens.len(),
                    len: bounds.len(),
                    offset: bounds.start,
                    spans,
                    length: self.class,
                    state: StateUse {
                        before: bounds.parent.and_then(|parent| self.states[parent]),
                        after: self.states[*node],
                    },
                    source: self.sequences[bounds.sequence].request.source,
                });
                tokens.extend_from_slice(&self.prompts[bounds.sequence][bounds.start..bounds.end]);
            }
            let last = |segment: &Segment| (segment.first + segment.len - 1) as u32;
            let lasts: Vec<u32> = segments.iter().map(last).collect();
            let requested = now.iter().map(|node| self.users[*node] * self.trie.nodes[*node].len());
            self.engine.count(requested.sum(), 0);
            let hidden = self.engine.forward(&tokens, segments, cache)?;
            // A copy, so that the other rows are freed.
            let hidden = gather(&hidden, &numbers_on(&lasts, &self.engine.device)?)?;
            for (row, node) in now.iter().enumerate() {
                self.lasts[*node] = Some(hidden.narrow(0, row, 1)?);
            }
        }
        let ends = sequences.iter().filter_map(|sequence| self.lasts[self.trie.ends[*sequence]].clone());
        Ok(Tensor::cat(&ends.collect::<Vec<Tensor>>(), 0)?)
    }

    /// Generates a token for each active sequence. Returns how many left the batch.
    fn step(
        &mut self,
        cache: &mut Cache,
        deliver: &mut dyn FnMut(usize, Result<Generated>),
    ) -> Result<usize> {
        if self.active.is_empty() {
            return Ok(0);
        }
        let mut tokens = Vec::with_capacity(self.active.len());
        let mut segments = Vec::with_capacity(self.active.len());
        for (first, active) in self.active.iter_mut().enumerate() {
            if active.room() == 0 {
                let pages = cache.take(PAGE);
                active.own.extend(pages.ok_or_else(|| Error::unsupported("The key/value cache is full"))?);
            }
            let offset = active.keys;
            active.grow();
            tokens.push(self.sequences[active.sequence].added.last().copied().unwrap_or_default());
            let spans = active.spans.clone();
            let before = std::mem::replace(&mut active.before, active.state);
            let state = StateUse { before, after: active.state };
            let source = self.sequences[active.sequence].request.source;
            segments.push(Segment { first, len: 1, offset, spans, length: offset + 1, state, source });
        }
        self.engine.count(tokens.len(), 0);
        in_steps(|| {
            let hidden = self.engine.forward(&tokens, segments, cache)?;
            self.choose(0, &hidden, cache, deliver)
        })
    }

    /// Chooses the next token of the active sequences from index `first` on. Returns how many left the batch, finished or not.
    fn choose(
        &mut self,
        first: usize,
        hidden: &Tensor,
        cache: &mut Cache,
        deliver: &mut dyn FnMut(usize, Result<Generated>),
    ) -> Result<usize> {
        let logits = self.engine.model.head(hidden)?;
        let is_plain = self.active[first..]
            .iter()
            .all(|active| self.sequences[active.sequence].request.sampling.is_plain());
        let chosen: Vec<u32> = if is_plain {
            summarise(&logits, &[])?.wait()?.0.into_iter().map(|summary| summary.best).collect()
        } else {
            let rows = logits.to_dtype(DType::F32)?.to_vec2::<f32>()?;
            let choose = |(active, mut logits): (&Active, Vec<f32>)| {
                if logits.iter().any(|logit| logit.is_nan() || *logit == f32::INFINITY) {
                    return Err(Error::NotFinite);
                }
                let sequence = &self.sequences[active.sequence];
                let mut random = sequence.random.clone();
                let GenerationRequest { sampling, source, .. } = sequence.request;
                let token = sampling.choose(&mut logits, &sequence.tokens(), *source, &mut random)?;
                Ok((token, random))
            };
            let chosen = self.active[first..].par_iter().zip(rows).map(choose);
            let chosen: Vec<(u32, Random)> = chosen.collect::<Result<_>>()?;
            for (active, (_, random)) in self.active[first..].iter().zip(&chosen) {
                self.sequences[active.sequence].random = random.clone();
            }
            chosen.into_iter().map(|(token, _)| token).collect()
        };
        let crossing = self.engine.model.length_crossing();
        let mut left = 0;
        let admitted = self.active.split_off(first);
        for (active, token) in admitted.into_iter().zip(chosen) {
            let sequence = &mut self.sequences[active.sequence];
            sequence.added.push(token);
            let is_done = (self.is_done)(sequence.index, &sequence.added);
            sequence.is_finished = is_done || sequence.added.len() >= sequence.request.limit;
            // Reference: a sequence that outgrows the length is recomputed with its prompt.
            if !sequence.is_finished && crossing != Some(active.keys) {
                self.active.push(active);
                continue;
            }
            left += 1;
            cache.give_back(active.own);
            cache.give_back_states(active.state);
            for node in self.trie.path(active.sequence) {
                self.users[node] -= 1;
                if self.users[node] == 0 {
                    cache.give_back(std::mem::take(&mut self.spans[node]));
                    cache.give_back_states(self.states[node].take());
                    self.lasts[node] = None;
                }
            }
            if sequence.is_finished {
                let tokens = std::mem::take(&mut sequence.added);
                deliver(sequence.index, Ok(Generated { tokens, is_cut: !is_done }));
            }
        }
        Ok(left)
    }
}

/// Calls `work` with the products of a GPU set for one row of each sequence.
fn in_steps<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(feature = "cuda")]
    return crate::cuda::in_steps(work);
    #[cfg(not(feature = "cuda"))]
    work()
}

#[cfg(test)]
mod tests;
