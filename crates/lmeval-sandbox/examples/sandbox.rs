//! Runs a program under limits and prints the outcome: `cargo run -p lmeval-sandbox --example sandbox -- program.py`.

use std::error::Error;
use std::ffi::OsStr;

use lmeval_sandbox::{Interpreter, Limits, Program, enter, run};

#[expect(clippy::print_stdout, reason = "printing is the purpose of the example")]
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [inside, plan] = arguments.as_slice()
        && inside == "--inside"
    {
        let Err(error) = enter(plan);
        println!("{error}");
        return Err(error.into());
    }
    let file = arguments.first().ok_or("name a file with Python code")?;
    let program = Program {
        text: fs_err::read_to_string(file)?,
        interpreter: Interpreter::query("python3".as_ref())?,
        limits: Limits::default(),
    };
    println!("{:#}", run(&program, &[OsStr::new("--inside")])?.to_json());
    Ok(())
}
