//! Tests with real servers, started for each test.

mod cluster;
mod connection;
mod fake;
mod faults;
mod login;
mod names;
mod proxy;
mod replicas;
mod replies;
mod sentinel;
mod server;

use super::attempts::AttemptState;
use super::{Call, Order, Script};

/// Adds to a counter at the key.
static COUNT: Script = Script::new("return redis.call('incrby', KEYS[1], ARGV[1])");

fn count(keys: &[&[u8]], args: &[&[u8]]) -> Call {
    Call::new(&COUNT, keys, args, Order::Unordered)
}
