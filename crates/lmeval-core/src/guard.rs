//! Libraries that panic on input they should refuse.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs work that may panic in a library, and gives what the panic said. Nothing of the work may be used afterwards.
///
/// ```
/// assert_eq!(lmeval_core::guarded(|| 1 + 1), Ok(2));
/// assert_eq!(lmeval_core::guarded(|| Vec::<u8>::new()[3]).is_err(), true);
/// ```
pub fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let outer = GUARDED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(outer);
    done.map_err(|payload| said(&*payload))
}

/// Whether a panic of this thread becomes an error, so that nobody need be told of it.
pub fn is_guarded() -> bool {
    GUARDED.get()
}

fn said(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}
