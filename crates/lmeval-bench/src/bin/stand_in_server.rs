//! A model server that answers immediately, for benchmarks and parity runs.
//!
//! `stand-in-server [--port N] [--threads N] [--delay-ms N] [--tokenizer] [--canned] [--keep-bodies FILE]` prints its address as a line of JSON.
//! For each line on standard input it prints the counts since the previous one; it exits at end of input.
#![expect(clippy::print_stdout, reason = "prints its address and counts")]

use std::io::{BufRead, Write};
use std::time::{Duration, SystemTime};

use lmeval_testkit::{ServerOptions, StandInServer};
use serde_json::json;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let index = arguments.iter().position(|argument| argument == name)?;
        arguments.get(index + 1).cloned()
    };
    let number = |name: &str| value(name).and_then(|number| number.parse::<u64>().ok()).unwrap_or(0);
    let bodies = value("--keep-bodies");
    let server = StandInServer::start(ServerOptions {
        port: u16::try_from(number("--port")).unwrap_or(0),
        threads: usize::try_from(number("--threads")).unwrap_or(0),
        delay: Duration::from_millis(number("--delay-ms")),
        tokenizer: arguments.iter().any(|argument| argument == "--tokenizer"),
        keep_bodies: bodies.is_some(),
        canned: arguments.iter().any(|argument| argument == "--canned"),
        ..ServerOptions::default()
    });
    println!("{}", json!({"url": server.url("")}));
    std::io::stdout().flush()?;
    for line in std::io::stdin().lock().lines() {
        line?;
        let counts = server.counts();
        let seconds = |time: Option<SystemTime>| {
            time.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok())
                .map(|time| time.as_secs_f64())
        };
        if let Some(path) = &bodies {
            let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
            for (path, body) in &counts.bodies {
                writeln!(file, "{}", json!({"path": path, "body": body}))?;
            }
            file.flush()?;
        }
        let distinct = counts.received.len();
        println!(
            "{}",
            json!({"requests": counts.total(), "distinct": distinct, "first": seconds(counts.first), "last": seconds(counts.last)})
        );
        std::io::stdout().flush()?;
        server.reset();
    }
    Ok(())
}
