//! How a thread waits: it polls the future itself. One background thread per process drives sockets and timers, so
//! that the caller needs no runtime, and a blocked runtime cannot stall the call.

use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::process;
use std::sync::OnceLock;

use tokio::runtime::Handle;

use crate::backend::Background;
use crate::{Error, Owner, Result};

/// The background of a process, and of those that were forked from it: a fork has no copy of the thread.
struct OfProcess {
    id: u32,
    background: Background,
    fork: Box<OnceLock<OfProcess>>,
}

static FIRST: OnceLock<OfProcess> = OnceLock::new();

fn background() -> &'static Background {
    let id = process::id();
    let of_this = || OfProcess { id, background: Background::new("tenure-blocking"), fork: Box::default() };
    let mut known = FIRST.get_or_init(of_this);
    while known.id != id {
        known = known.fork.get_or_init(of_this);
    }
    &known.background
}

thread_local! {
    /// The owner of all that this thread acquires. Unlike a thread id it is never reused.
    static THREAD_OWNER: Owner = Owner::new();
}

/// Blocks the thread until the future is done.
///
/// # Panics
/// On a thread that runs async tasks.
#[track_caller]
pub(crate) fn block_on<T>(call: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = background().handle().map_err(|e| Error::unavailable("blocking", "start a thread", e))?;
    let started = Cell::new(false);
    // Pinned here, because it is nearly two kilobytes and would otherwise be moved through every call below.
    let call = pin!(async {
        started.set(true);
        call.await
    });
    // Tokio detects that this thread runs tasks, but reports it only by a panic.
    let done = catch_unwind(AssertUnwindSafe(|| THREAD_OWNER.with(|me| runtime.block_on(me.scope(call)))));
    match done {
        Ok(answer) => answer,
        Err(_) if !started.get() && Handle::try_current().is_ok() => panic!(
            "tenure::blocking was called on a thread that runs async tasks, which would all be blocked: use \
             tenure::Client there, or call it inside tokio::task::spawn_blocking"
        ),
        Err(panic) => resume_unwind(panic),
    }
}

/// Generates blocking methods that forward to those of the async type.
macro_rules! forward_blocking {
    ($($(#[$doc:meta])* fn $name:ident(&self $(, $arg:ident: $type:ty)*) -> $answer:ty;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name(&self $(, $arg: $type)*) -> $crate::Result<$answer> {
            $crate::blocking::thread::block_on(self.inner.$name($($arg),*))
        }
    )*};
}

/// Generates options that forward to those of the async type.
macro_rules! forward_options {
    ($($(#[$doc:meta])* fn $name:ident(self $(, $arg:ident: $type:ty)*);)*) => {$(
        $(#[$doc])*
        pub fn $name(self $(, $arg: $type)*) -> Self {
            Self { inner: self.inner.$name($($arg),*) }
        }
    )*};
}

pub(super) use {forward_blocking, forward_options};
