//! Renders templates line by line, for comparison with other implementations.
//!
//! Each input line is `{"template": …, "doc": …}`; each output line is `{"out": …}` or `{"error": …}`. With
//! `"chat": true` the template is a chat template.

use std::io::{BufRead, Write};

use lmeval_pycompat::json::{Options, dumps, loads};
use lmeval_pycompat::{Dict, Value};
use lmeval_template::chat::ChatTemplate;
use lmeval_template::{Environment, Error};

fn render(environment: &Environment, request: &Dict) -> Result<String, Error> {
    let template = request.get_str("template").and_then(Value::as_str).unwrap_or_default();
    let empty = Dict::new();
    let document = request.get_str("doc").and_then(Value::as_dict).unwrap_or(&empty);
    if request.get_str("chat").is_some_and(Value::is_truthy) {
        return ChatTemplate::compile(template)?.with_clock(str::to_owned).render(document);
    }
    environment.compile(template)?.render(document)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let environment = Environment::new();
    let mut output = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let request = loads(&line?)?;
        let (key, text) = match request.as_dict() {
            Some(request) => match render(&environment, request) {
                Ok(text) => ("out", text),
                Err(error) => ("error", error.to_string()),
            },
            None => ("error", "The line is not an object".to_owned()),
        };
        let answer = Value::dict([(key, Value::from(text))]);
        writeln!(output, "{}", dumps(&answer, &Options::default())?)?;
    }
    Ok(output.flush()?)
}
