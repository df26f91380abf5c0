//! A heartbeat: a process that was not run for a while was paused, whoever did it. So no bound counts the time in which
//! the machine had other things to do.

use std::sync::Arc;
use std::time::Duration;

use checker::{Class, Phase, Target};

use crate::clock::{nanos, now};
use crate::log::Log;

/// The time between two beats.
const BEAT: Duration = Duration::from_millis(20);

/// Longer gaps are pauses.
const GAP: Duration = Duration::from_millis(200);

/// Notes from now on when this process stood still.
pub(crate) fn start(log: Arc<Log>, class: Class, target: Target) {
    std::thread::spawn(move || {
        let mut last = now();
        loop {
            std::thread::sleep(BEAT);
            let next = now();
            if next - last > nanos(GAP) {
                let pause = log.fault(class, target);
                pause.was(last, Phase::Begin);
                pause.was(next, Phase::Healed);
            }
            last = next;
        }
    });
}
