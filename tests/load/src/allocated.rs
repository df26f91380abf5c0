//! How much this process has allocated, to the byte: neither what the allocator keeps nor whole pages.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counted;

#[global_allocator]
static ALLOCATOR: Counted = Counted;

fn more(bytes: usize) {
    PEAK.fetch_max(BYTES.fetch_add(bytes, Relaxed) + bytes, Relaxed);
}

fn less(bytes: usize) {
    BYTES.fetch_sub(bytes, Relaxed);
}

#[allow(unsafe_code)]
// SAFETY: an allocator can only be written with unsafe code; each call goes to the system's, with the same arguments.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        more(layout.size());
        // SAFETY: these are the caller's arguments.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        less(layout.size());
        // SAFETY: these are the caller's arguments.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        more(size);
        less(layout.size());
        // SAFETY: these are the caller's arguments.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// How many bytes are allocated.
pub(crate) fn now() -> u64 {
    BYTES.load(Relaxed) as u64
}

/// The most bytes that were allocated since the last call.
pub(crate) fn peak() -> u64 {
    PEAK.swap(BYTES.load(Relaxed), Relaxed) as u64
}
