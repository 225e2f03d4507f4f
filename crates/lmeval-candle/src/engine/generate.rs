//! Generation: texts that are continued token by token, many at once.

use candle_core::Tensor;
use rayon::prelude::*;

use super::Engine;
use super::head::summarise;
use super::sample::{Random, Sampling};
use super::trie::Trie;
use crate::batch::{Segment, Span};
use crate::cache::Cache;
use crate::error::{Error, Result};

/// Rows that a text takes from the cache at a time while it grows.
const PAGE: usize = 32;
/// Memory for keys and values of texts that are generated, where nobody knows how much there is.
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

/// A request, and what came of it so far.
struct Text<'a> {
    /// Which request it is.
    index: usize,
    request: &'a GenerationRequest,
    added: Vec<u32>,
    random: Random,
    is_ended: bool,
}

impl Text<'_> {
    /// All tokens so far.
    fn tokens(&self) -> Vec<u32> {
        [self.request.tokens.as_slice(), &self.added].concat()
    }

    /// Rows of the cache that it may take for tokens to come.
    fn growth(&self) -> usize {
        (self.request.limit - self.added.len()).next_multiple_of(PAGE)
    }
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
    /// Rows that it may have of its own.
    growth: usize,
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

    /// Rows that it may still take from the cache.
    fn missing(&self) -> usize {
        self.growth.saturating_sub(self.own.iter().map(|span| span.len).sum())
    }

    fn room(&self) -> usize {
        self.own.iter().map(|span| span.len).sum::<usize>() - self.used
    }
}

impl Engine {
    /// Continues texts, until the work is ended. `is_done` says whether the tokens that were added to a text end it;
    /// what came of each text is handed over as soon as it is known, in any order.
    pub(crate) fn generate(
        &self,
        requests: &[GenerationRequest],
        is_done: &dyn Fn(usize, &[u32]) -> bool,
        deliver: &mut dyn FnMut(usize, Result<Generated>),
    ) -> Result<()> {
        self.enter()?;
        let mut texts: Vec<Text<'_>> = Vec::with_capacity(requests.len());
        for (index, request) in requests.iter().enumerate() {
            let random = Random::new(request.sampling.seed);
            texts.push(Text { index, request, added: Vec::new(), random, is_ended: false });
        }
        // Texts come back that are computed anew from their beginning, with what was added to them.
        while !texts.is_empty() {
            let lengths: Vec<usize> =
                texts.iter().map(|text| text.request.tokens.len() + text.added.len()).collect();
            let mut left: Vec<Option<Text<'_>>> = texts.drain(..).map(Some).collect();
            for (class, members) in self.classes(lengths.into_iter()) {
                let members = members.into_iter().filter_map(|member| left[member].take()).collect();
                texts.extend(Generation::new(self, members, class, is_done).run(deliver)?);
            }
        }
        Ok(())
    }
}

/// Texts on their way through the model.
struct Generation<'a, 'r> {
    engine: &'a Engine,
    texts: Vec<Text<'r>>,
    /// What the texts begin with.
    prompts: Vec<Vec<u32>>,
    /// The length of the prompts where it matters, else 0.
    class: usize,
    is_done: &'a dyn Fn(usize, &[u32]) -> bool,
    trie: Trie,
    /// Rows of the cache by node, from when it is computed until no text needs it.
    spans: Vec<Vec<Span>>,
    /// The last row of each node, for as long: texts may end there.
    lasts: Vec<Option<Tensor>>,
    /// How many texts need a node.
    users: Vec<usize>,
    /// Texts that wait, the next one last.
    waiting: Vec<usize>,
    active: Vec<Active>,
}

impl<'a, 'r> Generation<'a, 'r> {
    fn new(
        engine: &'a Engine,
        texts: Vec<Text<'r>>,
        class: usize,
        is_done: &'a dyn Fn(usize, &[u32]) -> bool,
    ) -> Self {
        let prompts: Vec<Vec<u32>> = texts.iter().map(Text::tokens).collect();
        let slices: Vec<&[u32]> = prompts.iter().map(Vec::as_slice).collect();
        let trie = Trie::new(&slices, engine.shortest(), engine.rows());
        let mut users = vec![0; trie.nodes.len()];
        for text in 0..texts.len() {
            trie.path(text).for_each(|node| users[node] += 1);
        }
        let mut waiting: Vec<usize> = (0..texts.len()).collect();
        waiting.sort_by_key(|text| std::cmp::Reverse(trie.ends[*text]));
        let spans = vec![Vec::new(); trie.nodes.len()];
        let lasts = vec![None; trie.nodes.len()];
        Self {
            engine,
            texts,
            prompts,
            class,
            is_done,
            trie,
            spans,
            lasts,
            users,
            waiting,
            active: Vec::new(),
        }
    }

