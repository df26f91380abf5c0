//! A server on a loopback port that answers whatever it hears with what an input says: too little, too much, of the
//! wrong type, out of order, or nothing at all.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::{AbortHandle, JoinSet};

/// One thread on which the servers of all inputs run.
#[derive(Debug)]
pub(crate) struct Stage(Runtime);

impl Stage {
    pub(crate) fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        Self(runtime.expect("a runtime"))
    }

    /// Starts a server that says these, one after another, over all connections together.
    pub(crate) fn start(&self, says: Vec<Vec<u8>>) -> Liar {
        let listener = self.0.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let at = listener.local_addr().expect("its port");
        let says = Arc::new(Mutex::new(VecDeque::from(says)));
        let left = says.clone();
        let task = self.0.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    Ok((client, _)) = listener.accept() => drop(connections.spawn(answer(client, says.clone()))),
                    // It has nothing left to say: from now on it refuses connections, so that the client gives up soon.
                    Some(Ok(Ok(Said::All))) = connections.join_next() => return,
                }
            }
        });
        Liar { at, left, task: task.abort_handle() }
    }
}

/// A running server; it ends, with all of its connections, when this is dropped.
#[derive(Debug)]
pub(crate) struct Liar {
    pub(crate) at: SocketAddr,
    #[cfg_attr(not(test), expect(dead_code, reason = "for tests"))]
    left: Arc<Mutex<VecDeque<Vec<u8>>>>,
    task: AbortHandle,
}

impl Liar {
    /// How many things it has not said yet.
    #[cfg(test)]
    pub(crate) fn left(&self) -> usize {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a server has said when a connection ends.
enum Said {
    Some,
    All,
}

/// Says the next thing each time that something is heard, and hangs up when there is none left.
async fn answer(mut client: TcpStream, says: Arc<Mutex<VecDeque<Vec<u8>>>>) -> io::Result<Said> {
    client.set_nodelay(true)?;
    let mut heard = [0; 16 << 10];
    while client.read(&mut heard).await? > 0 {
        let next = says.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some(next) = next else { return Ok(Said::All) };
        client.write_all(&next).await?;
    }
    Ok(Said::Some)
}
