//! What this process uses, from `/proc/self`.

use std::time::Duration;

use crate::allocated;

/// Memory in bytes, threads and descriptors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) memory: u64,
    /// What is allocated of it.
    pub(crate) allocated: u64,
    /// What this process has used of a core.
    pub(crate) cpu: Duration,
    /// The most memory so far.
    pub(crate) peak: u64,
    pub(crate) threads: u64,
    pub(crate) descriptors: u64,
}

impl Usage {
    pub(crate) fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").expect("a status");
        let bytes = |field: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(field)).expect(field);
            line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().expect("a number")
                * 1024
        };
        Self {
            memory: bytes("VmRSS"),
            allocated: allocated::now(),
            cpu: cpu_of("self"),
            peak: bytes("VmHWM"),
            threads: entries("/proc/self/task"),
            // Without the one by which they are listed.
            descriptors: entries("/proc/self/fd") - 1,
        }
    }

    /// The least that is used within a second: threads of clients that were closed may still end.
    pub(crate) async fn at_rest() -> Self {
        let mut least = Self::now();
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let now = Self::now();
            least.threads = least.threads.min(now.threads);
            least.descriptors = least.descriptors.min(now.descriptors);
            (least.memory, least.peak, least.allocated) = (now.memory, now.peak, now.allocated);
        }
        least
    }

    /// Waits until no more threads and descriptors are used than before: those of a runtime end when they are idle.
    pub(crate) async fn return_to(before: Self) -> Self {
        let until = tokio::time::Instant::now() + testbed::patience();
        loop {
            let now = Self::now();
            let is_back = now.threads <= before.threads && now.descriptors <= before.descriptors;
            if is_back || tokio::time::Instant::now() > until {
                return now;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// What a process has used of a core so far.
pub(crate) fn cpu_of(process: &str) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("a process");
    // The name of the program, in brackets, may contain blanks.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|n| n.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 10)
}

/// Lets this process open as many files as the system allows it.
pub(crate) fn raise_limit_of_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

fn entries(folder: &str) -> u64 {
    std::fs::read_dir(folder).expect(folder).count() as u64
}
