//! Every scenario on every store at a small scale: nothing is lost, nothing is left, and no figure is out of bounds.

use std::process::{Command, Output};

fn load(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_load")).args(words).output().expect("it starts")
}

fn said(done: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr))
}

macro_rules! small {
    ($($store:ident: $($scenario:ident)*;)*) => {$(
        mod $store {
            $(
                #[test]
                fn $scenario() {
                    let words = ["--store", stringify!($store), "--scenario", stringify!($scenario)];
                    let done = super::load(&[&words[..], &["--scale", "2", "--seconds", "9"]].concat());
                    assert!(done.status.success(), "{}", super::said(&done));
                }
            )*
        }
    )*};
}

small! {
    memory: waiters fair names connects clients;
    sqlite: waiters fair names connects clients;
    redis: waiters fair names connects clients;
    zookeeper: waiters fair names connects clients;
}

#[test]
fn a_wrong_word_is_told() {
    for words in [&["--store", "mysql"][..], &["--scenario", "sleep"], &["--scale", "all"], &["--seconds"]] {
        let done = load(words);
        assert_eq!(done.status.code(), Some(2), "{}", said(&done));
    }
}
