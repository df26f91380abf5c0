//! Writes what real servers say to a client into the corpus: each kind of work once, through a relay that keeps the
//! answers. What tells of this machine is replaced by as many `x`.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tenure_core::Process;
use testbed::{Redis, RedisOptions, ZooKeeper, ZooKeeperOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::conversation::Conversation;
use crate::corpus;
use crate::targets::{WORKS, ledgers, to_redis, to_zookeeper};

/// How long a server must be silent so that its answer is taken to be complete. Only recordings depend on it.
const SILENCE: Duration = Duration::from_millis(60);

/// Records all kinds of work, on each server.
///
/// # Panics
/// When a server cannot be started, or a file not be written.
pub fn record() {
    record_ledgers();
    let redis = Redis::start(RedisOptions::default()).expect("redis-server");
    redis.cmd(&["SET", "plain/1", "a token", "PX", "3600000"]).expect("an answer");
    let at = SocketAddr::from(([127, 0, 0, 1], redis.port()));
    let folder = redis.instance().folder().display().to_string();
    for plain in [false, true] {
        for work in WORKS.iter().filter(|work| !plain || ["lock", "inspect", "client"].contains(work)) {
            let work = if plain { format!("{work} plain") } else { (*work).to_owned() };
            record_one("redis-server", &work, at, &folder, |at| to_redis(&work, at, Duration::from_secs(5)));
        }
    }
    let zookeeper = ZooKeeper::start(ZooKeeperOptions::default()).expect("zookeeper");
    let at = SocketAddr::from(([127, 0, 0, 1], zookeeper.port()));
    let folder = zookeeper.instance().folder().display().to_string();
    for work in WORKS {
        record_one("zookeeper-server", work, at, &folder, |at| {
            to_zookeeper(work, at, Duration::from_secs(5))
        });
    }
}

fn record_one(target: &str, work: &str, server: SocketAddr, folder: &str, run: impl FnOnce(SocketAddr)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let said = Arc::new(Mutex::new(Vec::new()));
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
    let at = listener.local_addr().expect("its port");
    let kept = said.clone();
    runtime.spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(relay(client, server, kept.clone()));
        }
    });
    run(at);
    runtime.shutdown_timeout(Duration::from_secs(1));
    let mut says = std::mem::take(&mut *said.lock().unwrap_or_else(PoisonError::into_inner));
    for text in says.iter_mut() {
        for secret in [&*Process::current().host, folder, &kernel()] {
            mask(text, secret.as_bytes());
        }
        mask_values(text, &["os:", "executable:", "config_file:", "gcc_version:", "redis_build_id:"]);
    }
    let (file, parser) = (work.replace(' ', "-"), if target == "redis-server" { "resp" } else { "jute" });
    // Without the answer to the connect request, which is another kind of frame.
    let frames = if parser == "jute" { &says[1.min(says.len())..] } else { &says[..] };
    keep(parser, &file, &frames.concat());
    keep(target, &file, &Conversation { work: work.to_owned(), says }.encode());
}

fn keep(target: &str, file: &str, input: &[u8]) {
    let folder = corpus::folder(target);
    let file = folder.join(file);
    let kept = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&file, input));
    kept.unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    println!("{}: {} bytes", file.display(), input.len());
}

/// Ledgers in all their states, and rows with them.
fn record_ledgers() {
    for (name, ledger) in ledgers() {
        let body = serde_json::to_string(&ledger).expect("JSON");
        keep("ledger", name, body.as_bytes());
        keep("rows", name, format!("all\n{}\n{body}", ledger.fence).as_bytes());
    }
    keep("rows", "idle", b"all\n7\n");
}

/// Passes on what the client says, and keeps what is said to that.
async fn relay(mut client: TcpStream, server: SocketAddr, said: Arc<Mutex<Vec<Vec<u8>>>>) -> io::Result<()> {
    let mut server = TcpStream::connect(server).await?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let n = client.read(&mut buffer).await?;
        if n == 0 {
            return Ok(());
        }
        server.write_all(&buffer[..n]).await?;
        let mut answer = Vec::new();
        while let Ok(n) = tokio::time::timeout(SILENCE, server.read(&mut buffer)).await {
            match n? {
                0 => break,
                n => answer.extend_from_slice(&buffer[..n]),
            }
        }
        said.lock().unwrap_or_else(PoisonError::into_inner).push(answer.clone());
        client.write_all(&answer).await?;
    }
}

fn kernel() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

fn mask(text: &mut [u8], secret: &[u8]) {
    let mut at = 0;
    while !secret.is_empty() && at + secret.len() <= text.len() {
        if text[at..].starts_with(secret) {
            text[at..at + secret.len()].fill(b'x');
        }
        at += 1;
    }
}

/// Masks what stands behind these names, up to the end of the line.
fn mask_values(text: &mut [u8], names: &[&str]) {
    for name in names {
        let mut at = 0;
        while at < text.len() {
            if text[at..].starts_with(name.as_bytes()) {
                let rest = &mut text[at + name.len()..];
                let end = rest.iter().position(|byte| *byte == b'\r').unwrap_or(rest.len());
                rest[..end].fill(b'x');
            }
            at += 1;
        }
    }
}
