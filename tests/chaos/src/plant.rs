//! A bug on purpose: now and then the key of a lock is deleted, as a release script would do that does not look whose
//! lock it is. What does not find this finds nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

use testbed::Resp;

use crate::cell::Cell;
use crate::kinds::Use;

/// Goes on until it is dropped.
pub(crate) struct Plant {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Plant {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The kinds whose key is their name.
const WRONGED: [Use; 3] = [Use::Lock, Use::Leader, Use::Rwlock];

/// Begins to delete keys.
///
/// # Errors
/// When the store is not Redis.
pub(crate) fn start(cell: &Cell) -> Result<Plant, String> {
    let [server, ..] = cell.deployment.redis() else { return Err("only Redis can be wronged".into()) };
    let port = server.port();
    let used = cell.uses().iter().filter(|one| WRONGED.contains(one));
    let names: Vec<String> = used.flat_map(|one| one.names()).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let thread = std::thread::spawn(move || {
        while !stopped.load(SeqCst) {
            for name in &names {
                let client = Resp::connect(port);
                // The server may be down at the moment.
                let _ = client.and_then(|mut client| {
                    client.set_timeout(Duration::from_secs(1))?;
                    client.cmd(&["DEL", name])
                });
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    });
    Ok(Plant { stop, thread: Some(thread) })
}
