//! The end of the process: it waits for the releases that are still under way, so that a guard dropped at the end of
//! `main` does not stay in the store for a lease.

use std::sync::{Arc, Mutex, Once, Weak};
use std::time::Duration;

use crate::engine::core::Core;

static CORES: Mutex<Vec<Weak<Core>>> = Mutex::new(Vec::new());
static REGISTERED: Once = Once::new();

/// Lets the end of the process wait for releases of this client, for at most its close timeout.
pub(crate) fn flush_at_exit(core: &Arc<Core>) {
    let mut cores = CORES.lock().unwrap();
    cores.retain(|core| core.strong_count() > 0);
    cores.push(Arc::downgrade(core));
    drop(cores);
    REGISTERED.call_once(register);
}

#[allow(unsafe_code)]
fn register() {
    // SAFETY: a plain function without arguments, which does not unwind.
    // If there is no room for another handler, dropped guards end with their leases.
    let _ = unsafe { libc::atexit(flush) };
}

/// Runs on the thread that ends the process, while all other threads still run.
extern "C" fn flush() {
    const LOOK: Duration = Duration::from_millis(1);
    let mut waited = Duration::ZERO;
    // A thread that panicked or is about to end the process may have the lock.
    let Ok(cores) = CORES.try_lock() else { return };
    // A closed client has waited already.
    for core in cores.iter().filter_map(Weak::upgrade).filter(|core| core.check_open().is_ok()) {
        while !core.is_flushed() && waited < core.settings.close_timeout {
            std::thread::sleep(LOOK);
            waited += LOOK;
        }
    }
}
