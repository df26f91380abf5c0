//! What the tests of the Java drivers have in common.

use std::path::Path;

use interop::trials::TrialProcess;

pub(crate) fn is_running(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// Runs a closed loop of three threads, and asserts that its report is plausible: the number of pairs, the longest and
/// the median time.
pub(crate) async fn assert_loop_reports(jvm: &TrialProcess, request: &str) {
    let report = jvm.call("t1", request).await;
    let numbers: Vec<u64> = report.split(' ').map(|word| word.parse().unwrap()).collect();
    let [pairs, longest, median] = numbers[..] else { panic!("{report}") };
    // Each of the three at least once.
    assert!(pairs >= 3 && longest > 0 && median <= longest, "{report}");
}
