//! Privileges beyond those of the user.

use rustix::io::Errno;
use rustix::process::getuid;
use rustix::thread::{
    CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// Permanently drops every privilege beyond those of the user.
pub(crate) fn drop_privileges(is_nobody: bool) -> Result<String, String> {
    set_no_new_privs(true).map_err(|error| error.to_string())?;
    if is_nobody {
        return Ok("none: another user, and none can be gained".to_owned());
    }
    if !getuid().is_root() {
        return Ok("those of the user, and none can be gained".to_owned());
    }
    // Otherwise the interpreter would regain them all.
    for capability in 0..64 {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << capability)) {
            // The first capability that the kernel does not know.
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
