//! The stack of annotated calls that enclose the running code, so that a call re-enters what those hold and nothing
//! else.
//!
//! Each call is a frame. Frames are pushed per thread, and only while a body is polled: branches of `join!` do not see
//! each other's frames, whatever thread polls them, and a body that was moved to another task has left the calls that
//! enclosed it.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tenure_core::{ClientId, Fence, Held, Name, Owner, Result};

/// One name that a call holds.
#[derive(Debug)]
pub(super) struct HeldLock {
    pub(super) client: ClientId,
    pub(super) owner: Owner,
    pub(super) held: Held,
}

/// What one call holds: at least one lock.
#[derive(Debug)]
pub(super) struct CallLocks(pub(super) Vec<HeldLock>);

/// A call whose body is running, and the frame of the call that encloses it.
pub(super) struct Frame {
    locks: Arc<CallLocks>,
    outer: Option<Arc<Frame>>,
    /// The task that runs the body. A body may drive other tasks on the same thread, by a `LocalSet` or its own
    /// runtime; those are not enclosed by the call.
    task: Option<tokio::task::Id>,
}

impl Frame {
    /// The owner under which an enclosing call holds this name.
    pub(super) fn owner(&self, client: ClientId, name: &Name) -> Option<&Owner> {
        let own = self.locks.0.iter().find(|lock| lock.client == client && lock.held.name() == name);
        match own {
            Some(lock) => Some(&lock.owner),
            None => self.outer.as_ref()?.owner(client, name),
        }
    }
}

thread_local! {
    static INNERMOST: RefCell<Option<Arc<Frame>>> = const { RefCell::new(None) };
}

/// The innermost call that encloses the running code.
pub(super) fn innermost_frame() -> Option<Arc<Frame>> {
    let frame = INNERMOST.try_with(|innermost| innermost.borrow().clone()).ok()??;
    (frame.task == tokio::task::try_id()).then_some(frame)
}

/// Runs `work` with a frame for these locks on the stack.
pub(super) fn run_in_frame<R>(locks: &Arc<CallLocks>, work: impl FnOnce() -> R) -> R {
    /// Restores the previous frame, also when `work` panics.
    struct Restore(Option<Arc<Frame>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            INNERMOST.set(self.0.take());
        }
    }
    let frame = Frame { locks: locks.clone(), outer: innermost_frame(), task: tokio::task::try_id() };
    let _restore = Restore(INNERMOST.replace(Some(Arc::new(frame))));
    work()
}

/// A body that is polled with the frame of its call on the stack.
pub(super) struct InFrame<F> {
    pub(super) locks: Arc<CallLocks>,
    pub(super) body: F,
}

impl<F: Future + Unpin> Future for InFrame<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Self { locks, body } = self.get_mut();
        run_in_frame(locks, || Pin::new(body).poll(cx))
    }
}

/// Returns the locks of the innermost annotated call around this code; `None` outside of all of them, and in spawned
/// tasks.
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
    innermost_frame().map(|frame| Current(frame.locks.clone()))
}

/// The locks that an annotated call holds. It may be stored and passed on, but keeps nothing locked.
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// #[tenure::distributed_lock(key = [from, to], prefix = "account", client = client)]
/// async fn transfer(client: &tenure::Client, from: u32, to: u32) -> tenure::Result<()> {
///     let current = tenure::current().expect("the locks are held");
///     current.ensure(Duration::from_secs(5))?; // certain to be held for that long
///     assert!(current.is_held() && current.remaining() > Duration::from_secs(5));
///     assert_eq!((current.name().as_str(), current.held().count()), ("account:1", 2));
///     for (name, fence) in current.fences() {
///         println!("{name}: pass {fence:?} along with each write");
///     }
///     Ok(())
/// }
///
/// let client = tenure::connect("memory:").await?;
/// transfer(&client, 1, 2).await
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Current(Arc<CallLocks>);

impl Current {
    /// Returns each lock that is held, in the order of the keys.
    pub fn held(&self) -> impl Iterator<Item = &Held> {
        self.0.0.iter().map(|lock| &lock.held)
    }

    /// Returns the name that is held; the first one if there are several.
    pub fn name(&self) -> &Name {
        self.0.0[0].held.name()
    }

    /// Returns the fencing token of [`Current::name`]. Pass it along with each write, and let the protected resource
    /// refuse a smaller one. Where several names are held, each has its own: [`Current::fences`].
    pub fn fence(&self) -> Option<Fence> {
        self.0.0[0].held.fence()
    }

    /// Returns the fencing token of each name.
    pub fn fences(&self) -> Vec<(&Name, Option<Fence>)> {
        self.held().map(|held| (held.name(), held.fence())).collect()
    }

    /// Returns how long all of them are certain to be held. Zero when one is lost, or the call is over.
    pub fn remaining(&self) -> Duration {
        self.held().map(Held::remaining).min().unwrap_or_default()
    }

    /// Whether all of them are certain to be held now.
    pub fn is_held(&self) -> bool {
        self.held().all(Held::is_held)
    }

    /// Fails unless all are certain to be held for another `d`: call it before an operation that takes that long.
    ///
    /// # Errors
    /// `Lost` when one is lost already or would be before then.
    pub fn ensure(&self, d: Duration) -> Result<()> {
        self.held().try_for_each(|held| held.ensure(d))
    }
}
