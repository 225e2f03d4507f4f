//! A custom HTTP backend: `cargo run -p lmeval --example own_backend`.
//!
//! The example includes its own server, so it runs anywhere: it receives `{"prompt": …}` and returns `{"text": …}`, and a GET
//! returns its model and version. Servers
//! with an OpenAI-compatible API need no code: `Evaluation::new("local-completions")`.

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use lmeval::{
    Answer, Arguments, Evaluation, Model, ModelError, ModelErrorKind, ModelFuture, ModelIdentity,
    ModelRequest, ModelTraits, RequestType, Response,
};

/// A client for a server.
#[derive(Debug)]
struct Shouting {
    address: String,
    client: reqwest::Client,
}

impl Shouting {
    async fn send(&self, request: &ModelRequest) -> Result<Answer, ModelError> {
        let Arguments::Generate { context, .. } = &request.arguments else {
            return Err(ModelError::new(ModelErrorKind::Unsupported, "The server only generates text"));
        };
        let prompt = context.as_text().map_or("", |text| text);
        let sent = self.client.post(&self.address).json(&serde_json::json!({ "prompt": prompt })).send();
        let answer: serde_json::Value = sent
            .await
            .map_err(|error| unreachable(&error))?
            .json()
            .await
            .map_err(|error| unreachable(&error))?;
        match answer["text"].as_str() {
            Some(text) => Ok(Response::Text(text.into()).into()),
            None => Err(ModelError::new(ModelErrorKind::Answer, "The answer has no `text`")),
        }
    }
}

fn unreachable(error: &reqwest::Error) -> ModelError {
    ModelError::new(ModelErrorKind::Unreachable, error.to_string())
}

impl Model for Shouting {
    // A journal stores answers under this identity, so it has everything that changes them: what the server reports about
    // itself, not its address, which may serve something else tomorrow.
    fn identity(&self) -> ModelFuture<'_, Result<ModelIdentity, ModelError>> {
        Box::pin(async {
            let answer = self.client.get(&self.address).send().await.map_err(|error| unreachable(&error))?;
            let about: serde_json::Value = answer.json().await.map_err(|error| unreachable(&error))?;
            let fact = |name: &'static str| match about[name].as_str() {
                Some(text) => Ok((name, text.to_owned())),
                None => {
                    let message = format!("The server does not report its `{name}`");
                    Err(ModelError::new(ModelErrorKind::Answer, message))
                }
            };
            Ok(ModelIdentity {
                backend: "shouting".to_owned(),
                facts: vec![fact("model")?, fact("version")?],
            })
        })
    }

    // Unsupported requests are reported before anything is sent.
    fn supports(&self, kind: RequestType) -> Result<(), ModelError> {
        match kind {
            RequestType::GenerateUntil => Ok(()),
            _ => Err(ModelError::new(
                ModelErrorKind::Unsupported,
                "The server does not return log-likelihoods",
            )),
        }
    }

    fn traits(&self) -> ModelTraits {
        ModelTraits { batch_size: 1, in_flight: 8, ..ModelTraits::default() }
    }

    fn answer(&self, requests: Vec<ModelRequest>) -> ModelFuture<'_, Vec<Result<Answer, ModelError>>> {
        Box::pin(async move {
            let mut answers = Vec::with_capacity(requests.len());
            for request in &requests {
                answers.push(self.send(request).await);
            }
            answers
        })
    }
}

/// Runs the example.
pub fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}/", listener.local_addr()?);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(&stream));
        }
    });
    let model = Shouting { address, client: lmeval::http_client().no_proxy().build()? };
    let results = Evaluation::new(Arc::new(model)).tasks(["demo_translate"]).limit(10).run()?;
    println!("chrf: {:.3}", results.score("demo_translate", "chrf").ok_or("no score")?);
    Ok(())
}

/// Answers each prompt of a connection with its second to last line in capitals, and anything without a body with the model.
fn serve(mut stream: &TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if line.trim().is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let answer = if body.is_empty() {
            serde_json::json!({ "model": "capitals", "version": "1" })
        } else {
            let request: serde_json::Value = serde_json::from_slice(&body).ok()?;
            let text = request["prompt"].as_str()?.lines().rev().nth(1).unwrap_or_default().to_uppercase();
            serde_json::json!({ "text": text })
        };
        let answer = answer.to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            answer.len()
        );
        stream.write_all(format!("{head}{answer}").as_bytes()).ok()?;
    }
}
