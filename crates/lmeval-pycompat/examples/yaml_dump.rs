//! Prints one line of JSON per YAML file: the value that the loader returns.
//!
//! Reads paths from standard input, one per line. A line is `{"path":"...","value":<typed form>}`, or
//! `{"path":"...","error":true}` if the file does not load. `tests/record/yaml_dump.py` prints the same lines with
//! PyYAML. The typed form is defined in `tests/it/yaml_typed.rs`.

#[path = "../tests/it/yaml_typed.rs"]
mod yaml_typed;

use std::fs::File;
use std::io::{self, BufRead, Read, Write};

use lmeval_pycompat::yaml::Loader;

fn main() -> io::Result<()> {
    let loader = Loader { functions: true, ..Loader::default() };
    let mut out = io::BufWriter::new(io::stdout().lock());
    for path in io::stdin().lock().lines() {
        let path = path?;
        if path.is_empty() {
            continue;
        }
        let mut bytes = Vec::new();
        File::open(&path)?.read_to_end(&mut bytes)?;
        let mut line = String::from(r#"{"path":"#);
        yaml_typed::write_string(&path, &mut line);
        match loader.load_bytes(&bytes) {
            Ok(loaded) => {
                line.push_str(r#","value":"#);
                line.push_str(&yaml_typed::typed(&loaded.value));
            }
            Err(_) => line.push_str(r#","error":true"#),
        }
        line.push('}');
        writeln!(out, "{line}")?;
    }
    out.flush()
}
