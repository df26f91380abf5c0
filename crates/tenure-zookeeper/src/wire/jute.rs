//! The wire encoding of records: numbers in network byte order, strings and lists with a length prefix.

use std::io::{Error, ErrorKind, Result};

/// A frame being written: four bytes for its length, then its content.
#[derive(Debug)]
pub(crate) struct Encoder(Vec<u8>);

impl Encoder {
    pub(crate) fn new() -> Self {
        Self(vec![0; 4])
    }

    pub(crate) fn int(mut self, n: i32) -> Self {
        self.0.extend(n.to_be_bytes());
        self
    }

    pub(crate) fn long(mut self, n: i64) -> Self {
        self.0.extend(n.to_be_bytes());
        self
    }

    pub(crate) fn boolean(mut self, yes: bool) -> Self {
        self.0.push(u8::from(yes));
        self
    }

    /// Also for strings, which have the same encoding.
    pub(crate) fn bytes(self, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        let mut out = self.int(length(bytes.len()));
        out.0.extend(bytes);
        out
    }

    /// What is encoded already.
    pub(crate) fn raw(mut self, encoded: &[u8]) -> Self {
        self.0.extend(encoded);
        self
    }

    pub(crate) fn strings(self, strings: &[String]) -> Self {
        strings.iter().fold(self.int(length(strings.len())), Self::bytes)
    }

    pub(crate) fn frame(mut self) -> Vec<u8> {
        let content = length(self.0.len().saturating_sub(4));
        if let Some(head) = self.0.first_chunk_mut() {
            *head = content.to_be_bytes();
        }
        self.0
    }
}

/// Never saturates in practice: data and names are limited, and watches are set again in batches.
fn length(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

/// A frame being read.
#[derive(Debug)]
pub(crate) struct Decoder<'a>(pub(crate) &'a [u8]);

impl<'a> Decoder<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let (taken, rest) =
            self.0.split_at_checked(n).ok_or_else(|| protocol_error("a frame ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn int(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.take(4)?.try_into().map_err(|_| protocol_error("a number is cut off"))?))
    }

    pub(crate) fn long(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.take(8)?.try_into().map_err(|_| protocol_error("a number is cut off"))?))
    }

    pub(crate) fn boolean(&mut self) -> Result<bool> {
        Ok(self.take(1)? != [0])
    }

    /// Whether there is no more.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The length -1 means no bytes.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let n = self.int()?.max(0);
        self.take(n as usize)
    }

    pub(crate) fn string(&mut self) -> Result<String> {
        let text = std::str::from_utf8(self.bytes()?);
        text.map(str::to_owned).map_err(|_| protocol_error("a string is not UTF-8"))
    }

    pub(crate) fn strings(&mut self) -> Result<Vec<String>> {
        (0..self.int()?.max(0)).map(|_| self.string()).collect()
    }
}

pub(crate) fn protocol_error(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("not the ZooKeeper protocol: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_records_can_be_read() {
        let list = ["a".to_owned(), "🔒".to_owned()];
        let frame = Encoder::new().int(-7).long(1 << 40).boolean(true).bytes("text").strings(&list).frame();
        let (length, content) = frame.split_at(4);
        assert_eq!(length, (content.len() as i32).to_be_bytes());
        let mut read = Decoder(content);
        assert_eq!((read.int().unwrap(), read.long().unwrap()), (-7, 1 << 40));
        assert!(read.boolean().unwrap());
        assert_eq!(read.string().unwrap(), "text");
        assert_eq!(read.strings().unwrap(), list);
        assert!(read.int().is_err());
    }

    #[test]
    fn a_truncated_record_is_an_error() {
        let frame = Encoder::new().strings(&["abc".to_owned()]).frame();
        for end in 4..frame.len() {
            assert!(Decoder(&frame[4..end]).strings().is_err(), "{end}");
        }
        assert_eq!(Decoder(&(-1_i32).to_be_bytes()).bytes().unwrap(), b"");
    }
}
