//! The live line: what each store is doing.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use checker::Store;

/// What a store is doing.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    store: Store,
    shared: Shared,
}

type Shared = Arc<Mutex<Vec<(Store, String)>>>;

impl Status {
    pub(crate) fn say(&self, what: &str) {
        self.change(Some(what));
    }

    /// It is done.
    pub(crate) fn end(&self) {
        self.change(None);
    }

    fn change(&self, what: Option<&str>) {
        let mut all = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(store, _)| *store != self.store);
        all.extend(what.map(|what| (self.store, what.to_owned())));
    }
}

/// The line, which is written again and again until it is dropped.
pub(crate) struct Progress {
    shared: Shared,
}

impl Progress {
    pub(crate) fn start() -> Self {
        let shared = Shared::default();
        let shown = Arc::downgrade(&shared);
        std::thread::spawn(move || {
            let begin = Instant::now();
            let is_live = std::io::stderr().is_terminal();
            let between = Duration::from_secs(if is_live { 1 } else { 10 });
            loop {
                std::thread::sleep(between);
                let Some(shared) = shown.upgrade() else { return };
                let all = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let all: Vec<String> = all.iter().map(|(store, what)| format!("{store}: {what}")).collect();
                let line = format!("{} s  {}", begin.elapsed().as_secs(), all.join("  |  "));
                let mut out = std::io::stderr().lock();
                // Only for people: a closed terminal is no reason to stop.
                let _ = match is_live {
                    true => write!(out, "\r\x1b[K{}", line.chars().take(150).collect::<String>()),
                    false => writeln!(out, "{line}"),
                };
                let _ = out.flush();
            }
        });
        Self { shared }
    }

    pub(crate) fn of(&self, store: Store) -> Status {
        Status { store, shared: self.shared.clone() }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if std::io::stderr().is_terminal() {
            eprint!("\r\x1b[K");
        }
    }
}
