//! Addresses of stores.

use tenure::Config;

use crate::Target;

pub(super) struct Address;

impl Target for Address {
    fn name(&self) -> &'static str {
        "address"
    }

    fn tokens(&self) -> &'static [&'static str] {
        TOKENS
    }

    /// An address becomes a few keys; each problem names one, and may copy the value.
    fn most_memory(&self, length: usize) -> usize {
        (1 << 20) + 400 * length
    }

    fn read(&mut self, input: &[u8]) {
        let text = String::from_utf8_lossy(input);
        let parsed = Config::default().url(&text);
        let collected = Config::collect(None, Some(&text));
        let problems = collected.problems();
        if parsed.is_err() {
            assert!(!problems.is_empty(), "an address that cannot be parsed has no problem");
        }
        drop((collected.to_string(), format!("{collected:?}"), collected.warnings().len()));
        for problem in problems {
            drop(problem.to_string());
        }
        let Ok(config) = parsed else { return };
        let (checked, shown) = (config.check(), config.to_string());
        if checked.is_ok() && !config.entries().iter().any(|entry| entry.is_masked()) {
            // What is shown is a configuration, with the same keys and values.
            let again = Config::from_toml(&shown).unwrap_or_else(|e| panic!("{e}:\n{shown}"));
            assert_eq!(again.to_string().lines().count(), shown.lines().count());
        }
    }
}

const TOKENS: &[&str] = &[
    "redis://",
    "rediss://",
    "redis+unix://",
    "redis+sentinel://",
    "redis+cluster://",
    "redlock://",
    "zookeeper://",
    "sqlite:",
    "memory:",
    "?lease=",
    "&poll=",
    "&timeout=",
    "&layout=plain",
    "&prefix=",
    "&db=",
    "&nat=",
    "&session=",
    "&access=",
    "&ca=",
    "&durability=replicas:",
    "&restart_delay=off",
    "&retry_delay=5ms-25ms",
    "%00",
    "%2F",
    "%",
    "[::1]",
    "@",
    ":",
    "/",
    ",",
    "#",
    "..",
];
