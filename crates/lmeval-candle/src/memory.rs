//! Available memory.

use candle_core::Device;

use crate::weights::mapped_bytes;

/// Available bytes on a device, if known.
pub(crate) fn available(device: &Device) -> Option<usize> {
    match device {
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => crate::cuda::available(device),
        Device::Cpu => {
            let machine =
                fs_err::read_to_string("/proc/meminfo").ok().and_then(|meminfo| mem_available(&meminfo));
            let group =
                cgroup_available(|name| fs_err::read_to_string(format!("/sys/fs/cgroup/{name}")).ok());
            machine.into_iter().chain(group).min().map(|bytes| beside_weights(bytes, mapped_bytes()))
        }
        _ => None,
    }
}

/// The memory beside mapped weights, which the kernel counts as available because it could read them again, for each pass. If they do not
/// fit anyway, a quarter of the memory.
fn beside_weights(available: usize, mapped: usize) -> usize {
    available.saturating_sub(mapped).max(available / 4)
}

/// Parses `MemAvailable` of `/proc/meminfo`, in bytes.
fn mem_available(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
}

/// The bytes below the memory limit of the container.
fn cgroup_available(read: impl Fn(&str) -> Option<String>) -> Option<usize> {
    let number = |name| read(name)?.trim().parse::<usize>().ok();
    let used = number("memory.current")?;
    // The page cache is counted as used, but the kernel reclaims it.
    let files = read("memory.stat").unwrap_or_default();
    let files = files.lines().filter_map(|line| line.split_once(' '));
    let files = files.filter(|(name, _)| ["inactive_file", "active_file"].contains(name));
    let files: usize = files.filter_map(|(_, bytes)| bytes.trim().parse::<usize>().ok()).sum();
    Some(number("memory.max")?.saturating_sub(used.saturating_sub(files)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_weights_keep_their_memory() {
        assert_eq!(beside_weights(1000, 300), 700);
        assert_eq!(beside_weights(1000, 900), 250);
        assert_eq!(beside_weights(1000, 5000), 250);
    }

    #[test]
    fn reads_available_memory() {
        let text = "MemTotal:       24604772 kB\nMemFree:         1 kB\nMemAvailable:   23000000 kB\n";
        assert_eq!(mem_available(text), Some(23_000_000 * 1024));
        assert_eq!(mem_available("MemFree: 3 kB"), None);
        let group = |max: &'static str| {
            cgroup_available(move |name| {
                let text = match name {
                    "memory.max" => max,
                    "memory.current" => "100\n",
                    _ => "anon 60\ninactive_file 30\nactive_file 10\n",
                };
                Some(text.to_owned())
            })
        };
        assert_eq!(group("1000\n"), Some(940));
        assert_eq!(group("50\n"), Some(0));
        assert_eq!(group("max\n"), None);
        assert_eq!(cgroup_available(|_| None), None);
    }
}
