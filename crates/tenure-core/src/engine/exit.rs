//! The end of the process: it waits for the releases that are under way, so that a guard dropped at the end of `main` does
//! not stay in the store for a lease.

use std::process;
use std::sync::{Arc, Mutex, Once, Weak};
use std::time::Duration;

use crate::backend::Clock;
use crate::engine::core::Core;

/// The clients, each with the process that has its threads: a fork has only a copy of the client.
static CORES: Mutex<Vec<(u32, Weak<Core>)>> = Mutex::new(Vec::new());
static REGISTERED: Once = Once::new();

/// Lets the end of the process wait for releases of this client, for at most its close timeout.
pub(crate) fn flush_at_exit(core: &Arc<Core>) {
    let mut cores = CORES.lock().unwrap();
    cores.retain(|(_, core)| core.strong_count() > 0);
    cores.push((process::id(), Arc::downgrade(core)));
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
    // Not the clock of tokio: where it can be paused, it is asked for in a variable of this thread, which is gone by now.
    let (clock, this) = (Clock::boot(), process::id());
    let began = clock.now();
    // A thread that panicked or is about to end the process may have the lock.
    let Ok(cores) = CORES.try_lock() else { return };
    let ours = cores.iter().filter(|(process, _)| *process == this).filter_map(|(_, core)| core.upgrade());
    // A closed client has waited already.
    for core in ours.filter(|core| core.check_open().is_ok()) {
        // Not until there is none, because other threads go on. Twice, because what ends may have begun another one.
        for _ in 0..2 {
            let now = core.releases.begun();
            while !core.is_flushed_of(now) && clock.now().since(began) < core.settings.close_timeout {
                std::thread::sleep(LOOK);
            }
        }
    }
}
