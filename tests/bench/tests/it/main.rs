//! The benchmarks run. What they say without optimisation has no meaning.

use std::process::Command;

#[test]
fn all_of_them_run() {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_bench"));
    let done = bench.arg("--quick").output().expect("it starts");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(done.status.success(), "{}{}", said(&done.stdout), said(&done.stderr));
}
