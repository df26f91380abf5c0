//! Reads bytes as every kind of reply that this client has a parser for.

use tenure_core::Name;

use super::cluster;
use super::failure::classify;
use super::sentinel::read_replica;
use super::wire::{ReplyBuffer, Value};
use crate::{Address, inspect, record, watch};

/// Reads replies from `bytes`, which arrive in pieces of `piece` bytes, and everything that a reply can mean to this
/// client: an error, a slot map, a replica, the state of a lock. Returns how many replies there are.
///
/// ```
/// use tenure_redis::testing::read_replies;
///
/// assert_eq!(read_replies(b"+OK\r\n*2\r\n:1\r\n$-1\r\n", 3), Ok(2));
/// assert!(read_replies(b"HTTP/1.1 400 Bad Request\r\n", 3).is_err());
/// ```
///
/// # Errors
/// Why the bytes are no replies.
pub fn read_replies(bytes: &[u8], piece: usize) -> Result<usize, &'static str> {
    let (mut input, mut replies) = (ReplyBuffer::new(), 0);
    for mut piece in bytes.chunks(piece.max(1)) {
        while !piece.is_empty() {
            let spare = input.spare();
            let n = spare.len().min(piece.len());
            let (now, later) = piece.split_at(n);
            spare[..n].copy_from_slice(now);
            input.advance(n);
            piece = later;
        }
        while let Some(reply) = input.next().map_err(|error| error.0)? {
            replies += 1;
            interpret(&reply);
        }
    }
    Ok(replies)
}

/// Reads a reply in each of its possible meanings.
fn interpret(reply: &Value) {
    let asked = Address::tcp("asked", 6379);
    cluster::read_reply(reply, &asked);
    read_replica(reply, &asked);
    if let Value::Error(error) = reply {
        classify(error, &asked);
    }
    if let Some(text) = reply.text() {
        record::Record::parse(text);
        watch::granted(text.as_bytes());
    }
    if let (Some(parts), Ok(name)) = (reply.array(), Name::new("orders/42")) {
        inspect::read_reply(&name, parts);
        parts.iter().for_each(interpret);
    }
}
