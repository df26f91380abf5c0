//! The minimum for the same task: a plain socket that sends exactly the library's commands.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tenure::Settings;

use crate::Result;

/// The commands of one acquire and one release, byte for byte.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) acquire: Vec<u8>,
    pub(crate) release: Vec<u8>,
}

/// Makes the library acquire and release each name once, and records what it sends.
pub(crate) async fn record(port: u16, layout: &str, names: &[String]) -> Result<Vec<Pair>> {
    let recorder = Recorder::start(port)?;
    let url = format!("{}?layout={layout}", recorder.url);
    let client = tenure::connect_with(&url, Settings::default()).await?;
    // The first call of a script sends its text.
    client.lock("warm").acquire().await?.release().await?;
    recorder.clear();
    let mut pairs = Vec::new();
    for name in names {
        client.lock(name).acquire().await?.release().await?;
        pairs.push(recorder.take_pair()?);
    }
    client.close().await?;
    Ok(pairs)
}

/// A proxy that records what is sent to the server.
pub(crate) struct Recorder {
    pub(crate) url: String,
    sent: Arc<Mutex<Vec<u8>>>,
}

impl Recorder {
    pub(crate) fn start(port: u16) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("redis://{}", listener.local_addr()?);
        let sent = Arc::new(Mutex::new(Vec::new()));
        let log = sent.clone();
        std::thread::spawn(move || {
            for from in listener.incoming().flatten() {
                let Ok(to) = TcpStream::connect(("127.0.0.1", port)) else { return };
                relay(from, to, &log);
            }
        });
        Ok(Self { url, sent })
    }

    pub(crate) fn clear(&self) {
        self.sent.lock().unwrap().clear();
    }

    /// The acquire and the release sent since the last call.
    pub(crate) fn take_pair(&self) -> Result<Pair> {
        let mut sent = commands(&std::mem::take(&mut *self.sent.lock().unwrap()));
        sent.retain(|command| command.windows(7).any(|w| w == b"EVALSHA"));
        let (Some(release), Some(acquire), None) = (sent.pop(), sent.pop(), sent.pop()) else {
            return Err("an acquire and a release are not one command each".into());
        };
        Ok(Pair { acquire, release })
    }
}

fn relay(from: TcpStream, to: TcpStream, log: &Arc<Mutex<Vec<u8>>>) {
    let (Ok(mut back_from), Ok(mut back_to)) = (to.try_clone(), from.try_clone()) else { return };
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut back_from, &mut back_to);
        let _ = back_to.shutdown(Shutdown::Both);
    });
    let (mut from, mut to, log) = (from, to, log.clone());
    std::thread::spawn(move || {
        let mut bytes = [0; 65536];
        while let Ok(n @ 1..) = from.read(&mut bytes) {
            log.lock().unwrap().extend_from_slice(&bytes[..n]);
            if to.write_all(&bytes[..n]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}

/// Splits a byte stream into commands.
fn commands(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut commands = Vec::new();
    while let Some((_, length)) = first_command(bytes) {
        commands.push(bytes[..length].to_vec());
        bytes = &bytes[length..];
    }
    commands
}

/// The words of the first command, and its length in bytes.
pub(crate) fn first_command(bytes: &[u8]) -> Option<(Vec<&[u8]>, usize)> {
    let mut at = 0;
    let number = |at: &mut usize| {
        let rest = bytes.get(*at..)?;
        let end = rest.windows(2).position(|w| w == b"\r\n")?;
        *at += end + 2;
        std::str::from_utf8(rest.get(1..end)?).ok()?.parse::<usize>().ok()
    };
    let mut words = Vec::new();
    for _ in 0..number(&mut at)? {
        let length = number(&mut at)?;
        words.push(bytes.get(at..at + length)?);
        at += length + 2;
    }
    (at <= bytes.len()).then_some((words, at))
}

/// A plain blocking socket.
pub(crate) struct Bare {
    socket: TcpStream,
    input: Vec<u8>,
    filled: usize,
}

impl Bare {
    pub(crate) fn connect(port: u16) -> Result<Self> {
        let socket = TcpStream::connect(("127.0.0.1", port))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Self { socket, input: vec![0; 1 << 16], filled: 0 })
    }

    /// Sends all commands in one write and reads their replies.
    pub(crate) fn exchange(&mut self, commands: &[u8], replies: usize) -> Result<()> {
        self.send(commands)?;
        self.receive(replies)
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

    /// Pairs per second, waiting for each reply.
    pub(crate) fn lone(&mut self, pair: &Pair, time: Duration) -> Result<f64> {
        let (begin, mut done) = (Instant::now(), 0.0);
        while begin.elapsed() < time {
            for _ in 0..50 {
                self.exchange(&pair.acquire, 1)?;
                self.exchange(&pair.release, 1)?;
            }
            done += 50.0;
        }
        Ok(done / begin.elapsed().as_secs_f64())
    }

    /// Pairs per second, all names pipelined.
    pub(crate) fn pipelined(&mut self, pairs: &[Pair], time: Duration) -> Result<f64> {
        let acquires = pairs.iter().flat_map(|p| p.acquire.clone()).collect::<Vec<u8>>();
        let releases = pairs.iter().flat_map(|p| p.release.clone()).collect::<Vec<u8>>();
        let (begin, mut done) = (Instant::now(), 0.0);
        while begin.elapsed() < time {
            self.exchange(&acquires, pairs.len())?;
            self.exchange(&releases, pairs.len())?;
            done += pairs.len() as f64;
        }
        Ok(done / begin.elapsed().as_secs_f64())
    }
}

/// Length of the first reply, if it is complete.
fn reply_length(bytes: &[u8]) -> Result<Option<usize>> {
    let Some(end) = bytes.windows(2).position(|w| w == b"\r\n") else { return Ok(None) };
    let number = || Ok::<i64, Box<dyn std::error::Error>>(std::str::from_utf8(&bytes[1..end])?.parse()?);
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
