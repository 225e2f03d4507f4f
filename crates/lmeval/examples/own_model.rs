//! A custom in-process model: `cargo run -p lmeval --example own_model`.
//!
//! Batches are computed on separate threads, and answers are saved if the run has a journal: an interrupted run resumes
//! with the requests that have no answer yet.

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use std::error::Error;
use std::sync::Arc;

use lmeval::{
    Arguments, Evaluation, InProcess, LocalModel, ModelEntry, ModelError, ModelIdentity, ModelRequest,
    Registry, Response,
};

/// Prefers short continuations and generates few words.
#[derive(Debug)]
struct Brief {
    words: usize,
}

impl LocalModel for Brief {
    // Answers are reused only for the same identity, so it must include everything that affects them.
    fn identity(&self) -> ModelIdentity {
        ModelIdentity { backend: "brief".to_owned(), facts: vec![("words", self.words.to_string())] }
    }

    fn answer(&self, request: &ModelRequest) -> Result<Response, ModelError> {
        Ok(match &request.arguments {
            Arguments::Loglikelihood { continuation, .. } => {
                Response::Loglikelihood { logprob: -(continuation.len() as f64), is_greedy: false }
            }
            Arguments::Rolling { text } => Response::Rolling { logprob: -(text.len() as f64) },
            Arguments::Generate { context, .. } => {
                let words = context.as_text().map(|text| text.split_whitespace()).into_iter().flatten();
                Response::Text(words.take(self.words).collect::<Vec<_>>().join(" ").into())
            }
            // Asked only of models that cannot score a continuation.
            Arguments::Letters { .. } => return Err(request.unsupported()),
        })
    }
}

/// Runs the example.
pub fn main() -> Result<(), Box<dyn Error>> {
    // Pass the model as an object...
    let results =
        Evaluation::new(InProcess::new(Brief { words: 3 })).tasks(["demo_capitals"]).limit(20).run()?;
    println!("acc: {:.3}", results.score("demo_capitals", "acc").ok_or("no score")?);

    // ... or register it by name, with arguments.
    let mut registry = Registry::default();
    registry.register(ModelEntry::new("brief", |settings| {
        let words = settings.integer("words")?.and_then(|words| usize::try_from(words).ok()).unwrap_or(3);
        Ok(Arc::new(InProcess::new(Brief { words })))
    }))?;
    let results = Evaluation::new("brief")
        .model_args([("words", 5)])
        .registry(registry)
        .tasks(["demo_translate"])
        .limit(5)
        .run()?;
    println!("chrf: {:.3}", results.score("demo_translate", "chrf").ok_or("no score")?);
    Ok(())
}
