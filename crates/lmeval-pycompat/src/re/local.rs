//! Thread-local copies of compiled forms.
//!
//! A form of the `regex` crate has its scratch space in a pool shared by threads, and each set of captures counts
//! references to the form. Threads that use one form at the same time contend for both, so two run at the speed of
//! one. A copy per thread shares nothing that is written.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use regex::{CaptureLocations, Regex};

/// The number of copies per thread; the least recently used ones are dropped.
const CAPACITY: usize = 16;

thread_local! {
    static COPIES: RefCell<Vec<Copy>> = const { RefCell::new(Vec::new()) };
}

/// Identifies a compiled form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FormId(u64);

impl FormId {
    /// Creates a unique id.
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

/// A thread's copy of a form, returned to the thread on drop.
pub(super) struct LocalForm {
    copy: Option<Copy>,
}

impl LocalForm {
    /// Takes the copy of this thread.
    pub(super) fn of(form: FormId, compiled: &Regex) -> Self {
        let kept = COPIES.try_with(|copies| {
            let mut copies = copies.try_borrow_mut().ok()?;
            let index = copies.iter().rposition(|copy| copy.form == form)?;
            Some(copies.remove(index))
        });
        let copy = kept.ok().flatten().unwrap_or_else(|| {
            let compiled = compiled.clone();
            Copy { form, groups: compiled.capture_locations(), compiled }
        });
        Self { copy: Some(copy) }
    }

    /// The byte range of the first match at or after an offset.
    pub(super) fn find(&self, text: &str, from: usize) -> Option<Range<usize>> {
        Some(self.copy.as_ref()?.compiled.find_at(text, from)?.range())
    }

    /// The byte ranges of the groups of the first match at or after an offset, including group 0.
    pub(super) fn captures(&mut self, text: &str, from: usize) -> Option<Vec<Option<Range<usize>>>> {
        let Copy { compiled, groups, .. } = self.copy.as_mut()?;
        compiled.captures_read_at(groups, text, from)?;
        Some((0..groups.len()).map(|group| groups.get(group).map(|(start, end)| start..end)).collect())
    }
}

impl Drop for LocalForm {
    fn drop(&mut self) {
        let Some(copy) = self.copy.take() else { return };
        // The thread-local may be gone if the thread is ending.
        let _ = COPIES.try_with(|copies| {
            if let Ok(mut copies) = copies.try_borrow_mut() {
                if copies.len() >= CAPACITY {
                    copies.remove(0);
                }
                copies.push(copy);
            }
        });
    }
}
