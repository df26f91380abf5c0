//! Who stands in the queue of the store, looked at now and then: from that moment on whoever comes is behind. A waiter
//! does not know this of itself, so it is found at the end by the id of the hold that its call returned.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

use checker::{Answer, Event, History, What};

use crate::clock::now;
use crate::kinds::Use;
use crate::worker;

/// The time between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// The kinds that are served in order.
const ORDERED: [Use; 2] = [Use::Fair, Use::Rwlock];

/// Looks until it is asked what it has seen.
pub(crate) struct Watcher {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<HashMap<String, u64>>,
}

impl Watcher {
    /// Begins to look at the store at this address.
    pub(crate) fn start(url: String, uses: &[Use]) -> Self {
        let uses: Vec<Use> = uses.iter().copied().filter(|one| ORDERED.contains(one)).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        Self { stop, thread: std::thread::spawn(move || look(&url, &uses, &stopped)) }
    }

    /// When each waiter was first seen.
    pub(crate) fn seen(self) -> HashMap<String, u64> {
        self.stop.store(true, SeqCst);
        self.thread.join().unwrap_or_default()
    }
}

fn look(url: &str, uses: &[Use], stop: &AtomicBool) -> HashMap<String, u64> {
    let mut seen = HashMap::new();
    if uses.is_empty() {
        return seen;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut client = None;
        while !stop.load(SeqCst) {
            tokio::time::sleep(LOOK).await;
            if client.is_none() {
                // A fault may be under way.
                client = tenure::connect(url).await.ok();
            }
            let Some(client) = &client else { continue };
            let Ok(shown) = worker::inspect(client, uses).await else { continue };
            let at = now();
            for id in shown.into_iter().flat_map(|name| name.waiters) {
                seen.entry(id).or_insert(at);
            }
        }
        if let Some(client) = client {
            let _ = client.close().await;
        }
    });
    seen
}

/// The waiters that were seen before they were served, as events.
pub(crate) fn events(history: &History, seen: &HashMap<String, u64>) -> Vec<Event> {
    // Later entries into a hold return its id, too.
    let mut known = HashSet::new();
    let queued = |event: &Event| {
        let What::Answer { op, answer: Answer::Granted(granted) } = &event.what else { return None };
        let hold = granted.hold.as_ref()?;
        let at = *seen.get(hold).filter(|_| known.insert(hold.clone()))?;
        (at < event.at).then_some(Event { at, process: event.process, what: What::Queued { of: *op } })
    };
    history.events().iter().filter_map(queued).collect()
}
