//! A proxy between a client and a server that causes faults.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::{Address, Options, Topology};

/// What to do with replies from now on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Replies {
    Pass,
    /// Drop them silently.
    Swallow,
    /// Cut the connection after this many bytes.
    CutAfter(usize),
    /// Forward one byte at a time, at this interval.
    Trickle(Duration),
}

pub(super) struct Proxy {
    pub(super) address: Address,
    replies: Arc<Mutex<Replies>>,
    /// Whether requests are held back.
    pub(super) hold_requests: Arc<AtomicBool>,
    pub(super) connections: Arc<AtomicUsize>,
}

impl Proxy {
    pub(super) fn before(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::tcp("127.0.0.1", listener.local_addr().unwrap().port());
        let replies = Arc::new(Mutex::new(Replies::Pass));
        let connections = Arc::new(AtomicUsize::new(0));
        let hold_requests = Arc::new(AtomicBool::new(false));
        let proxy = Self {
            address,
            replies: replies.clone(),
            hold_requests: hold_requests.clone(),
            connections: connections.clone(),
        };
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(("127.0.0.1", port))) else {
                    return;
                };
                connections.fetch_add(1, SeqCst);
                let (mut c, mut s) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let hold = hold_requests.clone();
                std::thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while let Ok(n @ 1..) = c.read(&mut buffer) {
                        while hold.load(SeqCst) {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                        if s.write_all(&buffer[..n]).is_err() {
                            break;
                        }
                    }
                    let _ = s.shutdown(Shutdown::Both);
                });
                let replies = replies.clone();
                std::thread::spawn(move || answer(client, server, &replies));
            }
        });
        proxy
    }

    pub(super) fn set(&self, replies: Replies) {
        *self.replies.lock().unwrap() = replies;
    }

    pub(super) fn options(&self) -> Options {
        super::server::patient(Options::new(Topology::Standalone(self.address.clone())))
    }
}

fn answer(mut client: TcpStream, mut server: TcpStream, replies: &Mutex<Replies>) {
    let mut buffer = [0; 4096];
    while let Ok(n @ 1..) = server.read(&mut buffer) {
        let now = *replies.lock().unwrap();
        let sent = match now {
            Replies::Pass => client.write_all(&buffer[..n]),
            Replies::Swallow => Ok(()),
            Replies::CutAfter(most) => {
                let _ = client.write_all(&buffer[..n.min(most)]);
                break;
            }
            Replies::Trickle(apart) => buffer[..n].iter().try_for_each(|byte| {
                std::thread::sleep(apart);
                client.write_all(&[*byte])
            }),
        };
        if sent.is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}
