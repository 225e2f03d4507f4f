//! Linux mechanisms that limit a process.

mod descriptors;
mod files;
mod namespaces;
mod privileges;
mod processes;
mod system_calls;

pub(crate) use descriptors::close_inherited;
pub(crate) use files::{Landlocked, restrict_files};
pub(crate) use namespaces::{mount_folder, separate, unmount_folder};
pub(crate) use privileges::drop_privileges;
pub(crate) use processes::{adopt_orphans, end_orphans, end_with_parent};
pub(crate) use system_calls::deny_system_calls;
