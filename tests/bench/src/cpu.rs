//! CPU time of other processes, from `/proc`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::Result;

/// Unit of `utime` and `stime`, on every Linux there is.
const TICK: Duration = Duration::from_millis(10);

/// Returns the CPU time of these processes so far, in user and kernel mode.
pub(crate) fn used(pids: &[u32]) -> Result<Duration> {
    let mut sum = Duration::ZERO;
    for pid in pids {
        let place = Path::new("/proc").join(pid.to_string());
        sum += match scheduled(&place) {
            Some(time) => time,
            None => ticks(&fs::read_to_string(place.join("stat"))?).ok_or("no times in /proc/PID/stat")?,
        };
    }
    Ok(sum)
}

/// Returns the CPU time in nanoseconds, if the kernel counts it: the sum over many processes that each use less than a
/// tick would otherwise be arbitrary.
fn scheduled(place: &Path) -> Option<Duration> {
    let mut nanos = 0;
    for thread in fs::read_dir(place.join("task")).ok()? {
        let text = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        nanos += text.split(' ').next()?.parse::<u64>().ok()?;
    }
    (nanos > 0).then(|| Duration::from_nanos(nanos))
}

fn ticks(stat: &str) -> Option<Duration> {
    // The name in parentheses may contain anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, kernel): (u32, u32) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(TICK * (user + kernel))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_a_strange_name() {
        let stat = "77 (a) b) S 1 77 77 0 -1 4194304 105 0 1 0 7 5 0 0 20 0 1 0 357268";
        assert_eq!(ticks(stat), Some(TICK * 12));
        assert_eq!(ticks("77"), None);
    }

    #[test]
    fn this_process_has_used_some() {
        // Spin until it is counted: how long that takes depends on the load of the machine.
        let me = [std::process::id()];
        let before = used(&me).unwrap();
        while used(&me).unwrap() < before + 2 * TICK {}
    }
}
