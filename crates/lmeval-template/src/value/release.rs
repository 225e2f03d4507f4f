//! Letting go of nested values without deep recursion.
//!
//! A template can nest values deeper than the stack is, and the compiler's own way to drop them recurses. So containers
//! hand their contents over here when they are dropped, and from some depth on these wait until the stack is free.

use std::cell::{Cell, RefCell};

use super::{Iter, Val};

/// What a dropped container held; nobody looks at it again.
#[expect(dead_code, reason = "the contents are only kept to be dropped")]
pub(super) enum Contents {
    Values(Vec<Val>),
    Iterator(Iter),
}

/// How many containers may be dropped inside of each other.
const MAXIMUM_DEPTH: usize = 50;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    static WAITING: RefCell<Vec<Contents>> = const { RefCell::new(Vec::new()) };
}

/// Drops contents, now or once the containers around them are gone.
pub(super) fn release(contents: Contents) {
    let depth = DEPTH.get();
    if depth >= MAXIMUM_DEPTH {
        WAITING.with_borrow_mut(|waiting| waiting.push(contents));
        return;
    }
    DEPTH.set(depth + 1);
    drop(contents);
    if depth == 0 {
        while let Some(next) = WAITING.with_borrow_mut(Vec::pop) {
            drop(next);
        }
    }
    DEPTH.set(depth);
}
