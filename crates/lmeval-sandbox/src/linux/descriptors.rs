//! Inherited file descriptors.

use std::io;

/// The first descriptor after standard input, output and error.
const FIRST: u32 = 3;

/// Marks all descriptors except stdin, stdout and stderr to be closed on exec.
///
/// No other limit covers a file that is already open: landlock and seccomp check opening and connecting.
pub(crate) fn close_inherited() -> io::Result<()> {
    if mark(FIRST, u32::MAX) {
        return Ok(());
    }
    // Kernels before 5.11 do not know the flag.
    let open = fs_err::read_dir("/proc/self/fd")?;
    let descriptors = open.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for descriptor in descriptors.filter(|descriptor| *descriptor >= FIRST as i32) {
        close_on_exec(descriptor);
    }
    Ok(())
}

#[expect(unsafe_code, reason = "limits of processes: no crate has a function for it")]
fn mark(first: u32, last: u32) -> bool {
    // SAFETY: the call takes three numbers; with this flag it closes nothing now, so no descriptor of this process
    // becomes invalid.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, libc::CLOSE_RANGE_CLOEXEC) == 0 }
}

#[expect(unsafe_code, reason = "limits of processes: the descriptors belong to nobody here")]
fn close_on_exec(descriptor: i32) {
    // SAFETY: the call takes only numbers and closes nothing now. It fails for a descriptor that is already closed.
    unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
}
