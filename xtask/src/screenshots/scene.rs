//! Who is on the pictures: processes that hold, lead and wait, each with the place and age that the pictures show.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::eventually;
use super::neutral::Role;

struct Actor {
    line: &'static [&'static str],
    waits: bool,
    place: &'static str,
    /// In seconds, less than the 40 minutes of the hour on the clock of the pictures.
    age: u64,
}

const fn holder(place: &'static str, age: u64, line: &'static [&'static str]) -> Actor {
    Actor { line, waits: false, place, age }
}

const fn waiter(place: &'static str, age: u64, line: &'static [&'static str]) -> Actor {
    Actor { line, waits: true, place, age }
}

/// In the order of their start; names in alphabetical order, as `top` sorts them.
const ACTORS: [Actor; 14] = [
    holder("app-1:4107", 95, &["run", "api", "--limit", "4", "--note", "sync"]),
    holder("app-1:3988", 41, &["run", "api", "--limit", "4", "--permits", "2", "--note", "bulk export"]),
    waiter("app-1:4415", 17, &["run", "api", "--limit", "4", "--permits", "2"]),
    holder("app-1:812", 754, &["run", "backup", "--note", "nightly"]),
    waiter("app-1:790", 750, &["run", "backup", "--note", "nightly"]),
    holder("app-1:4123", 8, &["run", "cache", "--shared"]),
    holder("app-1:4402", 5, &["run", "cache", "--shared"]),
    waiter("app-1:4001", 3, &["run", "cache", "--exclusive", "--note", "rebuild"]),
    holder("app-1:4013", 14, &["run", "orders/42", "--fair", "--note", "charge card"]),
    waiter("app-1:4131", 11, &["run", "orders/42", "--fair", "--note", "send invoice"]),
    waiter("app-1:4420", 6, &["run", "orders/42", "--fair", "--note", "refund"]),
    waiter("app-1:4140", 2, &["run", "orders/42", "--fair", "--note", "ship"]),
    holder("app-1:377", 2103, &["elect", "scheduler", "--note", "port 8081"]),
    waiter("app-1:381", 2088, &["elect", "scheduler", "--note", "port 8082"]),
];

/// How long processes have to end by themselves.
const GRACE: Duration = Duration::from_secs(20);

/// The running processes. They end on drop, and also if this process dies: each runs `cat`, whose input this value holds.
pub(super) struct Scene {
    tenure: PathBuf,
    url: String,
    running: Vec<Child>,
    roles: Vec<Role>,
}

impl Scene {
    /// Starts them, one after the other, so that their order on the screen is always the same.
    pub(super) fn start(tenure: PathBuf, store: &str) -> Result<Self, String> {
        let url = format!("sqlite:{store}");
        let mut scene = Self { tenure, url, running: Vec::new(), roles: Vec::new() };
        for (n, actor) in ACTORS.iter().enumerate() {
            let mut command = scene.tenure(&[actor.line, &["--quiet", "--", "cat"]].concat());
            command.stdin(Stdio::piped()).stdout(Stdio::null());
            let child = command.spawn().map_err(|e| format!("{}: {e}", scene.tenure.display()))?;
            scene.roles.push(Role { pid: child.id(), place: actor.place, age: actor.age });
            scene.running.push(child);
            let mut expected = [0, 0];
            for earlier in ACTORS[..=n].iter().filter(|earlier| earlier.name() == actor.name()) {
                expected[usize::from(earlier.waits)] += 1;
            }
            let what = format!("{:?} on the store", actor.line);
            eventually(&what, || Ok((scene.users(actor.name())? == expected).then_some(())))?;
        }
        Ok(scene)
    }

    /// `tenure` with these arguments, on the store of the scene.
    pub(super) fn tenure(&self, line: &[&str]) -> Command {
        let mut command = Command::new(&self.tenure);
        // What whoever takes the pictures has set is not meant for them.
        for (name, _) in std::env::vars_os().filter(|(n, _)| n.as_encoded_bytes().starts_with(b"TENURE_")) {
            command.env_remove(name);
        }
        command.args(line).env("TENURE_URL", &self.url).env_remove("NO_COLOR");
        command
    }

    /// The number of holders and of waiters.
    fn users(&self, name: &str) -> Result<[usize; 2], String> {
        let said = self.tenure(&["show", name, "--json"]).output().map_err(|e| format!("show: {e}"))?;
        let shown: serde_json::Value =
            serde_json::from_slice(&said.stdout).map_err(|e| format!("show {name}: {e}"))?;
        Ok(["holders", "waiters"].map(|what| shown[what].as_array().map_or(0, Vec::len)))
    }

    pub(super) fn roles(&self) -> &[Role] {
        &self.roles
    }

    /// What the title of the screen says when all are on it.
    pub(super) fn title(&self) -> String {
        let mut names: Vec<_> = ACTORS.iter().map(Actor::name).collect();
        names.dedup();
        let waiting = ACTORS.iter().filter(|actor| actor.waits).count();
        format!("{} names in use, {waiting} waiting", names.len())
    }

    /// The number of rows above the first one of `name`.
    pub(super) fn rows_above(&self, name: &str) -> usize {
        ACTORS.iter().take_while(|actor| actor.name() != name).filter(|actor| !actor.waits).count()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.running.iter_mut().for_each(|child| drop(child.stdin.take()));
        let end = Instant::now() + GRACE;
        for child in &mut self.running {
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Actor {
    fn name(&self) -> &'static str {
        self.line[1]
    }
}
