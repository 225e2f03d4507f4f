//! Mistakes that explain why two models differ: other prompts, other tokens, other log-likelihoods.

use lmeval_analysis::compare::first_difference;
use lmeval_analysis::fidelity::Judgement;
use lmeval_core::Context;

use super::Found;
use super::requests::{Asked, Requests};
use super::tokens::{OfRequest, Tokens};
use crate::tokenizer::LazyTokenizer;
use crate::words::{counted, for_count};

/// The difference of a log-likelihood from the sum of its tokens that is rounding: absolute, and per nat.
const ROUNDING: (f64, f64) = (5e-3, 1e-3);

/// The share of places with different most likely tokens that scores should have noticed. Formats of four bits have about 10 %.
const UNNOTICED: f64 = 0.2;

/// Something about the requests of the two models that differs.
pub(super) struct Finding {
    /// Its kind, for programs.
    pub(super) kind: &'static str,
    /// The requests that it is about.
    pub(super) requests: usize,
    pub(super) text: String,
}

/// Everything that was found, causes before effects.
pub(super) fn findings(found: &Found, tokenizer: &LazyTokenizer) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(other_prompts(found));
    if let Some(tokens) = &found.tokens {
        findings.extend(other_contexts(found, tokens, tokenizer));
        findings.extend(other_splits(found, tokens));
        findings.extend(other_sums(found, tokens));
        findings.extend(failures(found, tokens));
    }
    findings.extend(unnoticed(found));
    if found.requests.left_out > 0 {
        findings.push(Finding {
            kind: "left out",
            requests: found.requests.left_out,
            text: format!(
                "{} with images, sounds, empty answers or letters of options: only the documents are compared",
                counted(found.requests.left_out, "request")
            ),
        });
    }
    findings
}

/// Distributions that differ much although no score does.
fn unnoticed(found: &Found) -> Option<Finding> {
    let tokens = found.tokens.as_ref()?;
    let measured = || tokens.requests.iter().flat_map(|request| &request.measured);
    let others = measured().filter(|measured| !measured.agrees).count();
    let share = others as f64 / measured().count() as f64;
    let is_same = matches!(found.verdict(), Judgement::Same | Judgement::Equivalent);
    (is_same && share > UNNOTICED).then(|| Finding {
        kind: "unnoticed",
        requests: tokens.requests.len(),
        text: format!(
            "No score tells the models apart, but in {:.0}% of the places they find different tokens the most likely: these documents \
             cannot show the difference",
            100.0 * share
        ),
    })
}

/// The string of a prompt.
fn prompt(asked: &Asked) -> String {
    asked.arguments.context().map(Context::hash_text).unwrap_or_default()
}

/// Pairs of requests: index, of the base model, of the new model.
fn pairs(found: &Found) -> impl Iterator<Item = (usize, &Asked, &Asked)> {
    let both = found.matched.iter().zip(&found.requests.all).enumerate();
    both.filter_map(|(index, (of_base, new))| Some((index, &found.base_requests.all[(*of_base)?], new)))
}

