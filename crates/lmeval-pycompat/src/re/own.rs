//! Each thread's own copies of compiled forms.
//!
//! A form of the `regex` crate keeps its scratch space in a pool that threads share, and each set of captures counts
//! references to the form. Threads that use one form at the same time wait for one another at both places, so that two
//! are no faster than one. A copy for each thread shares nothing that is written.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use regex::{CaptureLocations, Regex};

/// How many copies a thread keeps; those that were not used for the longest time go first.
const KEPT: usize = 16;

thread_local! {
    static COPIES: RefCell<Vec<Copy>> = const { RefCell::new(Vec::new()) };
}

/// The identity of a compiled form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FormId(u64);

impl FormId {
    /// An identity that no other form has.
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

struct Copy {
    form: FormId,
    compiled: Regex,
    groups: CaptureLocations,
}

/// A thread's own copy of a form, which goes back to the thread in the end.
pub(super) struct OwnForm {
    copy: Option<Copy>,
}

impl OwnForm {
    /// The copy of this thread.
    pub(super) fn of(form: FormId, compiled: &Regex) -> Self {
        let kept = COPIES.try_with(|copies| {
            let mut copies = copies.try_borrow_mut().ok()?;
            let place = copies.iter().rposition(|copy| copy.form == form)?;
            Some(copies.remove(place))
        });
        let copy = kept.ok().flatten().unwrap_or_else(|| {
            let compiled = compiled.clone();
            Copy { form, groups: compiled.capture_locations(), compiled }
        });
        Self { copy: Some(copy) }
    }

    /// Where the first match at or after a place lies.
    pub(super) fn find(&self, text: &str, from: usize) -> Option<Range<usize>> {
        Some(self.copy.as_ref()?.compiled.find_at(text, from)?.range())
    }

    /// Where the groups of the first match at or after a place lie, group 0 included.
    pub(super) fn captures(&mut self, text: &str, from: usize) -> Option<Vec<Option<Range<usize>>>> {
        let Copy { compiled, groups, .. } = self.copy.as_mut()?;
        compiled.captures_read_at(groups, text, from)?;
        Some((0..groups.len()).map(|group| groups.get(group).map(|(start, end)| start..end)).collect())
    }
}

impl Drop for OwnForm {
    fn drop(&mut self) {
        let Some(copy) = self.copy.take() else { return };
        // While a thread ends there is nowhere to put it.
        let _ = COPIES.try_with(|copies| {
            if let Ok(mut copies) = copies.try_borrow_mut() {
                if copies.len() >= KEPT {
                    copies.remove(0);
                }
                copies.push(copy);
            }
        });
    }
}
