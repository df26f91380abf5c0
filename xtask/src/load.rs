//! `cargo xtask load`: thousands of waiters, names and clients on real stores.

use std::process::ExitCode;

use crate::packages::{self, KEEPER, Need, REDIS, SERVERS};
use crate::{FAILED, MISSING, cargo};

pub(crate) fn load(words: &[String]) -> ExitCode {
    if let Err(why) = packages::provide(needs(words)) {
        eprintln!("{why}");
        return MISSING.into();
    }
    // No time limit: the program fails when nothing gets on any more.
    let mut run = cargo(&["run", "--quiet", "--release", "--package", "load", "--"]);
    let code = run.args(words).status().ok().and_then(|status| status.code());
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED).into()
}

/// The programs that these stores need; all where none is named.
fn needs(words: &[String]) -> &'static [Need] {
    let Some(stores) = words.windows(2).find(|pair| pair[0] == "--store").map(|pair| &pair[1]) else {
        return SERVERS;
    };
    let has = |store: &str| stores.split(',').any(|one| one == store);
    match (has("redis"), has("zookeeper")) {
        (true, true) => SERVERS,
        (true, false) => REDIS,
        (false, true) => KEEPER,
        (false, false) => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_stores_need_is_installed() {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(needs(&words("")), SERVERS);
        assert_eq!(needs(&words("--scale 2 --store redis,zookeeper")), SERVERS);
        assert_eq!(needs(&words("--store redis,memory")), REDIS);
        assert_eq!(needs(&words("--store zookeeper")), KEEPER);
        assert!(needs(&words("--store memory,sqlite")).is_empty());
    }
}
