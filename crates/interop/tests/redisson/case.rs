//! What a trial does.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::stage::Stage;

/// Which way something was shared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Way {
    /// Redisson has it, Tenure waits for it or sees it.
    FromRedisson,
    /// Tenure has it, Redisson waits for it or sees it.
    FromTenure,
    /// Both at once.
    Both,
    /// Nothing is shared: it is about Tenure alone.
    Alone,
}

type Run = Arc<dyn Fn(Stage) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) way: Way,
    /// Whether it is run at one server only, whatever the kind.
    pub(crate) one_server: bool,
    pub(crate) run: Run,
}

impl Case {
    pub(crate) fn new<F: Future<Output = ()> + Send + 'static>(
        kind: &'static str,
        name: &str,
        way: Way,
        run: impl Fn(Stage) -> F + Send + Sync + 'static,
    ) -> Self {
        let run: Run = Arc::new(move |stage| Box::pin(run(stage)));
        Self { kind, name: name.to_owned(), way, one_server: false, run }
    }

    pub(crate) fn one_server(mut self) -> Self {
        self.one_server = true;
        self
    }
}
