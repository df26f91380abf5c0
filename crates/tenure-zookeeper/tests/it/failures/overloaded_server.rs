//! A server that is overloaded for a while, and refuses requests.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use tenure_core::{Backend, Kind};
use testbed::{Cut, FAR, ZkRequest};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::harness::{Harness, claim, fence, open, options};

const LIST: i32 = 8;
const TOO_BUSY: i32 = -127;

/// A proxy that turns a number of answers to lists into errors.
struct Busy {
    port: u16,
    left: Arc<AtomicUsize>,
}

impl Busy {
    async fn start(target: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (port, left) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
        let refusals = left.clone();
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(client, target, refusals.clone()));
            }
        });
        Self { port, left }
    }
}

async fn serve(client: TcpStream, target: u16, left: Arc<AtomicUsize>) -> io::Result<()> {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = TcpStream::connect(("127.0.0.1", target)).await?.into_split();
    let lists = Mutex::new(HashSet::new());
    let requests = async {
        to_server.write_all(&frame(&mut from_client).await?).await?;
        loop {
            let request = frame(&mut from_client).await?;
            if int(&request, 8) == LIST {
                lists.lock().unwrap().insert(int(&request, 4));
            }
            to_server.write_all(&request).await?;
        }
    };
    let answers = async {
        to_client.write_all(&frame(&mut from_server).await?).await?;
        loop {
            let mut answer = frame(&mut from_server).await?;
            let is_list = lists.lock().unwrap().remove(&int(&answer, 4));
            if is_list && left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
                answer[16..20].copy_from_slice(&TOO_BUSY.to_be_bytes());
            }
            to_client.write_all(&answer).await?;
        }
    };
    tokio::select! {
        end = requests => end,
        end = answers => end,
    }
}

/// Reads a frame, with its length prefix.
async fn frame(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let length = from.read_u32().await?;
    let mut frame = length.to_be_bytes().to_vec();
    frame.resize(4 + length as usize, 0);
    from.read_exact(&mut frame[4..]).await?;
    Ok(frame)
}

fn int(frame: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(frame[at..at + 4].try_into().unwrap())
}

/// E3. The node of an unanswered create that is given up is searched for until the server answers.
#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_create_is_searched_for_until_the_server_answers() {
    let harness = Harness::start();
    let network = harness.network();
    let busy = Busy::start(network.proxy.port()).await;
    let store = open(options(busy.port, FAR)).await;
    let once = claim("x", Kind::Lock);
    assert!(fence(&*store, &once).await.is_some());
    store.release(&once, 0).await.unwrap();
    let given_up = claim("x", Kind::Lock);
    network.proxy.cut_once_at(ZkRequest::Create, "/x/", Cut::AfterRequest);
    let error = store.try_acquire(&given_up).await.unwrap_err();
    assert!(error.is_unknown(), "{error}");
    assert_eq!(harness.children("/x").len(), 1);
    busy.left.store(3, SeqCst);
    store.release(&given_up, 0).await.unwrap();
    harness.is_empty("x").await;
    assert_eq!(busy.left.load(SeqCst), 0);
}
