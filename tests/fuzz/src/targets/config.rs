//! Configuration files.

use crate::Target;

pub(super) struct Config;

impl Target for Config {
    fn name(&self) -> &'static str {
        "config"
    }

    fn tokens(&self) -> &'static [&'static str] {
        TOKENS
    }

    /// Mostly the tree of the TOML parser.
    fn most_memory(&self, length: usize) -> usize {
        (2 << 20) + 800 * length
    }

    fn read(&mut self, input: &[u8]) {
        let Ok(text) = std::str::from_utf8(input) else { return };
        match tenure::Config::from_toml(text) {
            Err(error) => drop(error.to_string()),
            Ok(config) => {
                drop((config.check().map_err(|e| e.to_string()), config.warnings().len()));
                config.problems().iter().for_each(|problem| drop(problem.to_string()));
                drop((config.to_string(), format!("{config:?}")));
            }
        }
    }
}

const TOKENS: &[&str] = &[
    "type = ",
    "\"redis\"",
    "\"zookeeper\"",
    "\"redlock\"",
    "\"sqlite\"",
    "\"memory\"",
    "nodes = ",
    "[\"a\", \"b\"]",
    "url = ",
    "lease = ",
    "password = ",
    "[nat]\n",
    "{ a = \"b\" }",
    "[[",
    "]]",
    "'''",
    "\"\"\"",
    "\\u0000",
    "1979-05-27T07:32:00Z",
    "inf",
    "0x",
    "_",
    "\n",
];
