//! Any bytes load or fail; loaded values round-trip.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmeval_pycompat::yaml;

fuzz_target!(|bytes: &[u8]| {
    let Ok(loaded) = yaml::Loader::for_directory("tasks").load_bytes(bytes) else { return };
    let text = yaml::emit(&loaded.value);
    let again = yaml::Loader::for_directory("tasks").load(&text).expect("emitted YAML loads");
    assert_eq!(yaml::emit(&again.value), text);
});
