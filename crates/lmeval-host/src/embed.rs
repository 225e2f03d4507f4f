//! The embedded Python code.

/// The bootstrap script of a worker.
pub(crate) const BOOT: &str = include_str!("boot.py");

/// The bootstrap script of a worker with the original package.
pub(crate) const ORIGINAL: &str = include_str!("original.py");

/// The additional modules of such a worker. They import only the standard library.
pub(crate) const BRIDGE: [&str; 3] = ["lm_eval/_protocol.py", "lm_eval/_plugins.py", "lm_eval/_models.py"];

/// The modules of the package `lm_eval`, by path.
pub(crate) const MODULES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/modules.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embeds_worker_modules() {
        for module in
            ["lm_eval/_worker.py", "lm_eval/_loader.py", "lm_eval/_dataset.py"].iter().chain(&BRIDGE)
        {
            assert!(MODULES.iter().any(|(path, source)| path == module && !source.is_empty()), "{module}");
        }
    }
}
