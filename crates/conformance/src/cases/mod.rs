//! The cases, by what they are about.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tenure::Family;

use crate::Bench;

type Run = Box<dyn Fn(Arc<Bench>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// One case.
pub struct Case {
    /// What it is about, then what it shows: `fair::serves_in_order`.
    pub name: String,
    /// What the store must serve.
    pub needs: &'static [Family],
    /// Whether it starts other processes.
    pub processes: bool,
    /// Whether it also runs behind a bad network.
    pub chaos: bool,
    /// The case.
    pub run: Run,
}

impl Case {
    /// A case that runs everywhere.
    pub fn new<F: Future<Output = ()> + Send + 'static>(
        name: impl Into<String>,
        needs: &'static [Family],
        run: impl Fn(Arc<Bench>) -> F + Send + Sync + 'static,
    ) -> Self {
        let run: Run = Box::new(move |bench| Box::pin(run(bench)));
        Self { name: name.into(), needs, processes: false, chaos: true, run }
    }

    /// It starts other processes.
    #[must_use]
    pub fn processes(self) -> Self {
        Self { processes: true, ..self }
    }

    /// It has a network of its own, or measures times that a bad one spoils.
    #[must_use]
    pub fn calm(self) -> Self {
        Self { chaos: false, ..self }
    }
}

/// `cases!["group"; needs; a, b, c]`: the functions of a module as cases.
macro_rules! cases {
    ($group:literal; $needs:expr; $($case:ident),* $(,)?) => {
        vec![$($crate::cases::Case::new(concat!($group, "::", stringify!($case)), $needs, $case)),*]
    };
}

mod exclusive;
mod fair;
mod holding;
mod oracle;
mod processes;
mod runtimes;
mod scenarios;

/// Every case there is.
pub fn all() -> Vec<Case> {
    let mut all = Vec::new();
    all.extend(exclusive::cases());
    all.extend(fair::cases());
    all.extend(holding::cases());
    all.extend(oracle::cases());
    all.extend(processes::cases());
    all.extend(runtimes::cases());
    all.extend(scenarios::cases());
    all
}
