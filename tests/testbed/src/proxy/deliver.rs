//! One connection: for each direction a reader that buffers, and a writer that delivers as the rules say.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::connection::{Connection, Ruling, Shared};
use super::frames::{self, Framing};
use super::rules::{Cut, Rule, Way};

/// A piece of the stream, and when it arrived.
struct Parcel {
    arrived: Instant,
    /// Empty at the end of the stream.
    bytes: Vec<u8>,
}

/// Runs until both sides have ended, or the connection is closed.
pub(super) async fn run(client: TcpStream, server: TcpStream, connection: &Connection, shared: &Shared) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let both = async {
        tokio::join!(
            one_way(Way::ToServer, from_client, to_server, connection, shared),
            one_way(Way::ToClient, from_server, to_client, connection, shared),
        )
    };
    tokio::select! {
        _ = both => {}
        () = connection.closed() => {}
    }
}

async fn one_way(
    way: Way,
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    connection: &Connection,
    shared: &Shared,
) {
    let (sender, parcels) = mpsc::unbounded_channel();
    let seed = shared.seed.wrapping_add((2 * connection.number + way as usize) as u64);
    let writer = Writer {
        way,
        to,
        connection,
        shared,
        rulings: connection.rulings(),
        luck: fastrand::Rng::with_seed(seed),
        pieces: 0,
        cut: Budget::default(),
    };
    let read = read(way, from, sender, connection, shared.framing);
    let write = writer.deliver_all(parcels);
    // Once the writer has ended, what is read is of no use.
    tokio::pin!(read, write);
    tokio::select! {
        () = &mut write => {}
        () = &mut read => write.await,
    }
}

async fn read(
    way: Way,
    mut from: OwnedReadHalf,
    to: mpsc::UnboundedSender<Parcel>,
    connection: &Connection,
    framing: Framing,
) {
    let mut buffer = Vec::new();
    loop {
        let count = from.read_buf(&mut buffer).await.unwrap_or(0);
        connection.bytes[way as usize].fetch_add(count as u64, Ordering::Relaxed);
        let arrived = Instant::now();
        while let Some(bytes) = frames::next(framing, &mut buffer) {
            if way == Way::ToServer && framing != Framing::Raw {
                connection.commands.fetch_add(1, Ordering::Relaxed);
            }
            let _ = to.send(Parcel { arrived, bytes });
        }
        if count == 0 {
            // An incomplete piece, and the end of the stream.
            if !buffer.is_empty() {
                let _ = to.send(Parcel { arrived, bytes: buffer });
            }
            let _ = to.send(Parcel { arrived, bytes: Vec::new() });
            return;
        }
    }
}

/// Bytes delivered under one rule.
#[derive(Default)]
struct Budget {
    generation: u64,
    spent: usize,
}

struct Writer<'a> {
    way: Way,
    to: OwnedWriteHalf,
    connection: &'a Connection,
    shared: &'a Shared,
    rulings: watch::Receiver<[Ruling; 2]>,
    luck: fastrand::Rng,
    /// Number of commands, or replies, before this one.
    pieces: u64,
    cut: Budget,
}

impl Writer<'_> {
    async fn deliver_all(mut self, mut parcels: mpsc::UnboundedReceiver<Parcel>) {
        while let Some(parcel) = parcels.recv().await {
            if self.deliver(parcel).await.is_break() {
                return;
            }
        }
    }

    fn rule(&mut self) -> Ruling {
        self.rulings.borrow_and_update()[self.way as usize]
    }

    async fn deliver(&mut self, parcel: Parcel) -> ControlFlow<()> {
        let share = self.luck.f64();
        let chance = self.luck.u8(0..100);
        let ruling = self.wait_for_its_turn(parcel.arrived, share).await;
        match ruling.rule {
            Rule::Swallow => return self.forget_the_rest().await,
            _ if parcel.bytes.is_empty() => {
                let _ = self.to.shutdown().await;
                return ControlFlow::Break(());
            }
            Rule::CutSometimes(percent) if chance < percent => return self.cut().await,
            _ => {}
        }
        let mut bytes = parcel.bytes;
        let mut end = None;
        let framing = self.shared.framing;
        if framing != Framing::Raw {
            match self.way {
                Way::ToServer => {
                    let cut = self.shared.cut_at(&bytes, self.pieces, self.connection);
                    if cut == Some(Cut::BeforeRequest) {
                        return self.cut().await;
                    }
                }
                Way::ToClient if frames::is_push(framing, &bytes, self.pieces) => {
                    if ruling.rule == Rule::DropPushes {
                        self.connection.pushes_dropped.fetch_add(1, Ordering::Relaxed);
                        return ControlFlow::Continue(());
                    }
                    // A push is no reply, and is not counted as one.
                    return self.write(&bytes).await;
                }
                Way::ToClient => {
                    let reply = frames::frame_id(framing, &bytes, self.pieces);
                    end = self.connection.take_reply_cut(reply);
                }
            }
            self.pieces += 1;
        }
        if let Some(end) = end {
            bytes.truncate(end);
            let _ = self.write(&bytes).await;
            return self.cut().await;
        }
        self.write(&bytes).await
    }

    /// Waits as long as the rule says; the rule may change meanwhile.
    async fn wait_for_its_turn(&mut self, arrived: Instant, share: f64) -> Ruling {
        loop {
            let ruling = self.rule();
            let later = match ruling.rule {
                Rule::Stall => Duration::MAX,
                Rule::Delay(time) => time,
                Rule::Jitter(time) => time.mul_f64(share),
                _ => return ruling,
            };
            match arrived.checked_add(later) {
                Some(turn) if Instant::now() >= turn => return ruling,
                Some(turn) => tokio::select! {
                    () = sleep_until(turn) => return ruling,
                    _ = self.rulings.changed() => {}
                },
                None => drop(self.rulings.changed().await),
            }
        }
    }

    /// Writes byte by byte if the rule counts or slows them. The rule may change in between.
    async fn write(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        let mut rest = bytes;
        while let Some((byte, after)) = rest.split_first() {
            let ruling = self.rule();
            match ruling.rule {
                Rule::CutAfter(limit) => {
                    if self.cut.generation != ruling.generation {
                        self.cut = Budget { generation: ruling.generation, spent: 0 };
                    }
                    if self.cut.spent >= limit {
                        return self.cut().await;
                    }
                    self.cut.spent += 1;
                }
                Rule::Trickle(time) => tokio::select! {
                    () = sleep(time) => {}
                    _ = self.rulings.changed() => continue,
                },
                Rule::Stall => {
                    let _ = self.rulings.changed().await;
                    continue;
                }
                Rule::Swallow => return self.forget_the_rest().await,
                _ => return ended(self.to.write_all(rest).await),
            }
            if self.to.write_all(&[*byte]).await.is_err() {
                return ControlFlow::Break(());
            }
            rest = after;
        }
        ControlFlow::Continue(())
    }

    /// Cuts the connection; what was written before is still delivered.
    async fn cut(&mut self) -> ControlFlow<()> {
        let _ = self.to.flush().await;
        self.connection.close();
        // Closing ends the other direction too; until then nothing more is delivered here.
        std::future::pending().await
    }

    /// Keeps the connection open, but discards everything from now on.
    async fn forget_the_rest(&mut self) -> ControlFlow<()> {
        self.connection.swallowed.store(true, Ordering::Relaxed);
        std::future::pending().await
    }
}

fn ended(written: std::io::Result<()>) -> ControlFlow<()> {
    if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}
