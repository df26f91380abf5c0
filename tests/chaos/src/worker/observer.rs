//! Observers of elections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use checker::What;
use tenure::Client;

use crate::clock::now;
use crate::kinds::Use;
use crate::log::Log;

/// How long it waits for the next leader before it looks whether it shall stop.
const LOOK: Duration = Duration::from_millis(500);

/// Observes one election until it is told to stop. One that fails is begun anew, by another observer.
pub(crate) async fn observe(client: Client, style: u32, log: Arc<Log>, stop: Arc<AtomicBool>) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let Some(name) = Use::Leader.names().nth(style as usize % 2) else { return };
    while !stop.load(SeqCst) {
        let observer = NEXT.fetch_add(1, SeqCst);
        let Ok(mut observed) = client.election(&name).observe() else { return };
        while !stop.load(SeqCst) {
            match tokio::time::timeout(LOOK, observed.next()).await {
                Ok(Ok(leader)) => {
                    let at = now();
                    if let Some(leader) = leader {
                        let term = leader.term.0;
                        log.write(at, What::Observed { observer, name: name.clone(), term });
                    }
                }
                Ok(Err(_)) => break,
                Err(_) => {}
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
