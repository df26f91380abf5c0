//! Splits streams into commands, replies and pushes, and matches replies to commands. Here for RESP2 and RESP3.

use super::zookeeper;

/// How a stream is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// Into Redis commands and replies.
    Resp,
    /// Into ZooKeeper requests and replies.
    ZooKeeper,
    /// Not at all.
    Raw,
}

/// Removes the next complete piece from `buffer`, if there is one.
pub(super) fn next(framing: Framing, buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
    let end = match framing {
        _ if buffer.is_empty() => None,
        Framing::Raw => Some(buffer.len()),
        Framing::ZooKeeper => zookeeper::length(buffer).filter(|end| *end <= buffer.len()),
        Framing::Resp => match end_of(buffer, 0) {
            Found::Complete(end) => Some(end),
            Found::Incomplete => None,
            // Pass it on unchanged, so that the receiver reports what is wrong.
            Found::Strange => Some(buffer.len()),
        },
    };
    end.map(|end| buffer.drain(..end).collect())
}

/// What identifies a request and its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameId {
    /// The number of those before it on the same connection.
    Position(u64),
    /// Its xid.
    Number(i32),
}

/// Returns the identity of a request or reply. `position` is the number of those before it.
pub(super) fn frame_id(framing: Framing, frame: &[u8], position: u64) -> FrameId {
    let number = if framing == Framing::ZooKeeper { zookeeper::number(frame, position == 0) } else { None };
    number.map_or(FrameId::Position(position), FrameId::Number)
}

/// Whether it is a pub/sub message or a watch event, not a reply. `position` is the number of replies before it.
pub(super) fn is_push(framing: Framing, frame: &[u8], position: u64) -> bool {
    match framing {
        Framing::Raw => false,
        Framing::Resp => is_message(frame),
        Framing::ZooKeeper => zookeeper::is_event(frame, position == 0),
    }
}

fn is_message(frame: &[u8]) -> bool {
    let mut lines = frame.split(|b| *b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let kind = lines.next().and_then(|line| line.first());
    let Some(name) = lines.nth(1) else { return false };
    matches!(kind, Some(b'*' | b'>')) && [&b"message"[..], b"pmessage", b"smessage"].contains(&name)
}

/// Whether it contains `text`, ignoring case.
pub(super) fn contains(frame: &[u8], text: &str) -> bool {
    text.is_empty() || frame.windows(text.len()).any(|part| part.eq_ignore_ascii_case(text.as_bytes()))
}

enum Found {
    Complete(usize),
    Incomplete,
    Strange,
}

/// Finds the end of the value that starts at `begin`.
fn end_of(buffer: &[u8], begin: usize) -> Found {
    let Some(&kind) = buffer.get(begin) else { return Found::Incomplete };
    let Some(line) = buffer[begin..].iter().position(|b| *b == b'\n') else { return Found::Incomplete };
    let end = begin + line + 1;
    let number = || {
        let text = std::str::from_utf8(&buffer[begin + 1..end]).ok()?;
        text.trim_end().parse::<i64>().ok()
    };
    let values = match kind {
        b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => return Found::Complete(end),
        b'$' | b'=' | b'!' => {
            let Some(length) = number() else { return Found::Strange };
            let end = usize::try_from(length).map_or(end, |length| end + length + 2);
            return if buffer.len() < end { Found::Incomplete } else { Found::Complete(end) };
        }
        b'*' | b'~' | b'>' => number(),
        b'%' => number().map(|n| 2 * n),
        // An attribute precedes the value it belongs to.
        b'|' => number().map(|n| 2 * n + 1),
        // An inline command.
        b'a'..=b'z' | b'A'..=b'Z' => return Found::Complete(end),
        _ => return Found::Strange,
    };
    let Some(values) = values else { return Found::Strange };
    let mut end = end;
    for _ in 0..values {
        match end_of(buffer, end) {
            Found::Complete(next) => end = next,
            other => return other,
        }
    }
    Found::Complete(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(text: &str) -> (Vec<String>, String) {
        let mut buffer = text.as_bytes().to_vec();
        let mut frames = Vec::new();
        while let Some(frame) = next(Framing::Resp, &mut buffer) {
            frames.push(String::from_utf8(frame).unwrap());
        }
        (frames, String::from_utf8(buffer).unwrap())
    }

    #[test]
    fn every_prefix_is_incomplete_and_the_whole_is_one() {
        for whole in [
            "*2\r\n$3\r\nGET\r\n$1\r\na\r\n",
            "$5\r\na\r\n*1\r\n",
            "*-1\r\n",
            "$-1\r\n",
            "+OK\r\n",
            "*0\r\n",
            "PING\r\n",
            ">3\r\n$7\r\nmessage\r\n+a\r\n:1\r\n",
            "%1\r\n+a\r\n*1\r\n_\r\n",
            "|1\r\n+ttl\r\n:3\r\n,1.5\r\n",
        ] {
            for end in 0..whole.len() {
                assert_eq!(frames(&whole[..end]), (vec![], whole[..end].to_owned()), "{whole:?}");
            }
            let twice = format!("{whole}{whole}+");
            assert_eq!(frames(&twice), (vec![whole.to_owned(), whole.to_owned()], "+".to_owned()));
        }
    }

    #[test]
    fn unknown_frames_are_passed_on() {
        assert_eq!(frames("\u{16}\u{3}\u{1}\n+OK\r\n").0.len(), 1);
    }

    #[test]
    fn pushes_are_known_from_replies() {
        assert!(is_message(b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n1\r\n"));
        assert!(is_message(b">4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\na\r\n$1\r\n1\r\n"));
        assert!(!is_message(b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"));
        assert!(!is_message(b"$7\r\nmessage\r\n"));
        assert!(!is_message(b"*0\r\n"));
    }

    #[test]
    fn text_is_found() {
        assert!(contains(b"*1\r\n$4\r\nPING\r\n", "ping"));
        assert!(contains(b"x", ""));
        assert!(!contains(b"*1\r\n$4\r\nPING\r\n", "pong"));
    }
}
