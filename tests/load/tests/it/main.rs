//! Every scenario on every store at a small scale: nothing is lost, nothing is left, and no figure is out of bounds.

use std::process::{Command, Output};

fn load(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_load")).args(words).output().expect("it starts")
}

fn said(done: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr))
}

macro_rules! small {
    ($($name:ident $store:literal)*) => {$(
        #[test]
        fn $name() {
            let done = load(&["--store", $store, "--scale", "2", "--seconds", "9"]);
            assert!(done.status.success(), "{}", said(&done));
        }
    )*};
}

small! {
    memory_stays_within_its_bounds "memory"
    sqlite_stays_within_its_bounds "sqlite"
    redis_stays_within_its_bounds "redis"
    zookeeper_stays_within_its_bounds "zookeeper"
}

#[test]
fn a_wrong_word_is_told() {
    for words in [&["--store", "mysql"][..], &["--scenario", "sleep"], &["--scale", "all"], &["--seconds"]] {
        let done = load(words);
        assert_eq!(done.status.code(), Some(2), "{}", said(&done));
    }
}
