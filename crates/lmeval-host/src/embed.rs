//! The Python code that the program carries.

/// The program that a worker starts with.
pub(crate) const BOOT: &str = include_str!("boot.py");

/// The program that a worker with the original package starts with.
pub(crate) const ORIGINAL: &str = include_str!("original.py");

/// The modules that such a worker needs beside it. They import the standard library alone.
pub(crate) const BRIDGE: [&str; 3] = ["lm_eval/_protocol.py", "lm_eval/_plugins.py", "lm_eval/_models.py"];

/// The modules of the package `lm_eval`, by their paths.
pub(crate) const MODULES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/modules.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worker_is_carried() {
        for module in
            ["lm_eval/_worker.py", "lm_eval/_loader.py", "lm_eval/_dataset.py"].iter().chain(&BRIDGE)
        {
            assert!(MODULES.iter().any(|(path, source)| path == module && !source.is_empty()), "{module}");
        }
    }
}
