//! The cases, by subject.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tenure::Family;

use crate::Harness;

type Run = Box<dyn Fn(Arc<Harness>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// One case.
pub struct Case {
    /// Subject and claim: `fair::serves_in_order`.
    pub name: String,
    /// Families that the store must support.
    pub needs: &'static [Family],
    /// Whether it starts other processes.
    pub processes: bool,
    /// Whether it also runs behind a faulty network.
    pub chaos: bool,
    /// The function to run.
    pub run: Run,
}

impl Case {
    /// Creates a case that runs everywhere.
    pub fn new<F: Future<Output = ()> + Send + 'static>(
        name: impl Into<String>,
        needs: &'static [Family],
        run: impl Fn(Arc<Harness>) -> F + Send + Sync + 'static,
    ) -> Self {
        let run: Run = Box::new(move |harness| Box::pin(run(harness)));
        Self { name: name.into(), needs, processes: false, chaos: true, run }
    }

    /// Marks a case that starts other processes.
    #[must_use]
    pub fn processes(self) -> Self {
        Self { processes: true, ..self }
    }

    /// Excludes a case from the faulty network: it injects its own faults, or measures times that faults would spoil.
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

mod counting;
mod election;
mod exclusive;
mod fair;
mod holding;
mod interceptors;
mod latch;
mod multi;
mod names;
mod oracle;
mod passed_on;
mod permits;
mod processes;
mod replies;
mod runtimes;
mod rwlock;
mod rwlock_reentry;
mod scenarios;
mod unpolled;
mod verification;
mod work;

/// Every case there is.
pub fn all() -> Vec<Case> {
    let mut all = Vec::new();
    all.extend(counting::cases());
    all.extend(election::cases());
    all.extend(exclusive::cases());
    all.extend(fair::cases());
    all.extend(holding::cases());
    all.extend(latch::cases());
    all.extend(multi::cases());
    all.extend(passed_on::cases());
    all.extend(names::cases());
    all.extend(oracle::cases());
    all.extend(permits::cases());
    all.extend(processes::cases());
    all.extend(replies::cases());
    all.extend(runtimes::cases());
    all.extend(rwlock::cases());
    all.extend(rwlock_reentry::cases());
    all.extend(scenarios::cases());
    all.extend(unpolled::cases());
    all.extend(verification::cases());
    all.extend(work::cases());
    all
}
