//! Loaded into a process before the C library: the wall clock is that of the kernel plus the nanoseconds that stand in
//! the file `WALL_CLOCK`. It neither allocates nor panics, since allocators read clocks.

use std::ffi::{c_char, c_int, c_long, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI64, AtomicPtr, Ordering::Relaxed};

#[repr(C)]
pub struct Timespec {
    seconds: i64,
    nanos: i64,
}

#[repr(C)]
pub struct Timeval {
    seconds: i64,
    micros: i64,
}

unsafe extern "C" {
    fn getenv(name: *const c_char) -> *const c_char;
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn mmap(at: *mut c_void, size: usize, protection: c_int, flags: c_int, file: c_int, from: i64) -> *mut c_void;
    fn syscall(number: c_long, ...) -> c_long;
}

#[cfg(target_arch = "x86_64")]
const CLOCK_GETTIME: c_long = 228;
#[cfg(target_arch = "aarch64")]
const CLOCK_GETTIME: c_long = 113;

const REALTIME: c_int = 0;
const REALTIME_COARSE: c_int = 5;

static OFFSET: AtomicPtr<AtomicI64> = AtomicPtr::new(null_mut());
static NONE: AtomicI64 = AtomicI64::new(0);

fn offset() -> i64 {
    let known = OFFSET.load(Relaxed);
    let at = if known.is_null() { map() } else { known };
    OFFSET.store(at, Relaxed);
    // SAFETY: `map` returns a page of the file, which is never unmapped, or a static.
    unsafe { (*at).load(Relaxed) }
}

fn map() -> *mut AtomicI64 {
    let none = (&raw const NONE).cast_mut();
    // SAFETY: calls of the C library with the arguments that it documents; all results are checked.
    unsafe {
        let path = getenv(c"WALL_CLOCK".as_ptr());
        let file = if path.is_null() { -1 } else { open(path, 0) };
        if file < 0 {
            return none;
        }
        let at = mmap(null_mut(), 8, 1, 1, file, 0);
        if at as isize == -1 { none } else { at.cast() }
    }
}

/// # Safety
/// As `clock_gettime`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: c_int, into: *mut Timespec) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        let failed = syscall(CLOCK_GETTIME, clock, into) as c_int;
        if failed == 0 && (clock == REALTIME || clock == REALTIME_COARSE) {
            let all = (*into).seconds * 1_000_000_000 + (*into).nanos + offset();
            (*into).seconds = all.div_euclid(1_000_000_000);
            (*into).nanos = all.rem_euclid(1_000_000_000);
        }
        failed
    }
}

/// # Safety
/// As `gettimeofday`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(into: *mut Timeval, _zone: *mut c_void) -> c_int {
    let mut now = Timespec { seconds: 0, nanos: 0 };
    // SAFETY: as the caller promises.
    unsafe {
        let failed = clock_gettime(REALTIME, &mut now);
        if failed == 0 && !into.is_null() {
            *into = Timeval { seconds: now.seconds, micros: now.nanos / 1000 };
        }
        failed
    }
}

/// # Safety
/// As `time`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn time(into: *mut i64) -> i64 {
    let mut now = Timespec { seconds: 0, nanos: 0 };
    // SAFETY: as the caller promises.
    unsafe {
        clock_gettime(REALTIME, &mut now);
        if !into.is_null() {
            *into = now.seconds;
        }
    }
    now.seconds
}
