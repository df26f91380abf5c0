//! A plain blocking socket to Redis.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::Result;

/// A command as it is sent.
pub(crate) fn command<W: AsRef<str>>(words: &[W]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words.iter().map(AsRef::as_ref) {
        bytes += &format!("${}\r\n{word}\r\n", word.len());
    }
    bytes.into_bytes()
}

/// A plain blocking socket.
pub(crate) struct Bare {
    socket: TcpStream,
    input: Vec<u8>,
    filled: usize,
}

impl Bare {
    pub(crate) fn connect(address: &str) -> Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Self { socket, input: vec![0; 1 << 16], filled: 0 })
    }

    /// The text of a bulk reply.
    pub(crate) fn ask(&mut self, command: &[u8]) -> Result<String> {
        self.send(command)?;
        let n = self.socket.read(&mut self.input)?;
        let text = String::from_utf8_lossy(&self.input[..n]).into_owned();
        text.lines().nth(1).map(str::to_owned).ok_or_else(|| text.into())
    }

    pub(crate) fn send(&mut self, commands: &[u8]) -> Result<()> {
        Ok(self.socket.write_all(commands)?)
    }

    pub(crate) fn receive(&mut self, replies: usize) -> Result<()> {
        let mut left = replies;
        while left > 0 {
            let n = self.socket.read(&mut self.input[self.filled..])?;
            if n == 0 {
                return Err("the server closed the connection".into());
            }
            self.filled += n;
            let mut used = 0;
            while left > 0 {
                match reply_length(&self.input[used..self.filled])? {
                    Some(length) => used += length,
                    None => break,
                }
                left -= 1;
            }
            self.input.copy_within(used..self.filled, 0);
            self.filled -= used;
        }
        Ok(())
    }
}

/// Length of the first reply, if it is complete.
fn reply_length(bytes: &[u8]) -> Result<Option<usize>> {
    let Some(end) = bytes.windows(2).position(|w| w == b"\r\n") else { return Ok(None) };
    let number = || crate::Result::Ok(std::str::from_utf8(&bytes[1..end])?.parse::<i64>()?);
    let mut at = end + 2;
    match bytes[0] {
        b':' | b'+' => Ok(Some(at)),
        b'$' => {
            let length = number()?.max(-2);
            at += if length < 0 { 0 } else { length as usize + 2 };
            Ok((at <= bytes.len()).then_some(at))
        }
        b'*' => {
            for _ in 0..number()? {
                match reply_length(&bytes[at..])? {
                    Some(length) => at += length,
                    None => return Ok(None),
                }
            }
            Ok(Some(at))
        }
        _ => Err(String::from_utf8_lossy(&bytes[..end]).into_owned().into()),
    }
}
