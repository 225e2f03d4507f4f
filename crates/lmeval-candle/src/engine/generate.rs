//! Generation: texts that are continued token by token, many at once.

use std::sync::atomic::{AtomicBool, Ordering};

use candle_core::Tensor;

use super::head::summarise;
use super::sample::{Random, Sampling};
use super::trie::Trie;
use super::{Engine, TEXTS};
use crate::batch::{Batch, Segment, Span};
use crate::cache::Cache;
use crate::error::{Error, Result};

/// Rows that a text takes from the cache at a time while it grows.
const PAGE: usize = 32;
/// Memory for keys and values of texts that are generated.
const CACHE_BYTES: usize = 4 << 30;

/// A text that is continued.
#[derive(Clone, Debug)]
pub(crate) struct GenerationRequest {
    /// The tokens of the text, at least one.
    pub(crate) tokens: Vec<u32>,
    /// How many tokens may be added.
    pub(crate) limit: usize,
    /// How tokens are chosen.
    pub(crate) sampling: Sampling,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Generated {
    /// The tokens that were added, with the one that ended the text.
    pub(crate) tokens: Vec<u32>,
    /// Whether the limit ended it.
    pub(crate) is_cut: bool,
}

/// A text that is under way.
struct Active {
    text: usize,
    /// The rows of all of its keys.
    spans: Vec<Span>,
    /// How many keys it has.
    keys: usize,
    /// Rows that are its own, and how many of them are used.
    own: Vec<Span>,
    used: usize,
    added: Vec<u32>,
    random: Random,
}

impl Active {
    /// Adds a key; the rows are there.
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

    fn room(&self) -> usize {
        self.own.iter().map(|span| span.len).sum::<usize>() - self.used
    }
}

impl Engine {
    /// Continues texts, until `is_ending` is set. `is_done` says whether the tokens that were added to a text end it; what came of each text is
    /// handed over as soon as it is known, in any order.
    pub(crate) fn generate(
        &self,
        requests: &[GenerationRequest],
        is_ending: &AtomicBool,
        is_done: &dyn Fn(usize, &[u32]) -> bool,
        deliver: &mut dyn FnMut(usize, Generated),
    ) -> Result<()> {
        let vocabulary = self.model.shape().vocabulary as u32;
        for token in requests.iter().flat_map(|request| &request.tokens) {
            if *token >= vocabulary {
                return Err(Error::unsupported(format!(
                    "The tokenizer gives the token {token}, and the model knows {vocabulary} tokens"
                )));
            }
        }
        for (class, members) in self.classes(requests.iter().map(|request| request.tokens.len())) {
            let members: Vec<(usize, &GenerationRequest)> =
                members.into_iter().map(|index| (index, &requests[index])).collect();
            Generation::new(self, &members, class, is_done).run(is_ending, deliver)?;
        }
        Ok(())
    }
}

/// Texts on their way through the model.
struct Generation<'a> {
    engine: &'a Engine,
    requests: &'a [(usize, &'a GenerationRequest)],
    class: usize,
    is_done: &'a dyn Fn(usize, &[u32]) -> bool,
    trie: Trie,
    /// Rows of the cache by node, from when it is computed until no text needs it.
    spans: Vec<Vec<Span>>,
    /// How many texts need a node.
    users: Vec<usize>,
    /// Texts that wait, the next one last.
    waiting: Vec<usize>,
    active: Vec<Active>,
}

