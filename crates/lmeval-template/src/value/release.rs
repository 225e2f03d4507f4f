//! Drops nested values without deep recursion.
//!
//! A template can nest values deeper than the stack allows, and the default drop recurses. Containers hand
//! their contents over here when dropped, and beyond some depth these wait until the stack has unwound.

use std::cell::{Cell, RefCell};

use super::{Iter, Val};

/// The contents of a dropped container.
#[expect(dead_code, reason = "the contents are only stored to be dropped")]
pub(super) enum Contents {
    Values(Vec<Val>),
    Iterator(Iter),
}

/// How many containers may be dropped recursively.
const MAXIMUM_DEPTH: usize = 50;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    static WAITING: RefCell<Vec<Contents>> = const { RefCell::new(Vec::new()) };
}

/// Drops contents, now or once the enclosing containers are gone.
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
