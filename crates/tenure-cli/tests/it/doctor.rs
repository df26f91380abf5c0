//! `tenure doctor` on the stores that need no server.

use crate::common::Harness;

#[test]
fn a_file_of_this_machine_is_all_well() {
    let harness = Harness::new();
    let done = harness.run(&["doctor"]);
    let out = &done.code(0).out;
    for part in
        ["  ok       reach     ", "locks.db can be written", "  ok       wake-ups  ", "\nno problems found\n"]
    {
        assert!(out.contains(part), "{part:?} is not in {out}");
    }
    assert!(!out.contains('\x1b'), "no colours where there is no terminal");
    assert_eq!(harness.run(&["doctor", "--quiet"]).code(0).out, "");
    let json: serde_json::Value =
        serde_json::from_str(&harness.run(&["doctor", "--json"]).code(0).out).unwrap();
    assert_eq!((&json[0]["level"], &json[0]["check"]), (&"ok".into(), &"reach".into()));
    assert!(
        json[0]["what"].is_string() && json[0]["advice"].is_null() && json[0]["place"].is_null(),
        "{json}"
    );
}

#[test]
fn waiters_that_cannot_be_told_are_a_warning() {
    let harness = Harness::new();
    harness.run(&["ls"]).code(0);
    // A file where the folder for wake-ups belongs.
    std::fs::remove_dir_all(harness.path("locks.db-wake")).unwrap();
    harness.touch("locks.db-wake");
    let done = harness.run(&["doctor"]);
    assert!(done.code(1).out.contains("  warning  wake-ups  "), "{done:?}");
    assert!(done.out.contains("> make ") && done.out.ends_with("1 warning\n"), "{done:?}");
}

#[test]
fn a_file_with_two_names_is_no_store() {
    let harness = Harness::new();
    harness.run(&["ls"]).code(0);
    std::fs::hard_link(harness.path("locks.db"), harness.path("second.db")).unwrap();
    harness.run(&["doctor"]).code(2).says("has 2 names (hard links)");
}

#[test]
fn memory_is_for_one_process() {
    let done = Harness::at("memory:".into()).run(&["doctor"]);
    assert!(done.code(1).out.contains("this process only"), "{done:?}");
}

#[test]
fn a_store_that_is_not_there_has_codes_of_its_own() {
    let harness = Harness::new();
    harness.run(&["ls"]).code(0);
    let _blocked = harness.block();
    let url = format!("{}?call_timeout=100ms", harness.url());
    harness.run(&["doctor", "--url", &url]).code(69).says("sqlite");
    Harness::at("redis://localhost:1?timeout=2s".into()).run(&["doctor"]).code(69).says("cannot connect");
    Harness::at("redis:x".into()).run(&["doctor"]).code(2).says("redis://");
}
