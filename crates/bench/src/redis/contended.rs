//! 16 tasks in 2 processes on one name, beside 16 threads in 2 JVMs.

use std::time::Duration;

use testbed::Redis;

use super::redisson::{Done, Peers};
use crate::report::{Row, millis, per_second};
use crate::stats::{Spread, median};
use crate::worker::Worker;
use crate::{Result, Scale};

const TASKS: usize = 16;

pub(crate) async fn rows(server: &Redis, scale: Scale, peers: &Peers) -> Result<Vec<Row>> {
    let url = server.url();
    let mut workers =
        [Worker::contend(&url, "shared", TASKS / 2)?, Worker::contend(&url, "shared", TASKS / 2)?];
    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let (mut waits, mut their_waits) = (Vec::new(), Vec::new());
    for round in 0..=scale.peer_rounds {
        let mine = contend(&mut workers, scale.peer).await?;
        let peer = peers.one_name("jshared", TASKS, scale.peer).await?;
        // The first round warms up.
        if round == 0 {
            continue;
        }
        ratios.push(mine.pairs / peer.pairs);
        ours.push(mine.pairs);
        theirs.push(peer.pairs);
        waits.push(mine.longest.as_secs_f64() * 1e3);
        their_waits.push(peer.longest.as_secs_f64() * 1e3);
    }
    for worker in workers {
        worker.end().await?;
    }
    let ratio = Spread::of(&ratios);
    let longest = |all: &[f64]| all.iter().copied().fold(0.0, f64::max);
    Ok(vec![
        Row {
            what: "redis: 16 tasks in 2 processes on one name".into(),
            ours: per_second(median(&ours)),
            peer: format!("{} Redisson", per_second(median(&theirs))),
            ratio: Some(ratio),
            bar: "ratio ≥ 2".into(),
            met: ratio.median >= 2.0,
            values: vec![("ours_per_second", median(&ours)), ("peer_per_second", median(&theirs))],
        },
        Row {
            what: "redis: the longest wait among them".into(),
            ours: millis(&waits),
            peer: format!("{} Redisson", millis(&their_waits)),
            ratio: None,
            bar: "no longer than Redisson's longest".into(),
            met: longest(&waits) <= longest(&their_waits),
            values: vec![("ours_longest_ms", longest(&waits)), ("peer_longest_ms", longest(&their_waits))],
        },
    ])
}

async fn contend(workers: &mut [Worker; 2], time: Duration) -> Result<Done> {
    for worker in &mut *workers {
        worker.send(&format!("contend {}", time.as_millis())).await?;
    }
    let mut done = Done { pairs: 0.0, longest: Duration::ZERO };
    for worker in workers {
        done.pairs += worker.answer("pairs").await? as f64 / time.as_secs_f64();
        done.longest = done.longest.max(Duration::from_micros(worker.answer("longest").await?));
    }
    Ok(done)
}
