//! Every store × every case, in one process. `TENURE_STORES=memory,sqlite` picks stores, `TENURE_SEED` the faults.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use conformance::{Case, Harness, Store, all, stores};
use libtest_mimic::{Arguments, Failed, Trial};

/// Cases end by the patience for each of their steps. One that gets past this goes round in a circle.
const LIMIT: Duration = Duration::from_secs(900);

/// Cases wait for a lease or for a server most of the time.
const CASES_PER_CORE: usize = 24;

fn main() -> ExitCode {
    let mut args = Arguments::from_args();
    let cores = std::thread::available_parallelism().map_or(2, |n| n.get());
    args.test_threads = args.test_threads.or(Some(cores * CASES_PER_CORE));
    let picked = std::env::var("TENURE_STORES").ok();
    let seed: u64 = match std::env::var("TENURE_SEED") {
        Ok(seed) => seed.parse().expect("TENURE_SEED is a number"),
        Err(_) => {
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64 % 1_000_000_000)
        }
    };
    let mut stores = stores();
    stores.retain(|store| picked.as_ref().is_none_or(|p| p.split(',').any(|s| s == store.name())));
    // Case by case, not store by store: while one store's cases wait for a lease, another's have the cores.
    let tally = Arc::new(Tally::default());
    let mut trials = Vec::new();
    for case in all().into_iter().map(Arc::new) {
        for store in &stores {
            trials.push(trial(store, &case, None, &tally));
        }
        for store in stores.iter().filter(|_| case.chaos) {
            trials.push(trial(store, &case, Some(seed), &tally));
        }
    }
    trials.extend(stores.iter().map(opens));
    eprintln!("faults: TENURE_SEED={seed}");
    let conclusion = libtest_mimic::run(&args, trials);
    tally.print();
    conclusion.exit_code()
}

/// How many of the slowest cases are named at the end.
const SLOWEST: usize = 10;

/// What came of the cases of each store, and how long each took.
#[derive(Default)]
struct Tally {
    stores: Mutex<BTreeMap<&'static str, (u32, u32, Duration)>>,
    cases: Mutex<Vec<(Duration, String)>>,
}

impl Tally {
    fn add(&self, store: &'static str, case: String, passed: bool, took: Duration) {
        let mut stores = self.stores.lock().unwrap();
        let (good, bad, time) = stores.entry(store).or_default();
        *(if passed { good } else { bad }) += 1;
        *time += took;
        self.cases.lock().unwrap().push((took, case));
    }

    fn print(&self) {
        for (store, (passed, failed, time)) in &*self.stores.lock().unwrap() {
            let time = time.as_secs_f64();
            println!("{store:<20} {passed:>5} passed {failed:>4} failed {time:>9.1} s of cases side by side");
        }
        let mut cases = self.cases.lock().unwrap();
        cases.sort_unstable();
        for (took, case) in cases.iter().rev().take(SLOWEST) {
            println!("{:>9.1} s  {case}", took.as_secs_f64());
        }
    }
}

fn trial(store: &Arc<dyn Store>, case: &Arc<Case>, chaos: Option<u64>, tally: &Arc<Tally>) -> Trial {
    let layer = if chaos.is_some() { "+faults" } else { "" };
    let name = format!("{}{layer}::{}", store.name(), case.name);
    let lacks = match case.needs.iter().find(|family| !store.serves().contains(family)) {
        Some(family) => Some(format!("no {family}s")),
        None if case.processes && !store.is_shared() => Some("one process only".to_owned()),
        None => None,
    };
    let (store, case, tally) = (store.clone(), case.clone(), tally.clone());
    let trial = match &lacks {
        Some(reason) => Trial::test(format!("{name} [{reason}]"), || Ok(())).with_ignored_flag(true),
        _ => Trial::test(name.clone(), move || {
            let start = Instant::now();
            let outcome = run(&store, &case, chaos);
            tally.add(store.name(), name, outcome.is_ok(), start.elapsed());
            outcome
        }),
    };
    trial.with_kind("")
}

/// Which cases run on a store was decided before it was opened.
fn opens(store: &Arc<dyn Store>) -> Trial {
    let (name, store) = (format!("{}::store::serves_what_was_said", store.name()), store.clone());
    let trial = Trial::test(name, move || {
        let world = store.world().map_err(|e| e.to_string())?;
        let backend = world.backend().map_err(|e| e.to_string())?;
        assert_eq!(backend.info().families, store.serves());
        assert_eq!(world.url().is_some(), store.is_shared());
        Ok(())
    });
    trial.with_kind("")
}

fn run(store: &Arc<dyn Store>, case: &Arc<Case>, chaos: Option<u64>) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let world = store.world().map_err(|e| e.to_string())?;
    let harness = Arc::new(Harness::new(world, chaos, env!("CARGO_BIN_EXE_conformance-worker")));
    let case = case.clone();
    let outcome = runtime.block_on(testbed::run_case(LIMIT, async move {
        (case.run)(harness.clone()).await;
        harness.wait_until_empty().await;
    }));
    runtime.shutdown_background();
    Ok(outcome?)
}
