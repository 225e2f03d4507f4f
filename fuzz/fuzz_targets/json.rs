//! Any string parses as JSON or is an error; parsed values round-trip.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmeval_pycompat::json;

fuzz_target!(|text: &str| {
    let Ok(value) = json::loads(text) else { return };
    let written = json::dumps(&value, &json::Options::default()).expect("a parsed value can be written");
    let again = json::loads(&written).expect("written JSON parses");
    assert_eq!(json::dumps(&again, &json::Options::default()).expect("written before"), written);
});
