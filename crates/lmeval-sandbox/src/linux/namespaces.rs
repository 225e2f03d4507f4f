//! Names that a process does not share with others.

use std::io;
use std::path::Path;

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};
use rustix::process::{getgid, getuid};
use rustix::thread::UnshareFlags;

use crate::plan::Surroundings;

/// What is separated, with what the reports call it.
const KINDS: [(UnshareFlags, &str); 5] = [
    (UnshareFlags::NEWNET, "network"),
    (UnshareFlags::NEWPID, "process"),
    (UnshareFlags::NEWIPC, "ipc"),
    (UnshareFlags::NEWUTS, "host"),
    (UnshareFlags::NEWNS, "mount"),
];

/// Gives the processes that this one starts from now on names of their own, as far as the kernel allows it.
///
/// With the right to do so nothing else is needed; without, a user of their own comes first.
pub(crate) fn separate(is_nobody: bool) -> Surroundings {
    let mut around = Surroundings { is_nobody, ..Surroundings::default() };
    if !is_nobody {
        let (user, group) = (getuid().as_raw(), getgid().as_raw());
        match unshare(UnshareFlags::NEWUSER).and_then(|()| map_user(user, group)) {
            Ok(()) => around.namespaces.push("user".to_owned()),
            Err(error) => around.shared_because = Some(error.to_string()),
        }
    }
    for (flag, name) in KINDS {
        match unshare(flag) {
            Ok(()) => around.namespaces.push(name.to_owned()),
            Err(error) => {
                around.shared_because.get_or_insert_with(|| error.to_string());
            }
        }
    }
    around
}

#[expect(unsafe_code, reason = "limits of processes: the crate has no other function for it")]
fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the one danger of this call are tables of files that threads no longer share; `FILES` is never among
    // the flags.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(io::Error::from)
}

/// Makes the user the same one inside: without this it is nobody at all.
fn map_user(user: u32, group: u32) -> io::Result<()> {
    // Kernels demand this before groups can be mapped; older ones do not have the file.
    let _ = fs_err::write("/proc/self/setgroups", "deny");
    fs_err::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs_err::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// Puts a file system of a limited size, in memory, over a folder. Others do not see it.
pub(crate) fn mount_folder(folder: &Path, size: u64) -> io::Result<()> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let options = format!("size={size},nr_inodes=4096,mode=0700");
    let options = std::ffi::CString::new(options)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount("lm-eval", folder, "tmpfs", flags, Some(options.as_c_str()))?)
}

/// Takes it away again, with all that is in it.
pub(crate) fn unmount_folder(folder: &Path) {
    // Where this fails it goes with the last process that sees it.
    let _ = unmount(folder, UnmountFlags::DETACH);
}
