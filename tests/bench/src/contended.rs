//! 16 tasks in 2 processes on one name, compared with 16 threads in 2 JVMs.

use std::ops::Deref;
use std::time::Duration;

use interop::Peer;

use crate::jvms::{Jvms, LoopResult};
use crate::report::{Row, per_second};
use crate::stats::{Spread, median};
use crate::turns::{Kind, Turns};
use crate::worker::Worker;
use crate::{Result, Scale};

const TASKS: usize = 16;

/// How long the work is measured without anybody to hand over to.
const ALONE: Duration = Duration::from_millis(500);

/// A contended benchmark: store, kind of turns, peer, and the minimum ratio to the peer's rate.
pub(crate) struct Contest<'a> {
    pub(crate) store: &'a str,
    pub(crate) url: &'a str,
    pub(crate) turns: Turns,
    pub(crate) peer: &'a str,
    pub(crate) bar: f64,
    /// Limit for the longest wait; if none is given, the longest wait of the peer.
    pub(crate) longest: Option<Duration>,
}

pub(crate) async fn rows<J: Deref<Target = Peer>>(
    contest: Contest<'_>,
    scale: Scale,
    jvms: &Jvms<J>,
) -> Result<Vec<Row>> {
    let Contest { store, url, turns, peer, bar, longest: limit } = contest;
    let mut workers = [Worker::contend(url, turns, TASKS / 2)?, Worker::contend(url, turns, TASKS / 2)?];
    let mut alone = Worker::contend("memory:", Turns { pause: Duration::ZERO, ..turns }, 1)?;
    let (mut ours, mut theirs, mut work) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=scale.peer_rounds {
        let mine = contend(&mut workers, scale.peer).await?;
        let peer = jvms.one_name(turns, TASKS, scale.peer).await?;
        let undisturbed = contend([&mut alone], ALONE).await?;
        // The first round is a warm-up.
        if round > 0 {
            ours.push(mine);
            theirs.push(peer);
            work.push(undisturbed);
        }
    }
    for worker in workers.into_iter().chain([alone]) {
        worker.end().await?;
    }
    let all = |done: &[LoopResult], of: fn(&LoopResult) -> f64| done.iter().map(of).collect::<Vec<f64>>();
    let ratios = |of: fn(&LoopResult) -> f64| {
        Spread::of(&ours.iter().zip(&theirs).map(|(a, b)| of(a) / of(b)).collect::<Vec<f64>>())
    };
    let pairs = |done: &[LoopResult]| median(&all(done, |d| d.pairs));
    let (p50, longest) = (|d: &LoopResult| ms(d.p50), |d: &LoopResult| ms(d.longest));
    let most = |done: &[LoopResult]| all(done, longest).into_iter().fold(0.0, f64::max);
    let waits = |done: &[LoopResult]| format!("p50 {:.2} max {:.2} ms", median(&all(done, p50)), most(done));
    let rates = ratios(|d| d.pairs);
    let Turns { kind, hold, pause } = turns;
    let what = match (kind, hold + pause) {
        (Kind::Lock, Duration::ZERO) => format!("{store}: {TASKS} tasks in 2 processes on one name"),
        _ => format!("{store}: {kind}, {TASKS} tasks in 2 processes, {hold:?} inside, {pause:?} away"),
    };
    let (no_longer, met) = match limit {
        Some(limit) => (format!("none above {limit:?}"), most(&ours) <= ms(limit)),
        None => (format!("the longest no longer than {peer}'s"), most(&ours) <= most(&theirs)),
    };
    let mut rows = vec![
        Row {
            what,
            ours: per_second(pairs(&ours)),
            peer: format!("{} {peer}", per_second(pairs(&theirs))),
            ratio: Some(rates),
            bar: format!("ratio ≥ {bar}"),
            met: rates.median >= bar,
            values: vec![("ours_per_second", pairs(&ours)), ("peer_per_second", pairs(&theirs))],
        },
        Row {
            what: format!("{store}: the waits among them"),
            ours: waits(&ours),
            peer: format!("{} {peer}", waits(&theirs)),
            ratio: Some(ratios(longest)),
            bar: no_longer,
            met,
            values: vec![
                ("ours_p50_ms", median(&all(&ours, p50))),
                ("peer_p50_ms", median(&all(&theirs, p50))),
                ("ours_longest_ms", most(&ours)),
                ("peer_longest_ms", most(&theirs)),
            ],
        },
    ];
    if !hold.is_zero() {
        rows.push(hand_over(&ours, &theirs, &work, (store, peer)));
    }
    Ok(rows)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

async fn contend(workers: impl IntoIterator<Item = &mut Worker>, time: Duration) -> Result<LoopResult> {
    let mut workers: Vec<&mut Worker> = workers.into_iter().collect();
    for worker in &mut workers {
        worker.send(&format!("contend {}", time.as_millis())).await?;
    }
    let mut all: Option<LoopResult> = None;
    for worker in workers {
        let one = read_result(worker, time).await?;
        all = Some(match all {
            Some(all) => all.and(&one),
            None => one,
        });
    }
    all.ok_or_else(|| "nobody contends".into())
}

/// What a turn takes beside the work, in the same round: the hand-over, and what it makes of the work.
fn hand_over(ours: &[LoopResult], theirs: &[LoopResult], work: &[LoopResult], contest: (&str, &str)) -> Row {
    let (store, peer) = contest;
    let beside = |turns: &[LoopResult]| -> Vec<f64> {
        turns.iter().zip(work).map(|(turn, work)| (1.0 / turn.pairs - 1.0 / work.pairs) * 1e3).collect()
    };
    let (ours, theirs) = (beside(ours), beside(theirs));
    let ratios = Spread::of(&ours.iter().zip(&theirs).map(|(a, b)| a / b).collect::<Vec<f64>>());
    let work: Vec<f64> = work.iter().map(|work| work.pairs).collect();
    Row {
        what: format!(
            "{store}: a turn beside its work, of which there are {} alone",
            per_second(median(&work))
        ),
        ours: format!("{:.3} ms", median(&ours)),
        peer: format!("{:.3} ms {peer}", median(&theirs)),
        ratio: Some(ratios),
        bar: "ratio ≤ 0.5".to_owned(),
        met: ratios.median <= 0.5,
        values: vec![
            ("ours_ms", median(&ours)),
            ("peer_ms", median(&theirs)),
            ("work_alone_per_second", median(&work)),
        ],
    }
}

async fn read_result(worker: &mut Worker, time: Duration) -> Result<LoopResult> {
    Ok(LoopResult {
        pairs: worker.answer("pairs").await? as f64 / time.as_secs_f64(),
        longest: Duration::from_micros(worker.answer("longest").await?),
        p50: Duration::from_micros(worker.answer("p50").await?),
    })
}
