//! Which types and futures may cross threads: checked by the compiler.

use std::time::Duration;

use tenure::{backend, blocking};

fn auto<T: Send + Sync + Unpin + 'static>() {}

fn send<T: Send>(_: T) {}

/// Fails to compile with "type annotations needed" if `T` is `Send`: then both impls apply.
fn not_send<T: Sync + Unpin + 'static + AmbiguousIfSend<A>, A>() {}

trait AmbiguousIfSend<A> {}
impl<T> AmbiguousIfSend<()> for T {}
impl<T: Send> AmbiguousIfSend<u8> for T {}

#[test]
fn types_are_send_and_sync() {
    auto::<tenure::Client>();
    auto::<tenure::Lock>();
    auto::<tenure::RwLock>();
    auto::<tenure::Semaphore>();
    auto::<tenure::CountingSemaphore>();
    auto::<tenure::Latch>();
    auto::<tenure::Election>();
    auto::<tenure::Observer>();
    auto::<tenure::MultiLock>();
    auto::<tenure::Guard>();
    auto::<tenure::MultiGuard>();
    auto::<tenure::Held>();
    auto::<tenure::Owner>();
    auto::<tenure::Error>();
    auto::<tenure::Settings>();
    auto::<tenure::Config>();
    auto::<tenure::Address>();
    auto::<tenure::Snapshot>();
    auto::<tenure::Finding>();
    auto::<tenure::Memory>();
    auto::<tenure::Quorum>();
    auto::<tenure::redis::Redis>();
    auto::<tenure::sqlite::Sqlite>();
    auto::<tenure::zookeeper::ZooKeeper>();
    auto::<tenure::testing::Store>();
    auto::<backend::Claim>();
    auto::<backend::Info>();
    auto::<backend::Background>();
    auto::<backend::ledger::Ledger>();
    #[cfg(feature = "macros")]
    auto::<tenure::Current>();
}

#[test]
fn blocking_guards_stay_in_their_thread() {
    auto::<blocking::Client>();
    auto::<blocking::Lock>();
    auto::<blocking::RwLock>();
    auto::<blocking::Semaphore>();
    auto::<blocking::CountingSemaphore>();
    auto::<blocking::Latch>();
    auto::<blocking::Election>();
    auto::<blocking::Observer>();
    auto::<blocking::MultiLock>();
    not_send::<blocking::Guard, _>();
    not_send::<blocking::MultiGuard, _>();
}

/// So that they can run in `tokio::spawn`.
#[tokio::test]
async fn futures_are_send() {
    let client = tenure::connect("memory:").await.unwrap();
    let wait = Duration::ZERO;
    send(tenure::connect("memory:"));
    send((client.list("", 1), client.show("a"), client.diagnose(), client.close()));
    let lock = client.lock("a");
    send((lock.acquire(), lock.try_acquire(), lock.try_acquire_for(wait)));
    send((lock.holders(), lock.force_release(), lock.revoke()));
    let (latch, count) = (client.latch("b"), client.counting_semaphore("c"));
    send((latch.wait(), latch.count_down(), count.acquire(1), count.release(1)));
    let (election, both) = (client.election("d"), tenure::multi([lock.clone()]));
    send((election.campaign(), election.leader(), both.acquire(), both.try_acquire_for(wait)));
    send(election.observe().unwrap().next());
    let guard = lock.acquire().await.unwrap();
    send((guard.lost(), guard.while_held(async {}), guard.revoked()));
    send(guard.release());
}
