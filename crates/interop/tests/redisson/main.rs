//! The same locks shared with Redisson, in both directions. At the end a table says what was shared.
//!
//! A trial is `PLACE::KIND::CASE`. All trials of a place share its servers and two processes of each side; what they
//! lock has the trial's own name.

mod case;
mod counting;
mod deaths;
mod defects;
mod fair;
mod fenced;
mod latch;
mod lock;
mod multi;
mod mutual;
mod party;
mod permits;
mod rwlock;
mod stage;
mod table;
mod world;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use case::Case;
use libtest_mimic::{Arguments, Failed, Trial};
use stage::Stage;
use table::Table;
use tokio::runtime::Handle;
use world::{Place, Worlds};

/// No case takes longer than this.
const LIMIT: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let mut args = Arguments::from_args();
    // Most cases wait most of the time.
    args.test_threads = args.test_threads.or(Some(6));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let worlds = Arc::new(Worlds::default());
    let table = Arc::new(Table::default());
    let mut trials = Vec::new();
    for case in cases() {
        for &place in places(&case) {
            trials.push(trial(runtime.handle(), &worlds, &table, place, case.clone()));
        }
    }
    let conclusion = libtest_mimic::run(&args, trials);
    print!("{table}");
    // The servers last: processes that lose them would complain.
    drop(worlds);
    runtime.shutdown_background();
    conclusion.exit_code()
}

fn cases() -> Vec<Case> {
    let all = [
        mutual::cases(),
        deaths::cases(),
        lock::cases(),
        fair::cases(),
        rwlock::cases(),
        fenced::cases(),
        counting::cases(),
        permits::cases(),
        latch::cases(),
        multi::cases(),
        defects::cases(),
    ];
    all.into_iter().flatten().collect()
}

fn places(case: &Case) -> &'static [Place] {
    match case.kind {
        _ if case.one_server => &[Place::Single],
        "lock" => &[Place::Single, Place::Cluster, Place::Sentinel],
        "fair" | "read/write" | "latch" | "semaphore" => &[Place::Single, Place::Cluster],
        _ => &[Place::Single],
    }
}

fn trial(handle: &Handle, worlds: &Arc<Worlds>, table: &Arc<Table>, place: Place, case: Case) -> Trial {
    let name = format!("{place}::{}::{}", case.kind, case.name);
    let (handle, worlds, table) = (handle.clone(), worlds.clone(), table.clone());
    Trial::test(name, move || {
        let (kind, way) = (case.kind, case.way);
        let outcome = handle.block_on(run(worlds, place, case));
        table.add(place, kind, way, outcome.is_ok());
        outcome
    })
    .with_kind("")
}

async fn run(worlds: Arc<Worlds>, place: Place, case: Case) -> Result<(), Failed> {
    let world = worlds.get(place).await?;
    let stage = Stage::new(world, &format!("{}.{}", case.kind.replace('/', "-"), case.name));
    let work = tokio::spawn((case.run)(stage));
    let stop = work.abort_handle();
    let outcome = tokio::time::timeout(LIMIT, work).await;
    stop.abort();
    match outcome {
        Ok(Ok(())) => Ok(()),
        Ok(Err(panic)) => {
            let text = panic.try_into_panic().map_or_else(|e| e.to_string(), |p| panic_text(p.as_ref()));
            Err(text.into())
        }
        Err(_) => Err(format!("not done within {LIMIT:?}").into()),
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("panicked").to_owned()
}
