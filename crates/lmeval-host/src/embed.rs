//! The Python code that the program carries.

/// The program that a worker starts with.
pub(crate) const BOOT: &str = include_str!("boot.py");

/// The modules of the package `lm_eval`, by their paths.
pub(crate) const MODULES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/modules.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worker_is_carried() {
        for module in
            ["lm_eval/_worker.py", "lm_eval/_protocol.py", "lm_eval/_loader.py", "lm_eval/_dataset.py"]
        {
            assert!(MODULES.iter().any(|(path, source)| *path == module && !source.is_empty()), "{module}");
        }
    }
}
