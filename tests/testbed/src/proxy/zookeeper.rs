//! Framing of ZooKeeper requests and replies. Each is preceded by its length. The first of a connection opens the
//! session; all others begin with the xid that matches replies to requests.

/// Upper bound of a length. Anything larger is something else, for instance a four-letter word.
const LONGEST: usize = 1 << 24;

/// The xid of watch events.
const EVENT: i32 = -1;

/// Kinds of requests to a ZooKeeper server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZkRequest {
    /// The first of each connection: opens a session, or resumes one.
    Connect,
    /// Creates a node: with either reply format, with or without a TTL.
    Create,
    /// Creates a container node, which is deleted after its last child.
    CreateContainer,
    /// Deletes a node.
    Delete,
    /// Returns the stat of a node.
    Exists,
    /// Returns the data of a node.
    Get,
    /// Replaces the data of a node.
    Set,
    /// Lists the children of a node, with either reply format.
    Children,
    /// Waits until the server has caught up with the leader.
    Sync,
    /// Several operations in one transaction.
    Multi,
    /// Keeps the session alive.
    Ping,
    /// Closes the session.
    Close,
    /// Any other, by its opcode.
    Other(i32),
}

impl ZkRequest {
    /// Whether a frame is of this type; `is_first` on its connection.
    pub(super) fn fits(self, frame: &[u8], is_first: bool) -> bool {
        let numbers: &[i32] = match &self {
            Self::Connect => return is_first,
            Self::Create => &[1, 15, 21],
            Self::CreateContainer => &[19],
            Self::Delete => &[2],
            Self::Exists => &[3],
            Self::Get => &[4],
            Self::Set => &[5],
            Self::Children => &[8, 12],
            Self::Sync => &[9],
            Self::Multi => &[14],
            Self::Ping => &[11],
            Self::Close => &[-11],
            Self::Other(number) => std::slice::from_ref(number),
        };
        !is_first && int(frame, 8).is_some_and(|kind| numbers.contains(&kind))
    }
}

/// Length of the first request or reply in `buffer`, including the length prefix, if known yet.
pub(super) fn length(buffer: &[u8]) -> Option<usize> {
    let length = usize::try_from(int(buffer, 0)?).ok().filter(|length| *length < LONGEST);
    // Pass on unchanged what is no frame.
    Some(length.map_or(buffer.len(), |length| length + 4))
}

/// The xid shared by a request and its reply; `None` for the first of a connection.
pub(super) fn number(frame: &[u8], is_first: bool) -> Option<i32> {
    if is_first { None } else { int(frame, 4) }
}

/// Whether it is a watch event, not a reply.
pub(super) fn is_event(frame: &[u8], is_first: bool) -> bool {
    number(frame, is_first) == Some(EVENT)
}

fn int(bytes: &[u8], begin: usize) -> Option<i32> {
    Some(i32::from_be_bytes(*bytes.get(begin..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(ints: &[i32]) -> Vec<u8> {
        let length = i32::try_from(4 * ints.len()).unwrap();
        [length].iter().chain(ints).flat_map(|n| n.to_be_bytes()).collect()
    }

    #[test]
    fn the_length_stands_in_front() {
        let whole = frame(&[1, 15, 7]);
        assert_eq!(length(&whole[..3]), None);
        assert_eq!(length(&whole[..4]), Some(16));
        assert_eq!(length(&[&whole[..], &whole].concat()), Some(16));
        assert_eq!(length(b"srvr"), Some(4));
        assert_eq!(length(b"\xff\xff\xff\xffabc"), Some(7));
    }

    #[test]
    fn the_first_has_no_header() {
        let create = frame(&[1, 15, 7]);
        assert!(ZkRequest::Create.fits(&create, false) && !ZkRequest::Create.fits(&create, true));
        assert!(ZkRequest::Connect.fits(&create, true) && !ZkRequest::Connect.fits(&create, false));
        assert!(ZkRequest::Other(15).fits(&create, false) && !ZkRequest::Delete.fits(&create, false));
        assert_eq!((number(&create, false), number(&create, true)), (Some(1), None));
        let event = frame(&[-1, -1, -1, 0]);
        assert!(is_event(&event, false) && !is_event(&event, true) && !is_event(&create, false));
    }
}
