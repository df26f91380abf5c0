//! A client process of the benchmarks: this program again, steered line by line, as the peers' drivers in other
//! languages are.
//!
//! A request is `ID THREAD VERB ARGS…`, its answer `ID ok VALUE` or `ID error CLASS MESSAGE`; the first line out is the
//! answer to a request 0, which is to connect; the end of the input ends the process.
//!
//! - `bench.turns KIND NAME own|shared TASKS MILLIS HOLD PAUSE`: so many tasks take turns for so long, each on a name of
//!   its own or all on one; each stays inside and then away for so many µs. The answer is the nanoseconds that it took,
//!   and for each task how many waits there were in each bucket (see [`crate::stats::Waits`]).
//! - `bench.hold KIND NAME N` acquires so many names and keeps them until `bench.free`.
//! - `bench.wait KIND NAME N HOLD`: so many tasks begin to wait; each enters once, stays for so many µs, and leaves.
//!   `bench.waited` says when that was so far, as `GRANTED:RELEASED` of the clock that all processes share.

mod bare;
mod handed;
mod hash;
#[cfg(feature = "rslock")]
mod rslock;
mod tenure;
mod turns;
mod zookeeper;

use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::Mutex;

use self::handed::Handed;
use self::turns::Turns;
use crate::Result;

/// What is measured.
pub(crate) trait Library: Send + Sync + Sized + 'static {
    type Gate: Gate;

    /// A lock for one task.
    fn gate(&self, kind: &str, name: &str) -> Result<Self::Gate>;

    /// Takes turns; a bare connection does this in its own way.
    fn turns(&self, turns: Turns) -> impl Future<Output = Result<String>> + Send {
        turns::by_tasks(self, turns)
    }
}

/// A lock of one name.
pub(crate) trait Gate: Send + 'static {
    type Held: Send + 'static;

    fn enter(&mut self) -> impl Future<Output = Result<Self::Held>> + Send;

    fn leave(&mut self, held: Self::Held) -> impl Future<Output = Result<()>> + Send;
}

/// Main function of the process. The words are the library and its address.
pub(crate) fn main(words: &[&str]) -> Result<u8> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        match words {
            ["tenure", url] => serve(tenure::Tenure::connect(url)).await,
            ["bare-hash", address] => serve(hash::connect(address)).await,
            ["bare-set", address] => serve(hash::connect_plain(address)).await,
            ["bare-zookeeper", address] => serve(zookeeper::Bare::connect(address)).await,
            #[cfg(feature = "rslock")]
            ["rslock", addresses @ ..] => serve(rslock::Rslock::connect(addresses)).await,
            _ => Err(format!("no client {words:?}").into()),
        }
    })
}

async fn serve<L: Library>(connect: impl Future<Output = Result<L>>) -> Result<u8> {
    let library = match connect.await {
        Ok(library) => Arc::new(library),
        Err(error) => {
            println!("0 error Error {error}");
            return Ok(1);
        }
    };
    println!("0 ok");
    let held = Mutex::new(Held { gate: None, all: Vec::new() });
    let process = Arc::new(Process { library, held, handed: Handed::default() });
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let process = process.clone();
        tokio::spawn(async move {
            let words: Vec<&str> = line.split(' ').collect();
            let (Some(id), Some(request)) = (words.first(), words.get(2..)) else { return };
            match process.perform(request).await {
                Ok(value) => println!("{id} ok {value}"),
                Err(error) => println!("{id} error Error {error}"),
            }
        });
    }
    // Whoever steers this has gone.
    std::process::exit(0);
}

/// What is held. One lock leaves for all, so that nothing but what a holder needs is in memory.
struct Held<G: Gate> {
    gate: Option<G>,
    all: Vec<G::Held>,
}

struct Process<L: Library> {
    library: Arc<L>,
    held: Mutex<Held<L::Gate>>,
    handed: Handed,
}

impl<L: Library> Process<L> {
    async fn perform(&self, words: &[&str]) -> Result<String> {
        match words {
            ["bench.turns", words @ ..] => self.library.turns(Turns::parse(words)?).await,
            ["bench.hold", kind, name, n] => self.hold(kind, name, n.parse()?).await,
            ["bench.free"] => self.free().await,
            ["bench.wait", kind, name, n, hold] => {
                let gates = (0..n.parse()?).map(|_| self.library.gate(kind, name));
                self.handed.wait(gates.collect::<Result<_>>()?, hold.parse()?);
                Ok(String::new())
            }
            ["bench.waited"] => Ok(self.handed.so_far()),
            _ => Err(format!("no request {words:?}").into()),
        }
    }

    async fn hold(&self, kind: &str, name: &str, n: usize) -> Result<String> {
        let mut held = self.held.lock().await;
        held.all.reserve_exact(n);
        for i in 0..n {
            let mut gate = self.library.gate(kind, &format!("{name}{i}"))?;
            held.all.push(gate.enter().await?);
            held.gate = Some(gate);
        }
        Ok(String::new())
    }

    async fn free(&self) -> Result<String> {
        let mut held = self.held.lock().await;
        let Held { gate: Some(gate), all } = &mut *held else { return Ok(String::new()) };
        for inside in all.drain(..) {
            gate.leave(inside).await?;
        }
        Ok(String::new())
    }
}