impl Finding {
    /// A finding about requests of the new model, the first of which is shown: `3 requests WHAT, such as REQUEST`, and what `rest` says of it.
    fn about(
        (kind, one, several): (&'static str, &str, &str),
        found: &Found,
        indices: &[usize],
        rest: impl FnOnce(usize) -> String,
    ) -> Option<Self> {
        let first = *indices.first()?;
        let (count, name) = (indices.len(), found.requests.name(first));
        let what = format!("{} {}", counted(count, "request"), for_count(count, one, several));
        Some(Self { kind, requests: count, text: format!("{what}, such as {name}{}", rest(first)) })
    }
}

fn other_prompts(found: &Found) -> Option<Finding> {
    let differ: Vec<_> = pairs(found).filter(|(_, base, new)| base.arguments != new.arguments).collect();
    let indices: Vec<usize> = differ.iter().map(|(index, ..)| *index).collect();
    Finding::about(("prompts", "has another prompt", "have another prompt"), found, &indices, |_| {
        let (_, base, new) = differ[0];
        let (left, right) = (prompt(base), prompt(new));
        let shown = if left == right {
            "  the prompts are equal, and the continuations differ".to_owned()
        } else {
            first_difference(&left, &right)
        };
        format!(". If a chat template was applied, it is another one:\n{shown}")
    })
}

/// Requests with the same prompt and other tokens before the scored ones.
fn other_contexts(found: &Found, tokens: &Tokens, tokenizer: &LazyTokenizer) -> Option<Finding> {
    let differ = pairs(found).filter(|(index, base, new)| {
        let (of_base, of_new) = &tokens.requests[*index].contexts;
        of_base != of_new && base.arguments == new.arguments
    });
    let indices: Vec<usize> = differ.map(|(index, ..)| index).collect();
    let what = (
        "tokens",
        "with the same prompt has other tokens before the scored ones",
        "with the same prompt have other tokens before the scored ones",
    );
    Finding::about(what, found, &indices, |index| {
        let (base, new) = &tokens.requests[index].contexts;
        format!(": {}", contexts(base, new, tokenizer))
    })
}

/// How two contexts differ.
fn contexts(base: &[u32], new: &[u32], tokenizer: &LazyTokenizer) -> String {
    let shown = |tokens: &[u32]| {
        let text = tokenizer.get().and_then(|tokenizer| tokenizer.decode(tokens).ok());
        match text {
            Some(text) => format!("{tokens:?} ({text:?})"),
            None => format!("{tokens:?}"),
        }
    };
    if let Some(more) = new.strip_suffix(base).filter(|more| !more.is_empty()) {
        return added("the model to check begins with", more, &shown, base.len());
    }
    if let Some(more) = base.strip_suffix(new).filter(|more| !more.is_empty()) {
        return added("the reference begins with", more, &shown, new.len());
    }
    let same = base.iter().zip(new).take_while(|(base, new)| base == new).count();
    let part = |tokens: &[u32]| shown(&tokens[same.min(tokens.len())..tokens.len().min(same + 5)]);
    format!(
        "after {}, the reference has {} and the model to check {}",
        counted(same, "equal token"),
        part(base),
        part(new)
    )
}

/// Tokens that one model alone has at the beginning.
fn added(who: &str, more: &[u32], shown: &dyn Fn(&[u32]) -> String, rest: usize) -> String {
    if more.len() > 4 {
        return format!(
            "{who} {} more; one of them may be truncated to a shorter `max_length`",
            counted(more.len(), "token")
        );
    }
    format!(
        "{who} {} before the {}, so a BOS token is added by one of them alone, or twice: see `add_bos_token`",
        shown(more),
        counted(rest, "token")
    )
}

/// Requests with other prompts whose scored strings are other tokens.
fn other_splits(found: &Found, tokens: &Tokens) -> Option<Finding> {
    let indices = indices_of(tokens, |request| request.is_split_otherwise);
    let what = ("split", "is not compared token by token", "are not compared token by token");
    Finding::about(what, found, &indices, |_| {
        ": after another prompt, the scored string is split into other tokens".to_owned()
    })
}

fn indices_of(tokens: &Tokens, is_wanted: impl Fn(&OfRequest) -> bool) -> Vec<usize> {
    let all = tokens.requests.iter().enumerate();
    all.filter(|(_, request)| is_wanted(request)).map(|(index, _)| index).collect()
}

/// Requests whose answer in the run is not the sum of the log-probabilities of their tokens.
fn other_sums(found: &Found, tokens: &Tokens) -> Vec<Finding> {
    let of_side = |who: &str,
                   kind,
                   side: fn(&OfRequest) -> f64,
                   requests: &Requests,
                   of: &dyn Fn(usize) -> Option<usize>| {
        let differs = |index: &usize| {
            let request = &tokens.requests[*index];
            let answer = of(*index).and_then(|own| requests.all[own].answer);
            let is_whole = request.measured.len() == request.scored.len() && !request.scored.is_empty();
            answer.filter(|_| is_whole).is_some_and(|answer| {
                let apart = (answer - side(request)).abs();
                apart > ROUNDING.0 + ROUNDING.1 * answer.abs()
            })
        };
        let all = 0..tokens.requests.len();
        let differing: Vec<usize> = all.filter(differs).collect();
        let first = *differing.first()?;
        let answer = of(first).and_then(|own| requests.all[own].answer).unwrap_or(f64::NAN);
        Some(Finding {
            kind,
            requests: differing.len(),
            text: format!(
                "{who} answered {} with a log-likelihood that is not the sum of those of its tokens, such as {}: {answer:.4}, and the sum is {:.4}",
                counted(differing.len(), "request"),
                found.requests.name(first),
                side(&tokens.requests[first])
            ),
        })
    };
    let base = of_side(
        "The reference",
        "sums of the reference",
        |request| request.measured.iter().map(|measured| measured.base).sum(),
        &found.base_requests,
        &|index| found.matched[index],
    );
    let new = of_side(
        "The model to check",
        "sums of the model to check",
        |request| request.measured.iter().map(|measured| measured.new).sum(),
        &found.requests,
        &Some,
    );
    base.into_iter().chain(new).collect()
}

fn failures(found: &Found, tokens: &Tokens) -> Option<Finding> {
    let indices = indices_of(tokens, |request| request.failed.is_some());
    let what = ("failed", "has no distributions", "have no distributions");
    Finding::about(what, found, &indices, |index| {
        format!(": {}", tokens.requests[index].failed.as_deref().unwrap_or_default())
    })
}
