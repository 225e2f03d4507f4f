//! Access to files, restricted by landlock.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, LandlockStatus, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

/// The newest rules to request; an older kernel applies those that it has.
const WANTED: ABI = ABI::V6;

/// Where systems install the libraries that interpreters are linked with.
const LIBRARIES: [&str; 6] = ["/usr", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];

/// Files that the linker and libc read, and stateless devices.
const FILES: [&str; 6] =
    ["/etc/ld.so.cache", "/etc/localtime", "/etc/timezone", "/dev/urandom", "/dev/random", "/dev/zero"];

/// A landlock restriction in force.
#[derive(Debug)]
pub(crate) struct Landlocked {
    /// The version of the rules.
    pub(crate) version: i32,
    /// Whether the rules also cover TCP ports.
    pub(crate) limits_network: bool,
    /// Whether the rules also cover signals and abstract sockets.
    pub(crate) limits_signals: bool,
}

/// Denies writing outside the folder, and reading outside the folder and the given paths.
pub(crate) fn restrict_files(read: &[PathBuf], folder: &Path) -> Result<Landlocked, String> {
    let status = restrict(read, folder).map_err(|error| error.to_string())?;
    let version = match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi.min(WANTED),
        LandlockStatus::NotEnabled => return Err("it is not enabled in the kernel".to_owned()),
        LandlockStatus::NotImplemented => return Err("the kernel does not support it".to_owned()),
    };
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err("the kernel does not enforce it".to_owned());
    }
    Ok(Landlocked {
        version: version as i32,
        limits_network: version >= ABI::V4,
        limits_signals: version >= ABI::V6,
    })
}

fn restrict(read: &[PathBuf], folder: &Path) -> Result<landlock::RestrictionStatus, RulesetError> {
    let reading = AccessFs::from_read(WANTED);
    let own = AccessFs::from_all(WANTED)
        & !(AccessFs::Execute | AccessFs::MakeBlock | AccessFs::MakeChar | AccessFs::MakeSock);
    Ruleset::default()
        .handle_access(AccessFs::from_all(WANTED))?
        .handle_access(AccessNet::from_all(WANTED))?
        .scope(Scope::from_all(WANTED))?
        .create()?
        .add_rules(path_beneath_rules(LIBRARIES, reading))?
        .add_rules(path_beneath_rules(read, reading))?
        .add_rules(path_beneath_rules(FILES, AccessFs::ReadFile))?
        .add_rules(path_beneath_rules(["/dev/null"], AccessFs::ReadFile | AccessFs::WriteFile))?
        .add_rules(path_beneath_rules([folder], own))?
        .restrict_self()
}
