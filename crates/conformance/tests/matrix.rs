//! Every store × every case. `TENURE_STORES=memory,sqlite` picks stores, `TENURE_SEED` the faults.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use conformance::{Bench, Case, Store, all, stores};
use libtest_mimic::{Arguments, Failed, Trial};
use tenure::Family;

/// No case takes longer than this.
const LIMIT: Duration = Duration::from_secs(90);

fn main() -> ExitCode {
    let mut args = Arguments::from_args();
    // Most cases wait for a lease most of the time.
    args.test_threads = args.test_threads.or(Some(12));
    let picked = std::env::var("TENURE_STORES").ok();
    let seed: u64 = match std::env::var("TENURE_SEED") {
        Ok(seed) => seed.parse().expect("TENURE_SEED is a number"),
        Err(_) => {
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64 % 1_000_000_000)
        }
    };
    let mut trials = Vec::new();
    for store in stores() {
        if picked.as_ref().is_some_and(|p| !p.split(',').any(|s| s == store.name())) {
            continue;
        }
        // A store that does not open fails in the trials themselves.
        let serves =
            store.world().and_then(|world| Ok((world.backend()?.info().families, world.url().is_some())));
        for case in all().into_iter().map(Arc::new) {
            trials.push(trial(&store, &case, None, serves.as_ref().ok()));
            if case.chaos {
                trials.push(trial(&store, &case, Some(seed), serves.as_ref().ok()));
            }
        }
    }
    eprintln!("faults: TENURE_SEED={seed}");
    libtest_mimic::run(&args, trials).exit_code()
}

fn trial(
    store: &Arc<dyn Store>,
    case: &Arc<Case>,
    chaos: Option<u64>,
    serves: Option<&(&[Family], bool)>,
) -> Trial {
    let layer = if chaos.is_some() { "+faults" } else { "" };
    let name = format!("{}{layer}::{}", store.name(), case.name);
    let lacks =
        serves.and_then(|(families, processes)| match case.needs.iter().find(|f| !families.contains(f)) {
            Some(family) => Some(format!("no {family}s")),
            None if case.processes && !processes => Some("one process only".to_owned()),
            None => None,
        });
    let (store, case) = (store.clone(), case.clone());
    let trial = match &lacks {
        Some(reason) => Trial::test(format!("{name} [{reason}]"), || Ok(())).with_ignored_flag(true),
        _ => Trial::test(name, move || run(&store, &case, chaos)),
    };
    trial.with_kind("")
}

fn run(store: &Arc<dyn Store>, case: &Arc<Case>, chaos: Option<u64>) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let world = store.world().map_err(|e| e.to_string())?;
    let bench = Arc::new(Bench::new(world, chaos, env!("CARGO_BIN_EXE_conformance-worker")));
    let case = case.clone();
    let outcome = runtime.block_on(async move {
        let work = tokio::spawn(async move {
            (case.run)(bench.clone()).await;
            bench.nothing_left().await;
        });
        let stop = work.abort_handle();
        let outcome = tokio::time::timeout(LIMIT, work).await;
        stop.abort();
        outcome
    });
    runtime.shutdown_background();
    match outcome {
        Ok(Ok(())) => Ok(()),
        Ok(Err(panic)) => {
            let message = panic.try_into_panic().map_or_else(|e| e.to_string(), |p| panic_text(p.as_ref()));
            Err(message.into())
        }
        Err(_) => Err(format!("not done within {LIMIT:?}").into()),
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("panicked").to_owned()
}
