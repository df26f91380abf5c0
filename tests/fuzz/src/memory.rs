//! Counts allocated bytes, of all threads: how much there is, and the most there was since it was last asked.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, counted.
pub(crate) struct Counting;

fn add(bytes: usize) {
    let now = NOW.fetch_add(bytes, Relaxed) + bytes;
    MOST.fetch_max(now, Relaxed);
}

// SAFETY: every call is passed on unchanged to the system's allocator; counting allocates nothing.
#[expect(unsafe_code, reason = "an allocator can only be counted by being one")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: as for `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as for `alloc`; the pointer came from there.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both exist while it is copied.
        add(size);
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as for `dealloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Runs `work`, and returns how many more bytes were allocated at once during it than before.
pub(crate) fn used(work: impl FnOnce()) -> usize {
    let before = NOW.load(Relaxed);
    MOST.store(before, Relaxed);
    work();
    MOST.load(Relaxed).saturating_sub(before)
}

/// Keeps the other tests out that count memory or panics, or that use much of either.
#[cfg(test)]
pub(crate) fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_at_once_is_counted_even_if_it_is_freed() {
        let _alone = alone();
        assert!(used(|| drop(std::hint::black_box(vec![7_u8; 3 << 20]))) >= 3 << 20);
    }
}
