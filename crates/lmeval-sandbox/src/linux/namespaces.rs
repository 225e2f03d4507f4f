//! Namespaces.

use std::io;
use std::path::Path;

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};
use rustix::process::{getgid, getuid};
use rustix::thread::UnshareFlags;

use crate::plan::Isolation;

/// The namespaces to unshare, with their names in reports.
const KINDS: [(UnshareFlags, &str); 5] = [
    (UnshareFlags::NEWNET, "network"),
    (UnshareFlags::NEWPID, "process"),
    (UnshareFlags::NEWIPC, "ipc"),
    (UnshareFlags::NEWUTS, "host"),
    (UnshareFlags::NEWNS, "mount"),
];

/// Gives the children of this process their own namespaces, as far as the kernel allows it.
///
/// A privileged process needs nothing else; an unprivileged one creates a user namespace first.
pub(crate) fn separate(is_nobody: bool) -> Isolation {
    let mut isolation = Isolation { is_nobody, ..Isolation::default() };
    if !is_nobody {
        let (user, group) = (getuid().as_raw(), getgid().as_raw());
        match unshare(UnshareFlags::NEWUSER).and_then(|()| map_user(user, group)) {
            Ok(()) => isolation.namespaces.push("user".to_owned()),
            Err(error) => isolation.shared_because = Some(error.to_string()),
        }
    }
    for (flag, name) in KINDS {
        match unshare(flag) {
            Ok(()) => isolation.namespaces.push(name.to_owned()),
            Err(error) => {
                isolation.shared_because.get_or_insert_with(|| error.to_string());
            }
        }
    }
    isolation
}

#[expect(unsafe_code, reason = "limits of processes: the crate has no other function for it")]
fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the only danger of this call is a file table that threads no longer share; `FILES` is never among the
    // flags.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(io::Error::from)
}

/// Maps the user to itself inside the namespace, where it would otherwise be `nobody`.
fn map_user(user: u32, group: u32) -> io::Result<()> {
    // Kernels require this before groups can be mapped; older ones do not have the file.
    let _ = fs_err::write("/proc/self/setgroups", "deny");
    fs_err::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs_err::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// Mounts a size-limited tmpfs over a folder, invisible to other processes.
pub(crate) fn mount_folder(folder: &Path, size: u64) -> io::Result<()> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let options = format!("size={size},nr_inodes=4096,mode=0700");
    let options = std::ffi::CString::new(options)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount("lm-eval", folder, "tmpfs", flags, Some(options.as_c_str()))?)
}

/// Unmounts it and discards its contents.
pub(crate) fn unmount_folder(folder: &Path) {
    // If this fails, the mount ends with the last process that sees it.
    let _ = unmount(folder, UnmountFlags::DETACH);
}
