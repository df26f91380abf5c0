//! Where requests and replies of ZooKeeper end, and what they are. Each has its length in front. The first of a
//! connection opens the session; all others begin with the number that tells replies apart.

/// Longer than any: it is no length, but for instance a four-letter word.
const LONGEST: usize = 1 << 24;

/// The number that watches fire under.
const EVENT: i32 = -1;

/// Kinds of requests to a ZooKeeper server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZkRequest {
    /// The first of each connection: a new session, or an old one.
    Connect,
    /// A node, with a reply in either form, and with or without a time to live.
    Create,
    /// A node that goes after its last child.
    CreateContainer,
    /// The end of a node.
    Delete,
    /// What is known of a node.
    Exists,
    /// The data of a node.
    Get,
    /// New data for a node.
    Set,
    /// The children of a node, with a reply in either form.
    Children,
    /// Until the server has what the leader has.
    Sync,
    /// Several of them at once.
    Multi,
    /// A sign of life.
    Ping,
    /// The end of the session.
    Close,
    /// Any other, by its number in the protocol.
    Other(i32),
}

impl ZkRequest {
    /// Whether this is one; `is_first` on its connection.
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

/// The length of the first request or reply in `buffer`, with what stands in front of it, if that much is known.
pub(super) fn length(buffer: &[u8]) -> Option<usize> {
    let length = usize::try_from(int(buffer, 0)?).ok().filter(|length| *length < LONGEST);
    // What is strange goes on as it is.
    Some(length.map_or(buffer.len(), |length| length + 4))
}

/// The number that a request and its reply have in common. None for the first ones.
pub(super) fn number(frame: &[u8], is_first: bool) -> Option<i32> {
    if is_first { None } else { int(frame, 4) }
}

/// Whether it is a watch that fires, and no reply.
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
