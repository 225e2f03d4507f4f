//! Rights that a process has beyond those of its user.

use rustix::io::Errno;
use rustix::process::getuid;
use rustix::thread::{
    CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// Gives up every right beyond those of the user, for good.
pub(crate) fn drop_privileges(is_nobody: bool) -> Result<String, String> {
    set_no_new_privs(true).map_err(|error| error.to_string())?;
    if is_nobody {
        return Ok("none: another user, and none can be gained".to_owned());
    }
    if !getuid().is_root() {
        return Ok("those of the user, and none can be gained".to_owned());
    }
    // Without this the interpreter would get them all back.
    for number in 0..64 {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)) {
            // The first number that the kernel does not know.
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error.to_string()),
            Ok(()) => {}
        }
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .map_err(|error| error.to_string())?;
    Ok("root's, without its capabilities, and none can be gained".to_owned())
}
