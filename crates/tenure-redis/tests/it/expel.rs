//! Holders in Redisson's layout whose words are no hold ids: they are shown as foreign, and can be driven out.

use tenure_core::{Client, Lock};
use testbed::{FAR, PATIENCE, RedisOptions, done, until};

use crate::harness::{open, options, polling};

const CALL: &str = "4f3c2b1a-0000-4000-8000-000000000001:-5";
const OTHER: &str = "4f3c2b1a-0000-4000-8000-000000000001:7";

struct World {
    server: testbed::Redis,
    client: Client,
}

impl World {
    async fn new() -> Self {
        let server = testbed::Redis::start(RedisOptions::default()).unwrap();
        // Whoever is not told does not look again.
        let client = Client::with(open(options(server.port())).await, polling(FAR));
        Self { server, client }
    }

    fn cmd(&self, line: &str) -> testbed::Value {
        self.server.cmd(&line.split(' ').collect::<Vec<_>>()).unwrap()
    }

    /// Waits in the store for `lock`, gets it once the foreign holders are driven out, and lets it go.
    async fn is_handed_over(&self, lock: &Lock) {
        let waiting = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire().await.unwrap() }
        });
        until("a waiter", || async { !lock.waiters().await.unwrap().iter().all(|w| w.foreign) }).await;
        assert!(lock.force_release().await.unwrap());
        let guard = done("it is told", waiting).await;
        guard.release().await.unwrap();
        assert!(!lock.force_release().await.unwrap());
    }
}

#[tokio::test]
async fn a_lock() {
    let world = World::new().await;
    world.cmd(&format!("HSET x {CALL} 3"));
    world.cmd("PEXPIRE x 600000");
    let lock = world.client.lock("x");
    let holder = lock.holder().await.unwrap().unwrap();
    assert_eq!((holder.foreign, holder.holds, holder.hold_id()), (true, 3, None));
    world.is_handed_over(&lock).await;
}

#[tokio::test]
async fn a_fair_lock_and_the_first_of_its_queue_is_told() {
    let world = World::new().await;
    let mut ear = world.server.psubscribe(&["redisson_lock__channel:{x}:*"]).unwrap();
    world.cmd(&format!("HSET x {CALL} 1"));
    world.cmd("PEXPIRE x 600000");
    world.cmd(&format!("RPUSH redisson_lock_queue:{{x}} {OTHER}"));
    let late = "9000000000000";
    world.cmd(&format!("ZADD redisson_lock_timeout:{{x}} {late} {OTHER}"));
    let lock = world.client.lock("x").fair();
    assert!(lock.waiters().await.unwrap()[0].foreign);
    // Also where it is not known that it is a fair one.
    assert!(world.client.lock("x").force_release().await.unwrap());
    let told = ear.next_within(PATIENCE).unwrap().unwrap();
    assert_eq!(
        (told.channel.as_str(), told.text().as_str()),
        (&*format!("redisson_lock__channel:{{x}}:{OTHER}"), "0")
    );
}

#[tokio::test]
async fn readers_with_all_their_times() {
    let world = World::new().await;
    world.cmd(&format!("HSET x mode read {CALL} 2 {OTHER} 1"));
    world.cmd("PEXPIRE x 600000");
    for key in [format!("{{x}}:{CALL}:rwlock_timeout:1"), format!("{{x}}:{CALL}:rwlock_timeout:2")] {
        world.cmd(&format!("SET {key} 1 PX 600000"));
    }
    world.cmd(&format!("SET {{x}}:{OTHER}:rwlock_timeout:1 1 PX 500000"));
    let write = world.client.rwlock("x").write();
    let holders = write.holders().await.unwrap();
    assert_eq!(holders.len(), 2);
    // One of two: the other goes on reading, and no longer than its own time.
    let first = holders.iter().find(|h| h.id == CALL).unwrap();
    assert!(write.release_from(first).await.unwrap() && !write.release_from(first).await.unwrap());
    let left = write.holders().await.unwrap();
    assert_eq!((left.len(), left[0].id.as_str()), (1, OTHER));
    assert!(world.cmd("PTTL x").int().unwrap() <= 500_000);
    assert_eq!(world.cmd("KEYS *rwlock_timeout*").items().len(), 1);
    world.is_handed_over(&write).await;
}

#[tokio::test]
async fn a_writer_and_what_it_reads_itself() {
    let world = World::new().await;
    world.cmd(&format!("HSET x mode write {CALL}:write 1 {CALL} 1"));
    world.cmd("PEXPIRE x 600000");
    world.cmd(&format!("SET {{x}}:{CALL}:rwlock_timeout:1 1 PX 600000"));
    let write = world.client.rwlock("x").write();
    assert_eq!(write.holders().await.unwrap().len(), 2);
    world.is_handed_over(&write).await;
}

#[tokio::test]
async fn permits() {
    let world = World::new().await;
    world.cmd("SET x 0");
    let end = b"9000000000000".as_slice();
    world.server.cmd(&[b"ZADD", b"{x}:timeout".as_slice(), end, &[200; 16]]).unwrap();
    let permit = world.client.semaphore("x", 1).permits(1);
    let holder = permit.holder().await.unwrap().unwrap();
    assert_eq!((holder.foreign, holder.id), (true, "c8".repeat(16)));
    world.is_handed_over(&permit).await;
    assert_eq!(world.cmd("GET x").text(), "1");
}
