//! What the tests of the Java drivers have in common.

use std::path::Path;

use interop::trials::TrialProcess;

pub(crate) fn is_running(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// Runs a closed loop of three threads, and asserts that its report is plausible: how long it took, and the waits
/// of each.
pub(crate) async fn assert_loop_reports(jvm: &TrialProcess, request: &str) {
    let report = jvm.call("t1", request).await;
    let (nanos, tasks) = report.split_once(' ').expect("two words");
    let number = |word: &str| word.parse::<u64>().unwrap();
    assert!(number(nanos) > 0, "{report}");
    let tasks = tasks.split(';').map(|waits| {
        let waits = waits.split(',').map(|bucket| number(bucket.split_once(':').unwrap().1));
        waits.sum::<u64>()
    });
    let turns: Vec<u64> = tasks.collect();
    // Each of the three at least once.
    assert!(turns.len() == 3 && turns.iter().all(|n| *n > 0), "{report}");
}
