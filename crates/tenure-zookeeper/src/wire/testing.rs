//! Reads bytes as every kind of frame that this client has a parser for.

use std::io;

use bytes::BytesMut;
use tenure_core::ledger::Ledger;

use super::connect::{MAX_REPLY, SessionCredentials, next_frame, parse_connect_response};
use super::error_code::ErrorCode;
use super::jute::Decoder;
use super::multi;
use super::requests::Stat;
use super::watch_registry::Change;
use crate::testing::read_children;

/// Reads frames from `bytes`, which arrive in pieces of `piece` bytes, and everything that a frame can mean to this
/// client: the answer to a connect request, an event, data, children, the answers of a
/// transaction. Returns how many frames there are.
///
/// ```
/// use tenure_zookeeper::testing::read_frames;
///
/// assert!(matches!(read_frames(&[0, 0, 0, 2, 7, 7, 0], 3), Ok(1)));
/// assert!(read_frames(b"HTTP/1.1 400 Bad Request", 3).is_err());
/// ```
///
/// # Errors
/// When the bytes are no frames.
pub fn read_frames(bytes: &[u8], piece: usize) -> io::Result<usize> {
    let (mut input, mut frames) = (BytesMut::new(), 0);
    for piece in bytes.chunks(piece.max(1)) {
        input.extend_from_slice(piece);
        while let Some(frame) = next_frame(&mut input, MAX_REPLY)? {
            frames += 1;
            interpret(&frame);
        }
    }
    Ok(frames)
}

/// Reads a frame in each of its possible meanings. One that ends too early is an error in most of them.
fn interpret(frame: &[u8]) {
    let _ = parse_connect_response(frame, &SessionCredentials::default());
    let Some((head, body)) = frame.split_at_checked(16) else { return };
    let mut head = Decoder(head);
    let _ = (head.int(), head.long(), head.int().map(|code| ErrorCode(code).to_string()));
    let _ = Stat::read(&mut Decoder(body));
    let _ = multi::answers(body);
    if let Ok(children) = Decoder(body).strings() {
        read_children(&children);
    }
    let mut event = Decoder(body);
    if let (Ok(kind), Ok(_state), Ok(_path)) = (event.int(), event.int(), event.string()) {
        Change::from_wire(kind);
    }
    if let Ok(data) = Decoder(body).bytes() {
        let _ = serde_json::from_slice::<Ledger>(data);
    }
}
