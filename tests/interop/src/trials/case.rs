//! A test case.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// The direction in which a lock is shared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Direction {
    /// The peer holds it, Tenure waits for it or sees it.
    FromPeer,
    /// Tenure holds it, the peer waits for it or sees it.
    FromTenure,
    /// Both directions at once.
    Both,
    /// Nothing is shared: the case is about one side alone.
    Alone,
}

type Run<S> = Arc<dyn Fn(S) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// A test case, which runs on a fixture `S`.
#[derive(Clone)]
pub struct Case<S> {
    /// The kind of lock.
    pub kind: &'static str,
    /// What the case shows.
    pub name: String,
    /// The direction in which it is shared.
    pub direction: Direction,
    /// Whether it runs on a single server only, whatever the kind.
    pub one_server: bool,
    pub(super) run: Run<S>,
}

impl<S> Case<S> {
    /// Creates a case, which panics on failure.
    pub fn new<F: Future<Output = ()> + Send + 'static>(
        kind: &'static str,
        name: &str,
        direction: Direction,
        run: impl Fn(S) -> F + Send + Sync + 'static,
    ) -> Self {
        let run: Run<S> = Arc::new(move |fixture| Box::pin(run(fixture)));
        Self { kind, name: name.to_owned(), direction, one_server: false, run }
    }

    /// Restricts it to a single server.
    pub fn one_server(mut self) -> Self {
        self.one_server = true;
        self
    }
}

impl<S> fmt::Debug for Case<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Case").field(&self.kind).field(&self.name).field(&self.direction).finish()
    }
}
