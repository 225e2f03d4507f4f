//! The first line is a pattern, the rest a string to search: compiling and matching neither panic nor run away.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmeval_pycompat::re::{Flags, Regex};

fuzz_target!(|input: &str| {
    let (pattern, text) = input.split_once('\n').unwrap_or((input, ""));
    let Ok(regex) = Regex::new(pattern, Flags::default()) else { return };
    let _ = regex.findall(text);
    let _ = regex.split(text, 0);
    let _ = regex.sub("<\\g<0>>", text, 0);
    let _ = regex.fullmatch(text);
});
