//! Samplers that are Python classes.

use std::thread;
use std::time::Duration;

use lmeval_core::{Dialect, MemoryDocuments};
use lmeval_pycompat::random::Random;
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::Host;
use lmeval_scoring::sampler::{DefaultSampler, Draw, Sampler};

use crate::support::{Folder, document, message_and_traceback};

const UTILS: &str = r#"
import os
import time
from lm_eval.api.registry import register_sampler
from lm_eval.api.samplers import ContextSampler

@register_sampler("last_first")
class LastFirst(ContextSampler):
    def sample(self, n, eval_doc=None, df=None, **kwargs):
        return [dict(doc) for doc in reversed(self.df) if doc != eval_doc][:n]

class Same(ContextSampler):
    pass

def slow(doc):
    time.sleep(0.3)
    return os.getpid()

class Short(ContextSampler):
    def sample(self, n, eval_doc=None):
        return self.df[:1]

class Foreign(ContextSampler):
    def sample(self, n, eval_doc=None):
        return [{"n": -1}] * n

def no_class():
    pass
"#;

fn numbered(number: i64) -> Dict {
    [(Value::str("n"), Value::Int(number))].into_iter().collect()
}

fn pool() -> MemoryDocuments {
    MemoryDocuments::new((0..30).map(numbered).collect())
}

/// Three draws of several documents each; calls `between` before each.
fn draws(sampler: &mut dyn Sampler, count: usize, between: &dyn Fn()) -> Vec<Vec<usize>> {
    let pool = pool();
    let mut random = Random::from_seed(1234);
    let evaluated: Vec<Dict> = (0..4).map(|number| numbered(29 - number)).collect();
    let excluded: Vec<Option<&Dict>> = evaluated.iter().map(Some).collect();
    let mut drawn = Vec::new();
    for _ in 0..3 {
        between();
        let draw = Draw { pool: &pool, count, excluded: None, random: &mut random, dialect: &Dialect::V05 };
        drawn.extend(sampler.draw_many(draw, &excluded).into_iter().map(Result::unwrap));
    }
    drawn
}

#[test]
fn generator_state_moves_between_workers() {
    let folder = Folder::with(UTILS, |options| options.workers = 2);
    let expected = draws(&mut DefaultSampler, 3, &|| ());
    let class = folder.function("utils.Same");
    let mut alone = folder.host.sampler(&class, Some(1234)).unwrap();
    assert_eq!(draws(&mut *alone, 3, &|| ()), expected);
    // Keeps the worker of the previous draw busy each time.
    let mut moved = folder.host.sampler(&class, Some(1234)).unwrap();
    thread::scope(|scope| {
        let keep_busy = || {
            let (host, slow) = (&folder.host, folder.function("utils.slow"));
            scope.spawn(move || host.call(&slow, &document([("n", Value::Int(1))])).unwrap());
            thread::sleep(Duration::from_millis(100));
        };
        assert_eq!(draws(&mut *moved, 3, &keep_busy), expected);
    });
}

#[test]
fn class_chooses_examples() {
    let folder = Folder::new(UTILS);
    for reference in ["utils.LastFirst", "registry:sampler/last_first"] {
        let mut sampler = folder.host.sampler(&folder.function(reference), Some(1)).unwrap();
        let drawn = draws(&mut *sampler, 2, &|| ());
        assert_eq!(drawn[..4], [[28, 27], [29, 27], [29, 28], [29, 28]]);
    }
}

#[test]
fn reports_wrong_samplers() {
    let folder = Folder::new(UTILS);
    let pool = pool();
    for (name, expected) in [
        ("utils.Short", "2 examples were requested, but the sampler returned 1"),
        ("utils.Foreign", "a document that is not in its pool"),
        ("utils.no_class", "a sampler is a class"),
    ] {
        let mut sampler = folder.host.sampler(&folder.function(name), Some(1)).unwrap();
        let mut random = Random::from_seed(1);
        let draw =
            Draw { pool: &pool, count: 2, excluded: None, random: &mut random, dialect: &Dialect::V05 };
        let error = sampler.draw(draw).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let error = folder.host.sampler(&folder.function("utils.Absent"), Some(1)).unwrap_err();
    assert!(message_and_traceback(error).0.contains("Absent"));
}