    /// Continues the texts; those are returned that have to be computed anew: because they grow beyond a length above
    /// which all of their tokens are computed in another way, or because memory is short.
    fn run(mut self, deliver: &mut dyn FnMut(usize, Result<Generated>)) -> Result<Vec<Text<'r>>> {
        match self.work(deliver) {
            Err(error) if error.is_out_of_memory() => {
                if !(self.engine.shrink_texts() | self.engine.shrink_rows()) {
                    self.give_up(&error, deliver);
                    self.engine.restore();
                }
            }
            other => other?,
        }
        Ok(self.texts.into_iter().filter(|text| !text.is_ended).collect())
    }

    /// Memory is too short for a single text: the one that is under way has no answer, or the one that needs the largest
    /// cache where there is none.
    fn give_up(&mut self, error: &Error, deliver: &mut dyn FnMut(usize, Result<Generated>)) {
        let is_under_way = |text: &usize| !self.texts[*text].is_ended && !self.waiting.contains(text);
        let largest = self.waiting.iter().copied().max_by_key(|text| self.room(*text));
        let under_way = (0..self.texts.len()).find(is_under_way).or(largest);
        if let Some(text) = under_way.and_then(|text| self.texts.get_mut(text)) {
            text.is_ended = true;
            deliver(text.index, Err(error.too_large()));
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
                return Err(Error::unsupported("The key/value cache has no room for the next text"));
            }
        }
        Ok(())
    }

    /// Rows of the cache: for all texts at once, as far as there is memory, and those of the longest one.
    fn capacity(&self) -> (usize, usize) {
        let longest = (0..self.texts.len()).map(|text| self.room(text)).max().unwrap_or(0);
        let row = self.engine.row_bytes();
        let texts = self.engine.generated().min(self.texts.len());
        // The other half is for what passes need, and for others on a processor.
        let memory = self.engine.free().map_or(CACHE_BYTES, |free| free / 2);
        (longest.max((longest * texts).min(memory / row.max(1))), longest)
    }

    /// Rows of the cache that a text may take.
    fn room(&self, text: usize) -> usize {
        self.prompts[text].len() + self.texts[text].growth()
    }

    /// Lets waiting texts in as far as there is room, and chooses their first tokens; how many left at once.
    fn admit(
        &mut self,
        cache: &mut Cache,
        deliver: &mut dyn FnMut(usize, Result<Generated>),
    ) -> Result<usize> {
        let mut admitted = Vec::new();
        let mut nodes = Vec::new();
        // Rows that active texts may still take.
        let mut reserved: usize = self.active.iter().map(Active::missing).sum();
        while self.active.len() + admitted.len() < self.engine.generated() {
            let Some(&text) = self.waiting.last() else { break };
            let fresh: Vec<usize> =
                self.trie.path(text).take_while(|node| self.spans[*node].is_empty()).collect();
            let rows: usize = fresh.iter().map(|node| self.trie.nodes[*node].len()).sum();
            let growth = self.texts[text].growth();
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
            let spans = self.trie.spans(self.trie.ends[*text], &self.spans);
            self.active.push(Active {
                text: *text,
                spans,
                keys: self.prompts[*text].len(),
                own: Vec::new(),
                used: 0,
                growth: self.texts[*text].growth(),
            });
        }
        let first = self.active.len() - admitted.len();
        self.choose(first, &last, cache, deliver)
    }

    /// Computes nodes, and gives the last rows of the texts.
    fn prefill(&mut self, nodes: &[usize], texts: &[usize], cache: &Cache) -> Result<Tensor> {
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
                });
                tokens.extend_from_slice(&self.prompts[bounds.text][bounds.start..bounds.end]);
            }
            let last = |segment: &Segment| (segment.first + segment.len - 1) as u32;
            let lasts: Vec<u32> = segments.iter().map(last).collect();
            let asked = now.iter().map(|node| self.users[*node] * self.trie.nodes[*node].len());
            self.engine.count(asked.sum(), 0);
            let hidden = self.engine.forward(&tokens, segments, cache)?;
            // A copy, so that the other rows are not kept.
            let hidden = hidden.index_select(&Tensor::new(lasts, &self.engine.device)?, 0)?;
            for (place, node) in now.iter().enumerate() {
                self.lasts[*node] = Some(hidden.narrow(0, place, 1)?);
            }
        }
        let ends = texts.iter().filter_map(|text| self.lasts[self.trie.ends[*text]].clone());
        Ok(Tensor::cat(&ends.collect::<Vec<Tensor>>(), 0)?)
    }

    /// Adds a token to each active text; how many of them left.
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
            tokens.push(self.texts[active.text].added.last().copied().unwrap_or_default());
            let spans = active.spans.clone();
            segments.push(Segment { first, len: 1, offset, spans, length: offset + 1 });
        }
        self.engine.count(tokens.len(), 0);
        let hidden = self.engine.forward(&tokens, segments, cache)?;
        self.choose(0, &hidden, cache, deliver)
    }

    /// Chooses the next token of the active texts from `first` on; how many of them left, ended or not.
    fn choose(
        &mut self,
        first: usize,
        hidden: &Tensor,
        cache: &mut Cache,
        deliver: &mut dyn FnMut(usize, Result<Generated>),
    ) -> Result<usize> {
        let logits = self.engine.model.head(hidden)?;
        let is_plain =
            self.active[first..].iter().all(|active| self.texts[active.text].request.sampling.is_plain());
        let chosen: Vec<u32> = if is_plain {
            summarise(&logits, &[])?.0.into_iter().map(|summary| summary.best).collect()
        } else {
            let rows = logits.to_vec2::<f32>()?;
            let choose = |(active, mut logits): (&Active, Vec<f32>)| {
                if logits.iter().any(|logit| logit.is_nan() || *logit == f32::INFINITY) {
                    return Err(Error::NotFinite);
                }
                let text = &self.texts[active.text];
                let mut random = text.random.clone();
                let token = text.request.sampling.choose(&mut logits, &text.tokens(), &mut random)?;
                Ok((token, random))
            };
            let chosen = self.active[first..].par_iter().zip(rows).map(choose);
            let chosen: Vec<(u32, Random)> = chosen.collect::<Result<_>>()?;
            for (active, (_, random)) in self.active[first..].iter().zip(&chosen) {
                self.texts[active.text].random = random.clone();
            }
            chosen.into_iter().map(|(token, _)| token).collect()
        };
        let crossing = self.engine.model.length_crossing();
        let mut left = 0;
        let admitted = self.active.split_off(first);
        for (active, token) in admitted.into_iter().zip(chosen) {
            let text = &mut self.texts[active.text];
            text.added.push(token);
            let is_done = (self.is_done)(text.index, &text.added);
            text.is_ended = is_done || text.added.len() >= text.request.limit;
            // Reference: a text that outgrows the length is computed anew, its prompt included.
            if !text.is_ended && crossing != Some(active.keys) {
                self.active.push(active);
                continue;
            }
            left += 1;
            cache.give_back(active.own);
            for node in self.trie.path(active.text) {
                self.users[node] -= 1;
                if self.users[node] == 0 {
                    cache.give_back(std::mem::take(&mut self.spans[node]));
                    self.lasts[node] = None;
                }
            }
            if text.is_ended {
                let tokens = std::mem::take(&mut text.added);
                deliver(text.index, Ok(Generated { tokens, is_cut: !is_done }));
            }
        }
        Ok(left)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Draws, engine, scarce};
    use super::*;

    fn all(engine: &Engine, requests: &[GenerationRequest]) -> Vec<Generated> {
        let mut made = vec![None; requests.len()];
        // The token 7 ends a text.
        let is_done = |_: usize, added: &[u32]| added.last() == Some(&7);
        engine
            .generate(requests, &is_done, &mut |index, generated| {
                assert!(made[index].replace(generated.unwrap()).is_none(), "{index} came twice");
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
                let cache = engine.cache(1, 1).unwrap();
                assert_eq!(cache.as_ref().unwrap().available(), cache.as_ref().unwrap().capacity());
            }
            assert!(alone.iter().any(|made| made.is_cut));
            assert!(alone.iter().zip(&requests).all(|(made, asked)| made.tokens.len() <= asked.limit));
        }
    }

    #[test]
    fn texts_that_outgrow_a_length_are_those_of_the_reference() {
        // What `generate` of `transformers` adds to each prompt alone; rotations change beyond 24 tokens.
        let long: [(&[u32], [u32; 32]); 3] = [
            (
                &[106, 83, 80, 68, 113, 19],
                [
                    16, 16, 112, 112, 24, 46, 117, 72, 110, 23, 70, 73, 76, 24, 19, 26, 76, 64, 61, 85, 78,
                    35, 31, 40, 95, 24, 45, 16, 100, 119, 120, 48,
                ],
            ),
            (
                &[44, 110, 103, 12, 113, 110, 44, 77, 14, 103, 65, 96, 27, 43, 110, 119, 13, 64, 111, 116],
                [
                    61, 4, 80, 16, 49, 67, 81, 67, 65, 19, 116, 73, 19, 60, 22, 73, 10, 65, 106, 4, 73, 16,
                    54, 19, 48, 14, 80, 6, 61, 33, 19, 75,
                ],
            ),
            (
                &[
                    93, 105, 96, 40, 77, 24, 120, 49, 34, 100, 125, 8, 83, 33, 30, 60, 59, 98, 62, 107, 92,
                    12, 71, 5,
                ],
                [
                    55, 102, 112, 2, 72, 105, 67, 19, 58, 90, 16, 48, 14, 16, 73, 10, 112, 26, 49, 122, 28,
                    9, 25, 29, 42, 19, 64, 58, 105, 104, 122, 112,
                ],
            ),
        ];
        let dynamic: [(&[u32], [u32; 32]); 2] = [
            (
                &[121, 30, 117, 87, 10, 112],
                [
                    108, 108, 110, 67, 68, 93, 93, 68, 1, 27, 5, 49, 68, 104, 112, 93, 11, 24, 64, 1, 91, 31,
                    91, 41, 57, 61, 5, 11, 24, 65, 24, 93,
                ],
            ),
            (
                &[45, 36, 75, 97, 28, 88, 86, 18, 11, 115, 12, 28, 78, 39, 44, 101, 48, 95, 85, 77],
                [
                    65, 97, 77, 102, 15, 80, 65, 67, 68, 2, 24, 51, 52, 117, 91, 31, 1, 57, 34, 91, 31, 2,
                    24, 51, 52, 117, 24, 87, 64, 68, 2, 24,
                ],
            ),
        ];
        let cases = [("phi3_longrope", long.as_slice()), ("llama_rope_dynamic", dynamic.as_slice())];
        for (name, recorded) in cases {
            let asked: Vec<GenerationRequest> = recorded
                .iter()
                .map(|(tokens, _)| GenerationRequest {
                    tokens: tokens.to_vec(),
                    limit: 32,
                    sampling: Sampling::default(),
                })
                .collect();
            for (rows, texts) in [(1024, None), (16, Some(2))] {
                let engine = engine(name, rows, texts);
                let mut found = vec![Vec::new(); asked.len()];
                engine
                    .generate(&asked, &|_, _| false, &mut |index, made| {
                        found[index] = made.unwrap().tokens;
                    })
                    .unwrap();
                for ((prompt, expected), found) in recorded.iter().zip(&found) {
                    assert_eq!(found, expected, "{name}, {} tokens, {rows} rows", prompt.len());
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_computed_in_parts() {
        let warm = Sampling { temperature: 0.8, top_k: 20, ..Sampling::default() };
        let mut asked = requests(40, &warm);
        asked.push(GenerationRequest {
            tokens: Draws(1).tokens(400, 100),
            limit: 5,
            sampling: Sampling::default(),
        });
        let expected = all(&engine("llama", 1024, None), &asked);
        for rows in [200, 130, 7] {
            let scarce = scarce("llama", rows);
            let mut made = asked.iter().map(|_| None).collect::<Vec<_>>();
            let is_done = |_: usize, added: &[u32]| added.last() == Some(&7);
            scarce
                .generate(&asked, &is_done, &mut |index, generated| {
                    assert!(made[index].replace(generated).is_none(), "{index} came twice");
                })
                .unwrap();
            let mut failed = 0;
            for ((made, expected), asked) in made.into_iter().zip(&expected).zip(&asked) {
                match made.unwrap() {
                    Ok(made) => assert_eq!(made, *expected, "{rows} rows"),
                    Err(error) => {
                        // Only those fail that are too large by themselves.
                        assert!(error.to_string().contains("too little memory"), "{error}");
                        assert!(rows == 7 && asked.tokens.len() > 7, "{rows} rows");
                        failed += 1;
                    }
                }
            }
            assert_eq!(failed > 0, rows == 7);
            assert_eq!(scarce.rows(), 128);
        }
    }
}
