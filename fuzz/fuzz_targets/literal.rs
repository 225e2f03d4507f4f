//! Any string parses as a literal or is an error; the `repr` of a literal parses as the same value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmeval_pycompat::{literal, repr};

fuzz_target!(|text: &str| {
    let Ok(value) = literal::literal_eval(text) else { return };
    let written = repr::repr(&value);
    // `inf` and `nan` print as names, which are not literals.
    if let Ok(again) = literal::literal_eval(&written) {
        assert_eq!(repr::repr(&again), written);
    }
});
