//! Open files that a process got from the one that started it.

use std::io;

/// The first descriptor after standard input, output and error.
const FIRST: u32 = 3;

/// Has everything but standard input, output and error closed when this process becomes another program.
///
/// No other limit is about a file that is open already: landlock and seccomp judge opening and connecting.
pub(crate) fn close_inherited() -> io::Result<()> {
    if mark(FIRST, u32::MAX) {
        return Ok(());
    }
    // Kernels before 5.11 do not know the flag.
    let open = fs_err::read_dir("/proc/self/fd")?;
    let numbers = open.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for number in numbers.filter(|number| *number >= FIRST as i32) {
        close_on_exec(number);
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
fn close_on_exec(number: i32) {
    // SAFETY: the call takes numbers alone and closes nothing now. It fails for one that is closed already.
    unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
}