impl<'a> Generation<'a> {
    fn new(
        engine: &'a Engine,
        requests: &'a [(usize, &'a GenerationRequest)],
        class: usize,
        is_done: &'a dyn Fn(usize, &[u32]) -> bool,
    ) -> Self {
        let prompts: Vec<&[u32]> = requests.iter().map(|(_, request)| request.tokens.as_slice()).collect();
        let trie = Trie::new(&prompts, engine.shortest(), engine.rows());
        let mut users = vec![0; trie.nodes.len()];
        for text in 0..requests.len() {
            trie.path(text).for_each(|node| users[node] += 1);
        }
        let mut waiting: Vec<usize> = (0..requests.len()).collect();
        waiting.sort_by_key(|text| std::cmp::Reverse(trie.ends[*text]));
        let asked: usize = prompts.iter().map(|prompt| prompt.len()).sum();
        engine.work.asked.fetch_add(asked as u64, Ordering::Relaxed);
        let spans = vec![Vec::new(); trie.nodes.len()];
        Self { engine, requests, class, is_done, trie, spans, users, waiting, active: Vec::new() }
    }

    fn run(mut self, is_ending: &AtomicBool, deliver: &mut dyn FnMut(usize, Generated)) -> Result<()> {
        let mut guard = self.engine.cache(self.capacity())?;
        let Some(cache) = guard.as_mut() else { return Ok(()) };
        while !self.waiting.is_empty() || !self.active.is_empty() {
            if is_ending.load(Ordering::Relaxed) {
                return Err(Error::Ended);
            }
            let ended = self.admit(cache, deliver)?;
            let ended = ended + self.step(cache, deliver)?;
            if ended == 0 && self.active.is_empty() && !self.waiting.is_empty() {
                return Err(Error::unsupported("The key/value cache has no room for the next text"));
            }
        }
        Ok(())
    }

    /// Rows of the cache: for all texts at once, as far as there is memory, but for the longest one at least.
    fn capacity(&self) -> usize {
        let room = |(_, request): &(usize, &GenerationRequest)| {
            request.tokens.len() + request.limit.next_multiple_of(PAGE)
        };
        let longest = self.requests.iter().map(room).max().unwrap_or(0);
        let shape = self.engine.model.shape();
        let row = shape.layers * shape.kv_heads * shape.head_width * 2 * self.engine.dtype.size_in_bytes();
        let texts = self.texts().min(self.requests.len());
        longest.max((longest * texts).min(CACHE_BYTES / row.max(1)))
    }

    fn texts(&self) -> usize {
        self.engine.texts.unwrap_or(TEXTS)
    }

    /// Lets waiting texts in as far as there is room, and chooses their first tokens; how many ended at once.
    fn admit(&mut self, cache: &mut Cache, deliver: &mut dyn FnMut(usize, Generated)) -> Result<usize> {
        let mut admitted = Vec::new();
        let mut nodes = Vec::new();
        // Rows that active texts may still take.
        let mut reserved: usize = self.active.iter().map(|active| self.missing(active)).sum();
        while self.active.len() + admitted.len() < self.texts() {
            let Some(&text) = self.waiting.last() else { break };
            let request = self.requests[text].1;
            let fresh: Vec<usize> =
                self.trie.path(text).take_while(|node| self.spans[*node].is_empty()).collect();
            let rows: usize = fresh.iter().map(|node| self.trie.nodes[*node].len()).sum();
            let growth = request.limit.next_multiple_of(PAGE);
            if rows + growth + reserved > cache.available() {
                break;
            }
            for node in fresh.into_iter().rev() {
                let Some(spans) = cache.take(self.trie.nodes[node].len()) else { break };
                self.spans[node] = spans;
                nodes.push(node);
            }
            reserved += growth;
            self.waiting.pop();
            admitted.push(text);
        }
        if admitted.is_empty() {
            return Ok(0);
        }
        let last = self.prefill(&nodes, &admitted, cache)?;
        for text in &admitted {
            let mut path: Vec<usize> = self.trie.path(*text).collect();
            path.reverse();
            let spans = path.into_iter().flat_map(|node| self.spans[node].iter().copied()).collect();
            let request = self.requests[*text].1;
            self.active.push(Active {
                text: *text,
                spans,
                keys: request.tokens.len(),
                own: Vec::new(),
                used: 0,
                added: Vec::new(),
                random: Random::new(request.sampling.seed),
            });
        }
        let first = self.active.len() - admitted.len();
        self.choose(first, &last, cache, deliver)
    }

    /// Rows that an active text may still take from the cache.
    fn missing(&self, active: &Active) -> usize {
        let limit = self.requests[active.text].1.limit.next_multiple_of(PAGE);
        limit.saturating_sub(active.own.iter().map(|span| span.len).sum())
    }

    /// Computes nodes, and gives the last rows of the texts.
    fn prefill(&self, nodes: &[usize], texts: &[usize], cache: &Cache) -> Result<Tensor> {
        let ends: Vec<usize> = texts.iter().map(|text| self.trie.ends[*text]).collect();
        let mut found: Vec<Option<Tensor>> = vec![None; texts.len()];
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
                let mut above: Vec<usize> = self.trie.above(*node).collect();
                above.reverse();
                let spans = above.into_iter().flat_map(|node| self.spans[node].iter().copied()).collect();
                segments.push(Segment {
                    first: tokens.len(),
                    len: bounds.len(),
                    offset: bounds.start,
                    spans,
                });
                tokens.extend_from_slice(&self.requests[bounds.text].1.tokens[bounds.start..bounds.end]);
            }
            let lasts: Vec<usize> = segments.iter().map(|segment| segment.first + segment.len - 1).collect();
            let hidden = self.forward(&tokens, segments, cache)?;
            for (end, found) in ends.iter().zip(&mut found) {
                if let Some(place) = now.iter().position(|node| node == end) {
                    *found = Some(hidden.narrow(0, lasts[place], 1)?);
                }
            }
        }
        // A text whose nodes were all computed for others has its last row computed again.
        for (text, found) in texts.iter().zip(&mut found) {
            if found.is_none() {
                *found = Some(self.last_row(*text, cache)?);
            }
        }
        let rows: Vec<Tensor> = found.into_iter().flatten().collect();
        Ok(Tensor::cat(&rows, 0)?)
    }

    fn last_row(&self, text: usize, cache: &Cache) -> Result<Tensor> {
        let tokens = &self.requests[text].1.tokens;
        let mut path: Vec<usize> = self.trie.path(text).collect();
        path.reverse();
        let spans = path.into_iter().flat_map(|node| self.spans[node].iter().copied()).collect();
        let offset = tokens.len() - 1;
        self.forward(&tokens[offset..], vec![Segment { first: 0, len: 1, offset, spans }], cache)
    }

    fn forward(&self, tokens: &[u32], segments: Vec<Segment>, cache: &Cache) -> Result<Tensor> {
        let longest = segments.iter().map(|segment| segment.offset + segment.len).max().unwrap_or(0);
        let batch = Batch::new(tokens, segments, self.class.max(longest), &self.engine.device)?;
        self.engine.work.computed.fetch_add(tokens.len() as u64, Ordering::Relaxed);
        self.engine.model.forward(&batch, cache)
    }

    /// Adds a token to each active text; how many of them ended.
    fn step(&mut self, cache: &mut Cache, deliver: &mut dyn FnMut(usize, Generated)) -> Result<usize> {
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
            tokens.push(active.added.last().copied().unwrap_or_default());
            segments.push(Segment { first, len: 1, offset, spans: active.spans.clone() });
        }
        let hidden = self.forward(&tokens, segments, cache)?;
        self.choose(0, &hidden, cache, deliver)
    }

    /// Chooses the next token of the active texts from `first` on; how many of them ended.
    fn choose(
        &mut self,
        first: usize,
        hidden: &Tensor,
        cache: &mut Cache,
        deliver: &mut dyn FnMut(usize, Generated),
    ) -> Result<usize> {
        let logits = self.engine.model.head(hidden)?;
        let requests = self.requests;
        let is_plain = self.active[first..].iter().all(|active| requests[active.text].1.sampling.is_plain());
        let chosen: Vec<u32> = if is_plain {
            summarise(&logits, &[])?.0.into_iter().map(|summary| summary.best).collect()
        } else {
            let rows = logits.to_vec2::<f32>()?;
            let choose = |(active, mut logits): (&mut Active, Vec<f32>)| {
                let request = requests[active.text].1;
                let seen = [request.tokens.as_slice(), &active.added].concat();
                request.sampling.choose(&mut logits, &seen, &mut active.random)
            };
            self.active[first..].iter_mut().zip(rows).map(choose).collect()
        };
        let mut kept = Vec::with_capacity(self.active.len());
        let mut ended = 0;
        for (index, mut active) in std::mem::take(&mut self.active).into_iter().enumerate() {
            if index < first {
                kept.push(active);
                continue;
            }
            active.added.push(chosen[index - first]);
            let (request, asked) = requests[active.text];
            let is_done = (self.is_done)(request, &active.added);
            let is_full = active.added.len() >= asked.limit;
            if !is_done && !is_full {
                kept.push(active);
                continue;
            }
            ended += 1;
            cache.give_back(active.own);
            for node in self.trie.path(active.text) {
                self.users[node] -= 1;
                if self.users[node] == 0 {
                    cache.give_back(std::mem::take(&mut self.spans[node]));
                }
            }
            deliver(request, Generated { tokens: active.added, is_cut: !is_done });
        }
        self.active = kept;
        Ok(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Draws, engine};
    use super::*;

    fn all(engine: &Engine, requests: &[GenerationRequest]) -> Vec<Generated> {
        let mut made = vec![None; requests.len()];
        // The token 7 ends a text.
        let is_done = |_: usize, added: &[u32]| added.last() == Some(&7);
        engine
            .generate(requests, &AtomicBool::new(false), &is_done, &mut |index, generated| {
                assert!(made[index].replace(generated).is_none(), "{index} came twice");
            })
            .unwrap();
        made.into_iter().map(Option::unwrap).collect()
    }

    fn requests(count: usize, sampling: &Sampling) -> Vec<GenerationRequest> {
        let mut draws = Draws(11);
        let examples = draws.tokens(20, 100);
        (0..count)
            .map(|index| {
                let length = 1 + draws.below(12);
                let own = draws.tokens(length, 100);
                let tokens = if index % 3 == 0 { own } else { [examples.clone(), own].concat() };
                let sampling = Sampling { seed: index as u64, ..sampling.clone() };
                GenerationRequest { tokens, limit: 1 + draws.below(50), sampling }
            })
            .collect()
    }

    #[test]
    fn together_as_alone() {
        let warm = Sampling { temperature: 0.8, top_k: 20, top_p: 0.95, ..Sampling::default() };
        let penalised = Sampling { repetition_penalty: 1.3, ..Sampling::default() };
        for sampling in [Sampling::default(), warm, penalised] {
            let mut requests = requests(8, &sampling);
            // The same text twice.
            requests.push(requests[1].clone());
            let single = engine("llama", 1024, Some(1));
            let alone: Vec<Generated> = requests
                .iter()
                .map(|request| all(&single, std::slice::from_ref(request))[0].clone())
                .collect();
            for (rows, texts) in [(1024, None), (32, Some(4)), (1024, Some(1))] {
                let engine = engine("llama", rows, texts);
                assert_eq!(all(&engine, &requests), alone, "{rows} rows, {texts:?} texts");
                let cache = engine.cache(1).unwrap();
                assert_eq!(cache.as_ref().unwrap().available(), cache.as_ref().unwrap().capacity());
            }
            assert!(alone.iter().any(|made| made.is_cut));
            assert!(alone.iter().zip(&requests).all(|(made, asked)| made.tokens.len() <= asked.limit));
        }
    }
}
