//! What listens is foreign code. Its panics end here: passed on, they would leave a hold without its guard, end a thread
//! of the client, or abort the process from within a destructor.

use std::future::{Future, poll_fn};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;

use tracing::Span;

/// Calls what listens. The panic hook has reported a panic already, so nothing more is said of it.
pub(crate) fn quietly<T: Default>(listener: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(listener)).unwrap_or_default()
}

/// A span, or none. It is closed when it is dropped.
#[derive(Debug)]
pub(crate) struct QuietSpan(ManuallyDrop<Span>);

impl QuietSpan {
    pub(super) fn new(span: impl FnOnce() -> Span) -> Self {
        let span = catch_unwind(AssertUnwindSafe(span)).unwrap_or_else(|_| Span::none());
        Self(ManuallyDrop::new(span))
    }

    pub(super) fn get(&self) -> &Span {
        &self.0
    }

    fn enter(&self) -> Entered<'_> {
        quietly(|| self.0.with_subscriber(|(id, subscriber)| subscriber.enter(id)));
        Entered(&self.0)
    }

    /// Runs `work` in the span.
    pub(crate) fn in_scope<T>(&self, work: impl FnOnce() -> T) -> T {
        let _entered = self.enter();
        work()
    }

    /// Runs `work` in the span, which is entered for each poll.
    pub(crate) async fn around<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|cx| self.in_scope(|| work.as_mut().poll(cx))).await
    }
}

impl Drop for QuietSpan {
    fn drop(&mut self) {
        if !self.0.is_none() {
            let span = std::mem::replace(&mut *self.0, Span::none());
            quietly(|| drop(span));
        }
    }
}

struct Entered<'a>(&'a Span);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        quietly(|| self.0.with_subscriber(|(id, subscriber)| subscriber.exit(id)));
    }
}
