//! Any text is JSON or an error; what was read is written and read again as the same value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmeval_pycompat::json;

fuzz_target!(|text: &str| {
    let Ok(value) = json::loads(text) else { return };
    let written = json::dumps(&value, &json::Options::default()).expect("what was read can be written");
    let again = json::loads(&written).expect("what was written can be read");
    assert_eq!(json::dumps(&again, &json::Options::default()).expect("written before"), written);
});
