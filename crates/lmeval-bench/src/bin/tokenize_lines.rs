//! Tokenizes the lines of a file with a folder's tokenizer, to be compared with `transformers` by `bench/tokens.py`.
//!
//! `tokenize-lines FOLDER LINES` reads a JSON string per line, and writes the tokens with and without special ones, and the
//! decoded text, each line as JSON.

#![allow(clippy::print_stderr, reason = "prints measurements")]

use std::error::Error;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::time::Instant;

use lmeval_tokenizers::HuggingFaceTokenizer;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, lines] = arguments.as_slice() else {
        return Err("usage: tokenize-lines FOLDER LINES".into());
    };
    let begin = Instant::now();
    let tokenizer = HuggingFaceTokenizer::from_folder(Path::new(folder))?;
    let loaded = begin.elapsed();
    let texts = fs_err::read_to_string(lines)?;
    let texts: Vec<String> = texts.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let begin = Instant::now();
    let mut out = BufWriter::new(std::io::stdout().lock());
    for text in &texts {
        let tokens = tokenizer.encode(text, true)?;
        let plain = tokenizer.encode(text, false)?;
        let decoded = [tokenizer.decode(&tokens)?, tokenizer.decode_plain(&tokens)?];
        serde_json::to_writer(&mut out, &serde_json::json!([tokens, plain, decoded]))?;
        writeln!(out)?;
    }
    out.flush()?;
    let speed = texts.len() as f64 / begin.elapsed().as_secs_f64();
    eprintln!("loaded in {:.2} s, {speed:.0} lines/s", loaded.as_secs_f64());
    Ok(())
}
