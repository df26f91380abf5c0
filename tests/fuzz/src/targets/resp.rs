//! Replies of Redis, and everything that one can mean.

use tenure_redis::testing::read_replies;

use crate::Target;

pub(super) struct Resp;

impl Target for Resp {
    fn name(&self) -> &'static str {
        "resp"
    }

    fn tokens(&self) -> &'static [&'static str] {
        TOKENS
    }

    /// A value takes about ten times its shortest form, in an array that has just grown twice that; a slot map has 64 KiB.
    fn most_memory(&self, length: usize) -> usize {
        (1 << 20) + 200 * length
    }

    fn read(&mut self, input: &[u8]) {
        // However it is cut into pieces, it says the same.
        let whole = read_replies(input, input.len());
        assert_eq!(read_replies(input, 7), whole);
    }
}

pub(super) const TOKENS: &[&str] = &[
    "+OK\r\n",
    "$-1\r\n",
    "*-1\r\n",
    "*0\r\n",
    "*1\r\n",
    "*2\r\n",
    "*3\r\n",
    "*16\r\n",
    ":0\r\n",
    ":-1\r\n",
    "$0\r\n\r\n",
    "-ERR \r\n",
    "-NOSCRIPT \r\n",
    "-LOADING \r\n",
    "-READONLY \r\n",
    "-NOPERM \r\n",
    "-BUSY \r\n",
    "$4\r\nhash\r\n",
    "$6\r\nstring\r\n",
    "$4\r\nnone\r\n",
    "$7\r\nmessage\r\n",
    "$9\r\nsubscribe\r\n",
    "$11\r\nunsubscribe\r\n",
    "granted 1 7 30000",
    "*67108864\r\n",
    "$67108864\r\n",
    "$9223372036854775807\r\n",
    "\r\n",
    "%1\r\n",
    "_\r\n",
    "#t\r\n",
    ">3\r\n",
    ",1.5\r\n",
];
