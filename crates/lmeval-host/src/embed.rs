//! The embedded Python code.

/// The bootstrap script of a worker.
pub(crate) const BOOT: &str = include_str!("boot.py");

/// The bootstrap script of a worker with the original package.
pub(crate) const ORIGINAL: &str = include_str!("original.py");

/// The additional modules of such a worker. They import only the standard library.
pub(crate) const BRIDGE: [&str; 4] =
    ["lm_eval/_media.py", "lm_eval/_protocol.py", "lm_eval/_plugins.py", "lm_eval/_models.py"];

/// The bootstrap script of `lm-eval ray`. Its last argument is a file with its data.
pub const RAY_BOOT: &str = include_str!("ray_boot.py");

/// The modules of the package `lm_eval`, by path.
pub(crate) const MODULES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/modules.rs"));

/// The modules of `lm_eval.ray`, by path. They import only the standard library and Ray.
pub fn ray_modules() -> impl Iterator<Item = (&'static str, &'static str)> {
    MODULES.iter().copied().filter(|(path, _)| path.starts_with("lm_eval/ray/"))
}

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
        assert!(ray_modules().any(|(path, _)| path == "lm_eval/ray/_driver.py"));
    }
}
