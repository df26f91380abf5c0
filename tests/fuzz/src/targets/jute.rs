//! Frames of ZooKeeper, and everything that one can mean.

use tenure_zookeeper::testing::read_frames;

use crate::Target;

pub(super) struct Jute;

impl Target for Jute {
    fn name(&self) -> &'static str {
        "jute"
    }

    fn tokens(&self) -> &'static [&'static str] {
        TOKENS
    }

    /// A child of four bytes takes two strings and a place in a vector that has just grown.
    fn most_memory(&self, length: usize) -> usize {
        (1 << 20) + 200 * length
    }

    fn read(&mut self, input: &[u8]) {
        let whole = read_frames(input, input.len()).map_err(|e| e.to_string());
        assert_eq!(read_frames(input, 7).map_err(|e| e.to_string()), whole);
    }
}

pub(super) const TOKENS: &[&str] = &[
    "\0\0\0\0",
    "\0\0\0\u{1}",
    "\0\0\0\u{10}",
    "\0\0\0\u{14}",
    "lock-0000000001",
    "lock-2147483647",
    "lock--2147483648",
    "__READ__0000000001",
    "__WRIT__0000000002",
    "latch-0000000003",
    "lease-0000000004",
    "-lock-",
    "_c_",
    "~tenure",
    "/app/~~",
    "_c_00000000-0000-4000-8000-000000000001-1-7@host-lock-0000000001",
    "/",
    "~",
    "locks",
    "leases",
];
