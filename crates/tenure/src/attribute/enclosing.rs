//! Tracks which annotated calls enclose the running code, so that a call re-enters what those hold and nothing else.
//!
//! Each call is a frame. The enclosing frames are kept per thread, and only while a body is polled: branches of
//! `join!` do not see each other's frames, whatever thread polls them, and a body that was moved elsewhere has left
//! the calls that enclosed it.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tenure_core::{ClientId, Fence, Held, Name, Owner, Result};

/// One name that a call holds.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) client: ClientId,
    pub(super) owner: Owner,
    pub(super) held: Held,
}

/// What one call holds; has at least one entry.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) entries: Vec<Entry>,
}

/// A call whose body is running, and the call that encloses it.
pub(super) struct Running {
    frame: Arc<Frame>,
    outer: Option<Arc<Running>>,
    /// The task that runs the body. A body may drive other tasks on the same thread, by a `LocalSet` or its own
    /// runtime; those are not inside.
    task: Option<tokio::task::Id>,
}

impl Running {
    /// The owner under which an enclosing call holds this name.
    pub(super) fn owner(&self, client: ClientId, name: &Name) -> Option<&Owner> {
        let mine = self.frame.entries.iter().find(|e| e.client == client && e.held.name() == name);
        match mine {
            Some(entry) => Some(&entry.owner),
            None => self.outer.as_ref()?.owner(client, name),
        }
    }
}

thread_local! {
    static INNERMOST: RefCell<Option<Arc<Running>>> = const { RefCell::new(None) };
}

/// The innermost call that encloses the running code.
pub(super) fn innermost() -> Option<Arc<Running>> {
    let running = INNERMOST.try_with(|innermost| innermost.borrow().clone()).ok()??;
    (running.task == tokio::task::try_id()).then_some(running)
}

/// Runs `work` inside this call.
pub(super) fn inside<R>(frame: &Arc<Frame>, work: impl FnOnce() -> R) -> R {
    /// Restores the previous call, also when `work` panics.
    struct Before(Option<Arc<Running>>);
    impl Drop for Before {
        fn drop(&mut self) {
            INNERMOST.set(self.0.take());
        }
    }
    let running = Running { frame: frame.clone(), outer: innermost(), task: tokio::task::try_id() };
    let _before = Before(INNERMOST.replace(Some(Arc::new(running))));
    work()
}

/// A body that is polled inside its call.
pub(super) struct Enclosed<F> {
    pub(super) frame: Arc<Frame>,
    pub(super) body: F,
}

impl<F: Future + Unpin> Future for Enclosed<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Self { frame, body } = self.get_mut();
        inside(frame, || Pin::new(body).poll(cx))
    }
}

/// The locks of the innermost annotated call around this code; `None` outside of all of them, and in spawned tasks.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// #[tenure::distributed_lock(key = "report", client = client)]
/// async fn report(client: &tenure::Client) -> tenure::Result<Option<tenure::Fence>> {
///     Ok(tenure::current().and_then(|current| current.fence()))
/// }
///
/// let client = tenure::connect("memory:").await?;
/// assert!(report(&client).await?.is_some());
/// assert!(tenure::current().is_none());
/// # Ok(()) }
/// ```
pub fn current() -> Option<Current> {
    innermost().map(|running| Current(running.frame.clone()))
}

/// The locks that an annotated call holds. It may be stored and passed on, but keeps nothing locked.
#[derive(Clone, Debug)]
pub struct Current(Arc<Frame>);

impl Current {
    /// Each lock that is held, in the order of the keys.
    pub fn held(&self) -> impl Iterator<Item = &Held> {
        self.0.entries.iter().map(|entry| &entry.held)
    }

    /// The name that is held: the first, if there are several.
    pub fn name(&self) -> &Name {
        self.0.entries[0].held.name()
    }

    /// The fencing token of [`Current::name`]. Pass it along with each side effect, and let the protected resource
    /// reject a smaller one. Where several names are held, each has its own: [`Current::fences`].
    pub fn fence(&self) -> Option<Fence> {
        self.0.entries[0].held.fence()
    }

    /// The fencing token of each name.
    pub fn fences(&self) -> Vec<(&Name, Option<Fence>)> {
        self.held().map(|held| (held.name(), held.fence())).collect()
    }

    /// How long all of them are certain to be held. Zero when one is lost, or the call is over.
    pub fn remaining(&self) -> Duration {
        self.held().map(Held::remaining).min().unwrap_or_default()
    }

    /// Whether all of them are certain to be held right now.
    pub fn is_held(&self) -> bool {
        self.held().all(Held::is_held)
    }

    /// Fails unless all are certain to be held for another `d`: call it before a side effect that takes that long.
    ///
    /// # Errors
    /// `Lost` when one is over already or would be within `d`.
    pub fn ensure(&self, d: Duration) -> Result<()> {
        self.held().try_for_each(|held| held.ensure(d))
    }
}
