//! Free ports, outside the kernel's ephemeral range: an outgoing connection could take the port of a server that is
//! down for a moment.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Error, Result};

const LOWEST: u16 = 10_000;
/// Start of the ephemeral range, if the kernel does not tell.
const OUTGOING: u16 = 32_768;

/// Returns a port of 127.0.0.1 that was free a moment ago, and that this process has not been given before.
///
/// # Errors
/// When no port is free.
pub fn free_port() -> Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let highest = outgoing().unwrap_or(OUTGOING);
    let range = if highest > LOWEST + 1000 { LOWEST..highest } else { LOWEST..u16::MAX };
    let count = u32::from(range.end - range.start);
    // Each process starts at a random port, and counts up from there.
    let _ = NEXT.compare_exchange(0, fastrand::u32(1..count), Ordering::Relaxed, Ordering::Relaxed);
    for _ in 0..count {
        let offset = NEXT.fetch_add(1, Ordering::Relaxed) % count;
        let port = range.start + u16::try_from(offset).unwrap_or(0);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(Error::failed(format!("no port in {range:?} is free")))
}

fn outgoing() -> Option<u16> {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    range.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_ports_are_not_given_away() {
        let port = free_port().unwrap();
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        let others: Vec<u16> = (0..50).map(|_| free_port().unwrap()).collect();
        assert!(!others.contains(&port), "{port} in {others:?}");
        assert!(others.iter().all(|p| *p < outgoing().unwrap_or(u16::MAX)), "{others:?}");
    }
}
