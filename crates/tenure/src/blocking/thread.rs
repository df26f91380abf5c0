//! How a thread waits: it polls the call itself. Another thread, one for the process, only drives sockets and timers,
//! so that no runtime of the caller's is needed, and none that stands still is in the way.

use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::LazyLock;

use tokio::runtime::Handle;

use crate::backend::Background;
use crate::{Error, Owner, Result};

static BACKGROUND: LazyLock<Background> = LazyLock::new(|| Background::new("tenure-blocking"));

thread_local! {
    /// The owner of all that this thread acquires. Unlike the id of a thread it is never given to another one.
    static ME: Owner = Owner::new();
}

/// What the call comes to; the thread waits for it.
///
/// # Panics
/// On a thread that drives async tasks.
#[track_caller]
pub(crate) fn wait<T>(call: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = BACKGROUND.handle().map_err(|e| Error::Unavailable {
        backend: "blocking",
        what: "start a thread".into(),
        reason: e.to_string(),
        retry_after: None,
    })?;
    let begun = Cell::new(false);
    // Pinned here: it has nearly two kilobytes, which would be moved at each step down.
    let call = pin!(async {
        begun.set(true);
        call.await
    });
    // Tokio knows whether this thread drives tasks, but tells only by a panic.
    let done = catch_unwind(AssertUnwindSafe(|| ME.with(|me| runtime.block_on(me.scope(call)))));
    match done {
        Ok(answer) => answer,
        Err(_) if !begun.get() && Handle::try_current().is_ok() => panic!(
            "tenure::blocking was called on a thread that drives async tasks, all of which would stand still: use \
             tenure::Client there, or call it inside tokio::task::spawn_blocking"
        ),
        Err(panic) => resume_unwind(panic),
    }
}

/// Methods that are those of the async twin, but for the thread that waits.
macro_rules! waits {
    ($($(#[$doc:meta])* fn $name:ident(&self $(, $arg:ident: $type:ty)*) -> $answer:ty;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name(&self $(, $arg: $type)*) -> $crate::Result<$answer> {
            $crate::blocking::thread::wait(self.inner.$name($($arg),*))
        }
    )*};
}

/// Options that are those of the async twin.
macro_rules! options {
    ($($(#[$doc:meta])* fn $name:ident(self $(, $arg:ident: $type:ty)*);)*) => {$(
        $(#[$doc])*
        pub fn $name(self $(, $arg: $type)*) -> Self {
            Self { inner: self.inner.$name($($arg),*) }
        }
    )*};
}

pub(super) use {options, waits};
