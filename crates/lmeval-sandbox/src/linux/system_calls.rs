//! System calls, restricted by seccomp.

use std::collections::BTreeMap;

use rustix::process::getpid;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Is, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

/// Calls that reach beyond the process and that a model-generated program has no use for.
const DENIED: &[i64] = &[
    // Network. Connected stream socket pairs remain: event loops need them.
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_setsid,
    libc::SYS_setpgid,
    libc::SYS_setpriority,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setattr,
    libc::SYS_ioprio_set,
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    // File operations that landlock does not restrict.
    libc::SYS_truncate,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    libc::SYS_utimensat,
    libc::SYS_mknodat,
    libc::SYS_inotify_add_watch,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    // Memory that no process limit covers.
    libc::SYS_memfd_create,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_mq_open,
    libc::SYS_userfaultfd,
    // Large attack surfaces of the kernel.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_setup,
    libc::SYS_io_submit,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_personality,
    // The machine.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    // Privileges.
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    libc::SYS_capset,
];

/// Calls that are too new for some versions of libc. Their numbers are the same on all architectures.
const DENIED_NEW: &[i64] = &[
    447, // memfd_secret
    452, // fchmodat2
    463, // setxattrat
    466, // removexattrat
    467, // open_tree_attr
    469, // file_setattr
];

/// Older variants, which newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const DENIED_OLD: &[i64] = &[
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_mknod,
    libc::SYS_inotify_init,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_sysfs,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_setrlimit,
    // The x32 variants, with 32-bit pointers: ptrace, execve, process_vm_readv and others.
    X32 + 520,
    X32 + 521,
    X32 + 528,
    X32 + 539,
    X32 + 540,
    X32 + 543,
    X32 + 544,
    X32 + 545,
];
#[cfg(not(target_arch = "x86_64"))]
const DENIED_OLD: &[i64] = &[];

/// The bit that marks x32 calls.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

/// The only kind of socket pair that is allowed, and the bits of the argument that name a type; the rest are flags.
const AF_UNIX: u64 = libc::AF_UNIX as u64;
const SOCK_STREAM: u64 = libc::SOCK_STREAM as u64;
const SOCKET_TYPES: u64 = 0xf;

/// Denies system calls that reach beyond this process, to it and to what it executes.
pub(crate) fn deny_system_calls() -> Result<String, String> {
    let apply = || -> Result<(), seccompiler::Error> {
        for filter in filters()? {
            apply_filter(&filter)?;
        }
        Ok(())
    };
    apply().map_err(|error| error.to_string())?;
    Ok(format!("{} denied (seccomp)", DENIED.len() + DENIED_NEW.len() + DENIED_OLD.len() + 7))
}

/// Two filters, since a filter can return only one error number.
fn filters() -> Result<[BpfProgram; 2], BackendError> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter = |rules, error: i32| {
        let refuse = SeccompAction::Errno(error.unsigned_abs());
        SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture)?.try_into()
    };
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for call in DENIED.iter().chain(DENIED_NEW).chain(DENIED_OLD) {
        rules.insert(*call, Vec::new());
    }
    let own = u64::from(getpid().as_raw_nonzero().get().unsigned_abs());
    let when = |argument: u8, width: Width, is: Is, value: u64| {
        SeccompRule::new(vec![SeccompCondition::new(argument, width, is, value)?])
    };
    // Threads are allowed, processes are not.
    let thread = u64::from(libc::CLONE_THREAD.unsigned_abs());
    rules.insert(libc::SYS_clone, vec![when(0, Width::Qword, Is::MaskedEq(thread), 0)?]);
    // The process may kill itself, for example by `abort`.
    rules.insert(libc::SYS_kill, vec![when(0, Width::Dword, Is::Ne, own)?]);
    rules.insert(libc::SYS_tgkill, vec![when(0, Width::Dword, Is::Ne, own)?]);
    // Limits may be read, but not set.
    rules.insert(libc::SYS_prlimit64, vec![when(2, Width::Qword, Is::Ne, 0)?]);
    // The signal that ends the process together with its supervisor must stay set.
    let death = u64::from(libc::PR_SET_PDEATHSIG.unsigned_abs());
    rules.insert(libc::SYS_prctl, vec![when(0, Width::Dword, Is::Eq, death)?]);
    // Both ends of a stream pair stay connected to each other. Every other type takes an address with each message, and
    // so reaches any socket with a name.
    let mut pairs = vec![when(0, Width::Dword, Is::Ne, AF_UNIX)?];
    for kind in (0..=SOCKET_TYPES).filter(|kind| *kind != SOCK_STREAM) {
        pairs.push(when(1, Width::Dword, Is::MaskedEq(SOCKET_TYPES), kind)?);
    }
    rules.insert(libc::SYS_socketpair, pairs);
    #[cfg(target_arch = "x86_64")]
    for (call, conditions) in rules.clone() {
        rules.entry(call | X32).or_insert(conditions);
    }
    // A pointer leads to the flags of `clone3`, which a filter cannot follow. Libraries that are told that it does
    // not exist use `clone`.
    let newer = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    Ok([filter(rules, libc::EPERM)?, filter(newer, libc::ENOSYS)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_compile() {
        assert!(filters().unwrap().iter().all(|filter| !filter.is_empty()));
    }
}
