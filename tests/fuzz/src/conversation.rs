//! An input for a server that lies: what its client does, and what the server says each time it hears something. The
//! first line names the work, lines of `%%` separate what is said. A server that has said everything hangs up.

/// Stands between two things that the server says.
const SEPARATOR: &[u8] = b"\n%%\n";

/// A parsed input.
#[derive(Debug, PartialEq)]
pub(crate) struct Conversation {
    pub(crate) work: String,
    pub(crate) says: Vec<Vec<u8>>,
}

impl Conversation {
    /// Every input is one, if a short one.
    pub(crate) fn parse(input: &[u8]) -> Self {
        let mut parts = split(input).into_iter();
        let work = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
        Self { work, says: parts.map(<[u8]>::to_vec).collect() }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut parts = vec![self.work.as_bytes()];
        parts.extend(self.says.iter().map(Vec::as_slice));
        parts.join(SEPARATOR)
    }
}

fn split(mut input: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    while let Some(at) = input.windows(SEPARATOR.len()).position(|part| part == SEPARATOR) {
        parts.push(&input[..at]);
        input = &input[at + SEPARATOR.len()..];
    }
    parts.push(input);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let written =
            Conversation { work: "lock".into(), says: vec![b"+OK\r\n".to_vec(), vec![], vec![b'\n']] };
        assert_eq!(Conversation::parse(&written.encode()), written);
        assert_eq!(Conversation::parse(b"").says.len(), 0);
    }
}
