//! `tenure config`, and where every command takes its store from.

use crate::common::{Done, Harness, Running};

/// With a file, and these variables in the place of an address.
fn run(harness: &Harness, line: &[&str], variables: &[(&str, &str)]) -> Done {
    let mut command = harness.tenure(line);
    command.env_remove("TENURE_URL").envs(variables.iter().copied());
    Running::captured(command).done()
}

#[test]
fn a_file_says_which_store_and_an_address_is_stronger() {
    let harness = Harness::new();
    std::fs::write(harness.path("app.toml"), "type = 'sqlite'\npath = 'app.db'\nlease = '5s'\n").unwrap();
    run(&harness, &["ls", "--config", "app.toml"], &[]).code(0);
    assert!(harness.path("app.db").exists());
    run(&harness, &["ls"], &[("TENURE_CONFIG", "app.toml"), ("TENURE_PATH", "variable.db")]).code(0);
    assert!(harness.path("variable.db").exists());
    run(&harness, &["ls", "--config", "app.toml"], &[("TENURE_URL", "sqlite:address.db")]).code(0);
    assert!(harness.path("address.db").exists());
    let flags = ["ls", "--config", "app.toml", "--url", "sqlite:flag.db"];
    run(&harness, &flags, &[("TENURE_URL", "sqlite:unused.db")]).code(0);
    assert!(harness.path("flag.db").exists() && !harness.path("unused.db").exists());
    let shown = run(&harness, &["config", "show", "--config", "app.toml", "--url", "memory:"], &[]);
    assert_eq!(shown.code(0).out, "type = \"memory\"  # address\nlease = \"5s\"     # app.toml:3\n");
}

#[test]
fn nothing_at_all_is_the_state_directory() {
    let harness = Harness::new();
    let shown = run(&harness, &["config", "show", "--url", ""], &[("TENURE_URL", "")]);
    assert_eq!(shown.code(0).out, "type = \"sqlite\"  # address\n");
}

#[test]
fn secrets_are_masked() {
    let harness = Harness::new();
    let text = "type = 'redlock'\nnodes = ['redis://me:hunter2@a', 'b', 'c']\npassword = 'hunter2'\n";
    std::fs::write(harness.path("app.toml"), text).unwrap();
    for line in [&["config", "show"][..], &["config", "show", "--json"], &["config", "check"]] {
        let line = [line, &["--config", "app.toml"]].concat();
        let done = run(&harness, &line, &[("TENURE_SENTINEL_PASSWORD", "hunter2")]);
        assert!(!format!("{done:?}").contains("hunter2"), "{done:?}");
        done.code(2).says("has no effect: no node uses sentinels");
    }
    let done = run(&harness, &["config", "show", "--json", "--config", "app.toml"], &[]);
    let json: serde_json::Value = serde_json::from_str(&done.code(0).out).unwrap();
    assert_eq!(json[1]["value"], "redis://***@a,b,c");
    assert_eq!((&json[2]["value"], &json[2]["from"]), (&"***".into(), &"app.toml:3".into()));
}

#[test]
fn errors_name_the_place_of_the_setting() {
    let harness = Harness::new();
    std::fs::write(harness.path("app.toml"), "type = 'sqlite'\nleese = '5s'\n").unwrap();
    for line in [&["config", "check"][..], &["ls"], &["run", "x", "--", "true"]] {
        run(&harness, line, &[("TENURE_CONFIG", "app.toml")])
            .code(2)
            .says("app.toml:2: leese: unknown key; did you mean lease?");
    }
    let unknown = run(&harness, &["ls", "--url", "memory:"], &[("TENURE_LEESE", "1s")]);
    unknown.code(0).says("TENURE_LEESE: unknown variable, ignored; did you mean TENURE_LEASE?");
    run(&harness, &["ls", "--config", "none.toml"], &[]).code(2).says("none.toml: cannot be read");
    std::fs::write(harness.path("app.toml"), "type = 'sqlite'\n").unwrap();
    let right = run(&harness, &["config", "check", "--config", "app.toml"], &[]);
    assert_eq!(right.code(0).out, "the configuration is valid\n");
}

#[test]
fn a_check_reports_everything_at_once() {
    let harness = Harness::new();
    let text = "type = 'redis'\nnodes = 'a:x'\nleese = '5s'\nlease = '5'\nca = 'none.pem'\nsesion = '1s'\n";
    std::fs::write(harness.path("app.toml"), text).unwrap();
    let done = run(
        &harness,
        &["config", "check", "--config", "app.toml"],
        &[("TENURE_POLL", "x"), ("TENURE_POL", "x")],
    );
    let lines: Vec<&str> = done.code(2).err.lines().collect();
    for says in [
        "tenure: TENURE_POL: unknown variable, ignored",
        "tenure: app.toml:3: leese: unknown key; did you mean lease?",
        "tenure: app.toml:6: sesion: unknown key",
        "tenure: app.toml:4: lease: ",
        "tenure: TENURE_POLL: ",
        "tenure: app.toml:5: ca: needs TLS",
        "tenure: app.toml:2: nodes: ",
    ] {
        assert!(lines.iter().any(|line| line.starts_with(says)), "{says}: {lines:#?}");
    }
    assert!(!done.err.contains("session"), "not a key of this store: {lines:#?}");
    let done = run(&harness, &["config", "check", "--json", "--config", "app.toml"], &[]);
    assert!(done.code(2).events().len() >= 5, "{done:?}");
}
