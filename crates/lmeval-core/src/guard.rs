//! Containment of libraries that panic on invalid input.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs code that may panic inside a library, and returns the panic message as an error. Discard everything the code
/// touched if it fails.
///
/// ```
/// assert_eq!(lmeval_core::guarded(|| 1 + 1), Ok(2));
/// assert_eq!(lmeval_core::guarded(|| Vec::<u8>::new()[3]).is_err(), true);
/// ```
pub fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let outer = GUARDED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(outer);
    done.map_err(|payload| panic_message(&*payload))
}

/// Whether a panic on this thread is caught by [`guarded`], so the panic hook need not report it.
pub fn is_guarded() -> bool {
    GUARDED.get()
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}
