//! Which annotated calls enclose the code that runs now, so that a call re-enters what those hold and nothing else.
//!
//! Each call is a frame. Which frames enclose the code that runs is known to the thread, and only while bodies are
//! polled: branches of `join!` do not see each other's, whatever thread polls them, and a body that was moved elsewhere
//! has left the calls that were around it.

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

/// What one call holds. At least one entry.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) entries: Vec<Entry>,
}

/// A call whose body runs now, inside another.
pub(super) struct Running {
    frame: Arc<Frame>,
    outer: Option<Arc<Running>>,
    /// The task that runs the body. A body that drives other tasks itself, by a `LocalSet` or a runtime of its own,
    /// does so on the same thread; those are not inside.
    task: Option<tokio::task::Id>,
}

impl Running {
    /// Under whom an enclosing call holds this name.
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

/// The innermost call around the code that runs now.
pub(super) fn innermost() -> Option<Arc<Running>> {
    let running = INNERMOST.try_with(|innermost| innermost.borrow().clone()).ok()??;
    (running.task == tokio::task::try_id()).then_some(running)
}

/// Runs `work` as what this call encloses.
pub(super) fn inside<R>(frame: &Arc<Frame>, work: impl FnOnce() -> R) -> R {
    /// Puts back what was there, also when `work` panics.
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

/// A body, polled as what its call encloses.
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

/// What the innermost annotated call around this code holds; `None` outside of all of them, and in spawned tasks.
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

/// What an annotated call holds. It may be kept and handed on; it holds nothing itself.
#[derive(Clone, Debug)]
pub struct Current(Arc<Frame>);

impl Current {
    /// What is held, in the order of the keys.
    pub fn held(&self) -> impl Iterator<Item = &Held> {
        self.0.entries.iter().map(|entry| &entry.held)
    }

    /// The name that is held: the first, if there are several.
    pub fn name(&self) -> &Name {
        self.0.entries[0].held.name()
    }

    /// The fencing token of [`Current::name`]. Pass it along with each effect, and let what is protected refuse a
    /// smaller one. Where several names are held, each has its own: [`Current::fences`].
    pub fn fence(&self) -> Option<Fence> {
        self.0.entries[0].held.fence()
    }

    /// The fencing token of each name.
    pub fn fences(&self) -> Vec<(&Name, Option<Fence>)> {
        self.held().map(|held| (held.name(), held.fence())).collect()
    }

    /// For how long all of it is certain to be held. Zero when one is lost, or the call is over.
    pub fn remaining(&self) -> Duration {
        self.held().map(Held::remaining).min().unwrap_or_default()
    }

    /// Whether all of it is certain to be held at this moment.
    pub fn is_held(&self) -> bool {
        self.held().all(Held::is_held)
    }

    /// Fails unless all of it is certain to be held for another `d`: ask before an effect that takes that long.
    ///
    /// # Errors
    /// `Lost` when one is over already or would be before then.
    pub fn ensure(&self, d: Duration) -> Result<()> {
        self.held().try_for_each(|held| held.ensure(d))
    }
}
