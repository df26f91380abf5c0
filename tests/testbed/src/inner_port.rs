//! Ports that only servers can use. Behind NAT, servers announce addresses at which they reach one another, but their
//! clients do not reach them.

use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use crate::{Result, free_port};

/// Where servers connect from that have this line in their configuration. Nobody else does.
pub(crate) const BIND_SOURCE: &str = "bind-source-addr 127.0.0.50";
const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 50));

/// A port of 127.0.0.1 that forwards connections of servers. Those of others are closed at once.
#[derive(Debug)]
pub(crate) struct InnerPort {
    port: u16,
    is_closed: Arc<AtomicBool>,
}

impl InnerPort {
    /// Forwards to this port of 127.0.0.1.
    pub(crate) fn start(target: u16) -> Result<Self> {
        let port = free_port()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let is_closed = Arc::new(AtomicBool::new(false));
        let closed = is_closed.clone();
        thread::spawn(move || {
            for from in listener.incoming().flatten() {
                if closed.load(SeqCst) {
                    return;
                }
                let is_server = from.peer_addr().is_ok_and(|peer: SocketAddr| peer.ip() == SOURCE);
                if is_server && let Ok(to) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)) {
                    forward(from, to);
                }
            }
        });
        Ok(Self { port, is_closed })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for InnerPort {
    fn drop(&mut self) {
        self.is_closed.store(true, SeqCst);
        // Wakes the thread, which sees that.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

/// Copies both ways, until one side closes.
fn forward(from: TcpStream, to: TcpStream) {
    let (Ok(back_from), Ok(back_to)) = (to.try_clone(), from.try_clone()) else { return };
    for (mut from, mut to) in [(from, to), (back_from, back_to)] {
        thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        });
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn only_servers_get_through() {
        let target = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let inner = InnerPort::start(target.local_addr().unwrap().port()).unwrap();
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, inner.port()));
        let mut client = TcpStream::connect(to).unwrap();
        assert!(!matches!(client.read(&mut [0]), Ok(1..)), "closed");
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::new(SOURCE, 0).into()).unwrap();
        socket.connect(&to.into()).unwrap();
        let mut server = TcpStream::from(socket);
        let (mut reached, _) = target.accept().unwrap();
        server.write_all(b"a").unwrap();
        let mut byte = [0];
        reached.read_exact(&mut byte).unwrap();
        reached.write_all(&byte).unwrap();
        server.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"a");
    }
}
