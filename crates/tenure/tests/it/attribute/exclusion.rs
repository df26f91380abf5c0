//! Calls side by side exclude each other, on every store.

use std::sync::Arc;

use tenure::{Client, Result, distributed_lock};
use testbed::until;
use tokio::sync::Barrier;

use super::harness::{Room, memory, on_each_store};

#[distributed_lock(key = id, prefix = "exclusion", client = client)]
async fn visit(client: &Client, id: u32, room: &Room) -> Result<()> {
    room.visit().await;
    Ok(())
}

on_each_store!(branches_exclude_each_other, tasks_exclude_each_other, lists_exclude_each_other);

async fn branches_exclude_each_other(client: Client) {
    let room = Room::default();
    for _ in 0..3 {
        let (a, b) = tokio::join!(visit(&client, 1, &room), visit(&client, 1, &room));
        a.and(b).unwrap();
    }
    assert_eq!((room.most(), room.visits()), (1, 6));
}

async fn tasks_exclude_each_other(client: Client) {
    let (room, start) = (Room::default(), Arc::new(Barrier::new(8)));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (client, room, start) = (client.clone(), room.clone(), start.clone());
            tokio::spawn(async move {
                start.wait().await;
                for _ in 0..3 {
                    visit(&client, 1, &room).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!((room.most(), room.visits()), (1, 24));
}

/// Each takes two of three, in its own order.
async fn lists_exclude_each_other(client: Client) {
    #[distributed_lock(key = [from, to], prefix = "account", client = client)]
    async fn transfer(client: &Client, from: usize, to: usize, rooms: &[Room; 3]) -> Result<usize> {
        rooms[from].visit().await;
        rooms[to].visit().await;
        Ok(tenure::current().unwrap().fences().len())
    }
    let rooms: [Room; 3] = Default::default();
    let tasks: Vec<_> = (0..3)
        .map(|from| {
            let (client, rooms) = (client.clone(), rooms.clone());
            tokio::spawn(async move {
                for _ in 0..3 {
                    assert_eq!(transfer(&client, from, (from + 1) % 3, &rooms).await.unwrap(), 2);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    for room in &rooms {
        assert_eq!((room.most(), room.visits()), (1, 6));
    }
    // An account given twice is locked once.
    assert_eq!(transfer(&client, 1, 1, &rooms).await.unwrap(), 1);
}

/// The room itself sees two at once: without it the tests above could not fail.
#[tokio::test]
async fn other_keys_do_not_exclude() {
    let (client, room) = (memory().await, Room::default());
    let (a, b) = tokio::join!(visit(&client, 1, &room), visit(&client, 2, &room));
    a.and(b).unwrap();
    assert_eq!(room.most(), 2);
}

/// Tasks of a `LocalSet` are driven on the thread of whoever runs it, and still are not inside.
#[tokio::test]
async fn local_tasks_exclude_each_other_and_the_call_that_runs_them() {
    #[distributed_lock(key = 1, prefix = "exclusion", client = client)]
    async fn around(client: &Client, room: &Room) -> Result<tokio::task::JoinHandle<()>> {
        let local = tokio::task::LocalSet::new();
        let inner = (client.clone(), room.clone());
        let task = local.spawn_local(async move { visit(&inner.0, 1, &inner.1).await.unwrap() });
        let waits = async {
            until("the other waits", || async {
                !client.lock("exclusion:1").waiters().await.unwrap().is_empty()
            })
            .await;
        };
        local.run_until(waits).await;
        assert_eq!(room.visits(), 0, "it got in under a call that does not enclose it");
        Ok(task)
    }
    let (client, room) = (memory().await, Room::default());
    let task = around(&client, &room).await.unwrap();
    // Its LocalSet is gone, and it never got in.
    assert!(task.await.unwrap_err().is_cancelled());
    assert_eq!(room.visits(), 0);
}

#[tokio::test]
async fn permits_let_in_as_many_as_there_are() {
    #[distributed_lock(key = "api", kind = permits(2, 4), client = client)]
    async fn call(client: &Client, room: &Room) -> Result<()> {
        room.visit().await;
        Ok(())
    }
    let (client, room) = (memory().await, Room::default());
    futures_util::future::join_all((0..6).map(|_| call(&client, &room)))
        .await
        .into_iter()
        .for_each(|r| r.unwrap());
    assert_eq!((room.most(), room.visits()), (2, 6));
}

#[tokio::test]
async fn readers_share_and_a_writer_does_not() {
    #[distributed_lock(key = "stock", kind = read, client = client)]
    async fn read(client: &Client, room: &Room) -> Result<()> {
        room.visit().await;
        Ok(())
    }
    #[distributed_lock(key = "stock", kind = write, client = client)]
    async fn write(client: &Client, room: &Room) -> Result<()> {
        room.visit().await;
        Ok(())
    }
    let client = memory().await;
    let (readers, writers) = (Room::default(), Room::default());
    let (a, b) = tokio::join!(read(&client, &readers), read(&client, &readers));
    a.and(b).unwrap();
    assert_eq!(readers.most(), 2);
    let (a, b, c) = tokio::join!(write(&client, &writers), read(&client, &writers), write(&client, &writers));
    a.and(b).and(c).unwrap();
    assert_eq!((writers.most(), writers.visits()), (1, 3));
}
