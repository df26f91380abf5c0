//! Creates and deletes that wait to be sent at the same moment, as one transaction: a server spends most of what a
//! write costs on each transaction, whatever is in it.
//!
//! A transaction is all or nothing. If one of its requests is refused, only that one is; the others were rolled back,
//! and their callers send them again, each alone.

use std::collections::HashSet;
use std::io;

use bytes::BytesMut;

use super::error_code::ErrorCode;
use super::jute::{Decoder, Encoder, protocol_error};
use super::request_queue::Request;

const MULTI: i32 = 14;
const CREATE: i32 = 1;
const DELETE: i32 = 2;
const ERROR: i32 = -1;

/// The most requests of one transaction, and their bytes: other clients wait for it.
pub(super) const MOST: usize = 64;
const MOST_BYTES: usize = 32 * 1024;

/// How a request is part of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// Of a node in this folder. All nodes of a transaction have the same `czxid`: two in one folder would have the same
    /// fence.
    Create {
        folder: String,
    },
    Delete,
}

impl Part {
    fn op(&self) -> i32 {
        match self {
            Self::Create { .. } => CREATE,
            Self::Delete => DELETE,
        }
    }
}

/// Which requests are in a transaction so far.
#[derive(Debug, Default)]
pub(super) struct Members {
    folders: HashSet<String>,
    count: usize,
    bytes: usize,
}

impl Members {
    /// Adds a request, unless the transaction would be too large, or give two holds the same fence.
    pub(super) fn add(&mut self, part: &Part, bytes: usize) -> bool {
        let fits = self.count < MOST && self.bytes + bytes <= MOST_BYTES;
        let is_new = match part {
            Part::Create { folder } => fits && self.folders.insert(folder.clone()),
            Part::Delete => fits,
        };
        if is_new {
            self.count += 1;
            self.bytes += bytes;
        }
        is_new
    }
}

/// The frame of a transaction, numbered as the first of its requests.
pub(super) fn frame(requests: &[Request]) -> Vec<u8> {
    let xid = requests.first().map_or(0, |first| first.xid);
    let header = |out: Encoder, op: i32, is_end: bool| out.int(op).boolean(is_end).int(-1);
    let mut out = Encoder::new().int(xid).int(MULTI);
    for request in requests {
        if let Some(part) = &request.part {
            out = header(out, part.op(), false).raw(request.body());
        }
    }
    header(out, ERROR, true).frame()
}

/// The answers to the requests of a transaction, in their order: of a create its path, of a delete nothing.
pub(super) fn answers(answer: &[u8]) -> io::Result<Vec<Result<BytesMut, ErrorCode>>> {
    let (mut rest, mut all) = (Decoder(answer), Vec::new());
    loop {
        let (op, is_end, _) = (rest.int()?, rest.boolean()?, rest.int()?);
        if is_end {
            return Ok(all);
        }
        all.push(match op {
            CREATE => {
                let path = rest.bytes()?;
                let mut body = BytesMut::with_capacity(path.len() + 4);
                body.extend_from_slice(&(path.len() as i32).to_be_bytes());
                body.extend_from_slice(path);
                Ok(body)
            }
            DELETE => Ok(BytesMut::new()),
            ERROR => Err(match rest.int()? {
                // Those before the refused one have no error of their own.
                0 => ErrorCode::ROLLED_BACK,
                code => ErrorCode(code),
            }),
            _ => return Err(protocol_error("an unknown answer in a transaction")),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_creates_in_one_folder_are_not_in_one_transaction() {
        let create = |folder: &str| Part::Create { folder: folder.to_owned() };
        let mut members = Members::default();
        assert!(members.add(&create("/a"), 10) && members.add(&create("/b"), 10));
        assert!(!members.add(&create("/a"), 10), "they would have the same fence");
        assert!(members.add(&Part::Delete, 10) && members.add(&Part::Delete, 10));
        assert!(!members.add(&create("/c"), MOST_BYTES), "too large");
        let mut many = Members::default();
        assert_eq!((0..2 * MOST).filter(|_| many.add(&Part::Delete, 10)).count(), MOST);
    }

    #[test]
    fn the_answers_are_those_of_the_requests() {
        let end = |out: Encoder| out.int(ERROR).boolean(true).int(-1).frame();
        let made =
            Encoder::new().int(CREATE).boolean(false).int(0).bytes("/a/x0").int(DELETE).boolean(false).int(0);
        let good = answers(&end(made)[4..]).unwrap();
        assert_eq!(Decoder(good[0].as_ref().unwrap()).string().unwrap(), "/a/x0");
        assert_eq!(good[1].as_ref().unwrap().len(), 0);
        let failed = [0, -101, -2]
            .into_iter()
            .fold(Encoder::new(), |out, code| out.int(ERROR).boolean(false).int(code).int(code));
        let codes: Vec<_> = answers(&end(failed)[4..]).unwrap().into_iter().map(Result::unwrap_err).collect();
        assert_eq!(codes, [ErrorCode::ROLLED_BACK, ErrorCode::NO_NODE, ErrorCode::ROLLED_BACK]);
        assert!(answers(&[0; 9]).is_err() && answers(b"").is_err());
    }
}
