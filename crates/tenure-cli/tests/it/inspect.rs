//! `tenure ls`, `show` and `release`: tables for people, JSON for programs.

use crate::common::Harness;

#[test]
fn ls_shows_who_holds_what() {
    let harness = Harness::new();
    let empty = harness.run(&["ls"]);
    assert_eq!(empty.code(0).out, "");
    assert_eq!(
        empty.err,
        format!("tenure: no names are in use in sqlite {}\n", harness.path("locks.db").display())
    );
    let empty = harness.run(&["ls", "orders/", "--json"]);
    assert_eq!((empty.code(0).out.as_str(), empty.err.as_str()), ("[]\n", ""));
    harness.run(&["ls", "orders/"]).code(0).says("no names that begin with orders/ are in use");
    assert_eq!(harness.run(&["ls", "--quiet"]).code(0).err, "");
    let holder = harness.hold("orders/42", &["--note", "nightly import"]);
    let _api = harness.hold("api", &["--limit", "3", "--permits", "2"]);
    let _waiter = harness.start(&["run", "orders/42", "--", "true"]);
    harness.until_waiters("orders/42", 1);

    let out = harness.run(&["ls"]).code(0).out.clone();
    let lines: Vec<Vec<&str>> =
        out.lines().map(|l| l.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect()).collect();
    assert_eq!(lines[0], ["NAME", "KIND", "HOLDERS", "WAITERS", "LEFT", "NOTE"]);
    assert_eq!(&lines[1][..4], ["api", "semaphore", "2 of 3", "-"], "{out}");
    assert_eq!(&lines[2][..2], ["orders/42", "lock"]);
    assert!(lines[2][2].ends_with(&format!(":{}", holder.id())), "{out}");
    assert_eq!(lines[2][3], "1");
    assert!(lines[2][4].ends_with(" s"), "{out}");
    assert_eq!(lines[2][5], "nightly import");
    assert!(!out.contains('\x1b'), "no colours where there is no terminal");

    assert!(!harness.run(&["ls", "orders"]).out.contains("api"));
    let cut = harness.run(&["ls", "--limit", "1"]);
    assert_eq!(cut.says("only the first 1 names are shown").out.lines().count(), 2);
    let json: serde_json::Value = serde_json::from_str(&harness.run(&["ls", "--json"]).code(0).out).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 2);
    assert_eq!((&json[1]["name"], &json[1]["family"]), (&"orders/42".into(), &"lock".into()));
    assert_eq!(json[1]["holders"][0]["note"], "nightly import");
}

#[test]
fn ls_lists_what_nobody_uses_only_if_asked() {
    let harness = Harness::new();
    harness.run(&["run", "api", "--limit", "3", "--", "true"]).code(0);
    harness.run(&["ls"]).code(0).says("no names are in use");
    let all = harness.run(&["ls", "--all"]).code(0).out.clone();
    let cells: Vec<&str> =
        all.lines().nth(1).unwrap().split("  ").map(str::trim).filter(|c| !c.is_empty()).collect();
    assert_eq!(cells, ["api", "semaphore", "idle, 0 of 3", "-", "-"], "{all}");
    let json: serde_json::Value =
        serde_json::from_str(&harness.run(&["ls", "--all", "--json"]).code(0).out).unwrap();
    assert_eq!((&json[0]["size"], json.as_array().unwrap().len()), (&3.into(), 1));
    let shown = harness.run(&["show", "api"]).code(1).out.clone();
    assert!(shown.starts_with("api: semaphore, idle\n"), "{shown}");
}

#[test]
fn show_says_in_use_by_its_code() {
    let harness = Harness::new();
    assert_eq!(harness.run(&["show", "demo"]).code(1).out, "demo: not in use\n");
    assert_eq!(harness.run(&["show", "demo", "--json"]).code(1).out, "null\n");
    let holder = harness.hold("demo", &["--note", "a\x1b[31mred"]);
    let shown = harness.run(&["show", "demo"]).code(0).out.clone();
    for part in [
        "demo: lock, held",
        "fence ",
        &format!(":{}", holder.id()),
        "since 20",
        "left unless renewed",
        "hold ",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(shown.contains("note a\u{fffd}[31mred"), "a note cannot command the terminal: {shown:?}");
    let json = harness.show("demo");
    let held = &json["holders"][0];
    assert_eq!(held["pid"], holder.id());
    assert!(
        held["left_seconds"].is_f64() && held["since_micros"].is_u64() && held["fence"].is_u64(),
        "{json}"
    );
    assert_eq!(json["fence"], held["fence"]);
}

#[test]
fn release_needs_force_and_a_yes() {
    let harness = Harness::new();
    let holder = harness.hold("demo", &["--note", "stuck"]);
    harness.run(&["release", "demo"]).code(2).says("--force");
    harness.run(&["release", "demo", "--force"]).code(2).says("--yes");
    harness.run(&["show", "demo"]).code(0);
    let released = harness.run(&["release", "demo", "--force", "--yes"]);
    assert!(released.code(0).out.starts_with("released demo, which was held by "), "{released:?}");
    assert!(released.out.contains(&format!(":{} (stuck)", holder.id())), "{released:?}");
    harness.run(&["show", "demo"]).code(1);
    harness.run(&["release", "demo", "--force", "--yes"]).code(1).says("nobody holds demo");
    let json = harness.run(&["release", "demo", "--force", "--yes", "--json"]).code(1).out.clone();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["released"], serde_json::json!([]));
    harness.touch("end");
    holder.done().code(76);
}

#[test]
fn release_takes_every_kind_from_all_its_holders() {
    for (options, n) in
        [(&["--limit", "2"][..], 2), (&["--shared"], 2), (&["--exclusive"], 1), (&["--fair"], 1)]
    {
        let harness = Harness::new();
        let holders: Vec<_> = (0..n).map(|_| harness.hold("demo", options)).collect();
        let json = harness.run(&["release", "demo", "--force", "--yes", "--json"]).code(0).out.clone();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["released"].as_array().unwrap().len(), n, "{json}");
        assert!(harness.show("demo")["holders"].as_array().is_none_or(Vec::is_empty));
        drop(holders);
    }
}

#[test]
fn help_and_version_are_there() {
    let harness = Harness::new();
    assert!(harness.run(&["--version"]).code(0).out.starts_with("tenure 0."));
    let help = harness.run(&["help", "run"]).code(0).out.clone();
    for part in ["Exit codes:", "--busy-code", "Examples:", "TENURE_FENCE"] {
        assert!(help.contains(part), "{part}");
    }
    assert!(harness.run(&["--help"]).code(0).out.contains("Examples:"));
    assert!(harness.run(&[]).code(2).out.contains("Examples:"));
}
