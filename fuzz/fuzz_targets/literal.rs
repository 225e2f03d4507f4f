//! Any text is a literal or an error; the `repr` of a literal is the same literal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmeval_pycompat::{literal, repr};

fuzz_target!(|text: &str| {
    let Ok(value) = literal::literal_eval(text) else { return };
    let written = repr::repr(&value);
    // `inf` and `nan` print as names, which are no literals.
    if let Ok(again) = literal::literal_eval(&written) {
        assert_eq!(repr::repr(&again), written);
    }
});
