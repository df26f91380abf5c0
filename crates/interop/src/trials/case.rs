//! What a trial does.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// Which way something was shared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Way {
    /// The peer has it, Tenure waits for it or sees it.
    FromPeer,
    /// Tenure has it, the peer waits for it or sees it.
    FromTenure,
    /// Both at once.
    Both,
    /// Nothing is shared: it is about one side alone.
    Alone,
}

type Run<S> = Arc<dyn Fn(S) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// A case, which works on a stage `S`.
#[derive(Clone)]
pub struct Case<S> {
    /// What is locked.
    pub kind: &'static str,
    /// What happens.
    pub name: String,
    /// Which way it is shared.
    pub way: Way,
    /// Whether it is run at one server only, whatever the kind.
    pub one_server: bool,
    pub(super) run: Run<S>,
}

impl<S> Case<S> {
    /// A case that panics when it fails.
    pub fn new<F: Future<Output = ()> + Send + 'static>(
        kind: &'static str,
        name: &str,
        way: Way,
        run: impl Fn(S) -> F + Send + Sync + 'static,
    ) -> Self {
        let run: Run<S> = Arc::new(move |stage| Box::pin(run(stage)));
        Self { kind, name: name.to_owned(), way, one_server: false, run }
    }

    /// The same at one server only.
    pub fn one_server(mut self) -> Self {
        self.one_server = true;
        self
    }
}

impl<S> fmt::Debug for Case<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Case").field(&self.kind).field(&self.name).field(&self.way).finish()
    }
}
