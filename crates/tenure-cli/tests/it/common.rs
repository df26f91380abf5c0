//! The real binary on a store of its own, and processes that do not outlive their test.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use testbed::{PATIENCE, wait_until};

/// A directory, with a store in it unless that is elsewhere.
pub(crate) struct Harness {
    dir: TempDir,
    options: &'static str,
    elsewhere: Option<String>,
}

impl Harness {
    /// What a command prints with `--json`, when it ends with this code.
    #[track_caller]
    pub(crate) fn json(&self, line: &[&str], code: i32) -> Value {
        let done = self.run(&[line, &["--json"]].concat());
        serde_json::from_str(&done.code(code).out).unwrap_or_else(|e| panic!("{e}: {done:?}"))
    }

    /// Each kind but the plain lock is held, shown as what it is, and taken away. A fair lock is a `fair` one only where
    /// others are not.
    #[track_caller]
    pub(crate) fn holds_every_kind(&self, fair: &str) {
        let kinds: [(&str, &[&str], &str); 4] = [
            ("fair", &["--fair"], fair),
            ("readers", &["--shared"], "read_write"),
            ("writer", &["--exclusive"], "read_write"),
            ("seats", &["--limit", "3", "--permits", "2"], "permit"),
        ];
        let holders: Vec<_> = kinds.iter().map(|(name, options, _)| self.hold(name, options)).collect();
        for (name, _, family) in kinds {
            assert_eq!(self.show(name)["family"], family);
            self.json(&["release", name, "--force", "--yes"], 0);
            assert!(self.show(name)["holders"].as_array().is_none_or(Vec::is_empty), "{name}");
        }
        self.touch("end");
        for holder in holders {
            holder.done().code(76);
        }
    }

    /// Runs commands under a lock, and shows, lists and releases it while another command waits for it. `check` gets
    /// what `show` prints.
    #[track_caller]
    pub(crate) fn runs_shows_and_releases(&self, check: impl FnOnce(&str)) {
        assert_eq!(self.run(&["ls"]).code(0).out, "");
        self.run(&["run", "demo", "-c", "[ -n \"$TENURE_FENCE\" ] && exit 7"]).code(7);
        let holder = self.hold("demo", &["--note", "nightly import"]);
        self.run(&["run", "demo", "--no-wait", "--", "true"]).code(75).says("(nightly import)");
        let waiter = self.start(&["run", "demo", "--", "true"]);
        self.until_waiters("demo", 1);

        let listed = self.json(&["ls"], 0);
        assert_eq!((&listed[0]["name"], &listed[0]["family"]), (&"demo".into(), &"lock".into()));
        let shown = self.show("demo");
        let held = &shown["holders"][0];
        assert_eq!((&held["pid"], &held["foreign"]), (&holder.id().into(), &false.into()));
        let done = self.run(&["show", "demo"]);
        assert!(done.code(0).out.contains("note nightly import"), "{done:?}");
        check(&done.out);

        let released = self.run(&["release", "demo", "--force", "--yes"]);
        assert!(released.code(0).out.contains("(nightly import)"), "{released:?}");
        waiter.done().code(0);
        self.touch("end");
        holder.done().code(76);
        self.run(&["show", "demo"]).code(1);
    }

    pub(crate) fn new() -> Self {
        Self::with("")
    }

    /// With options in the address, such as `?lease=9s`.
    pub(crate) fn with(options: &'static str) -> Self {
        Self { dir: tempfile::tempdir().unwrap(), options, elsewhere: None }
    }

    /// With the store at this address.
    pub(crate) fn at(url: String) -> Self {
        Self { elsewhere: Some(url), ..Self::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn url(&self) -> String {
        let file = || format!("sqlite:{}{}", self.path("locks.db").display(), self.options);
        self.elsewhere.clone().unwrap_or_else(file)
    }

    /// Keeps everyone out of the store, as a process that is stopped inside a transaction does.
    pub(crate) fn block(&self) -> rusqlite::Connection {
        let file = rusqlite::Connection::open(self.path("locks.db")).unwrap();
        file.busy_timeout(PATIENCE).unwrap();
        file.execute_batch("BEGIN IMMEDIATE").unwrap();
        file
    }

    /// `tenure` with these arguments, in the directory.
    pub(crate) fn tenure<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        // What whoever runs the tests has set is not meant for these.
        for (name, _) in std::env::vars_os().filter(|(n, _)| n.as_encoded_bytes().starts_with(b"TENURE_")) {
            command.env_remove(name);
        }
        command.args(args).current_dir(self.dir.path()).env("TENURE_URL", self.url()).env_remove("NO_COLOR");
        command.stdin(Stdio::null());
        heed_signals(&mut command);
        command
    }

    /// Runs it to its end.
    #[track_caller]
    pub(crate) fn run(&self, line: &[&str]) -> Done {
        self.start(line).done()
    }

    #[track_caller]
    pub(crate) fn start(&self, line: &[&str]) -> Running {
        Running::captured(self.tenure(line))
    }

    /// A holder of `name` that ends when the file `end` is there. It holds when this returns.
    #[track_caller]
    pub(crate) fn hold(&self, name: &str, options: &[&str]) -> Running {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let started = format!("held-{}", NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        let script = format!("echo $$ > {started}; until [ -e end ]; do sleep 0.02; done");
        let running = self.start(&[&["run", name][..], options, &["-c", &script]].concat());
        self.number(&started);
        running
    }

    /// The number in a file, once it is there.
    #[track_caller]
    pub(crate) fn number(&self, file: &str) -> u64 {
        wait_until(file, || self.read(file).filter(|t| t.ends_with('\n'))).trim().parse().unwrap()
    }

    pub(crate) fn read(&self, file: &str) -> Option<String> {
        std::fs::read_to_string(self.path(file)).ok()
    }

    pub(crate) fn touch(&self, file: &str) {
        std::fs::write(self.path(file), "").unwrap();
    }

    /// `tenure show NAME --json`.
    #[track_caller]
    pub(crate) fn show(&self, name: &str) -> Value {
        let done = self.run(&["show", name, "--json"]);
        serde_json::from_str(&done.out).unwrap_or_else(|e| panic!("{e}: {done:?}"))
    }

    #[track_caller]
    pub(crate) fn until_waiters(&self, name: &str, n: usize) {
        wait_until("waiters", || {
            (self.show(name)["waiters"].as_array().map_or(0, Vec::len) == n).then_some(())
        });
    }
}

/// Tests may run where some signals are ignored, under nohup or in the background: tenure would leave them so.
#[allow(unsafe_code)]
pub(crate) fn heed_signals(command: &mut Command) {
    let reset = || {
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
            // SAFETY: the default disposition runs no code.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: `signal` may be called between fork and exec.
    unsafe { std::os::unix::process::CommandExt::pre_exec(command, reset) };
}

/// A process that is killed when its test ends.
pub(crate) struct Running {
    child: Child,
    /// Files, not pipes: what outlives tenure may keep them open.
    out: Option<File>,
    err: Option<File>,
    begun: Instant,
}

impl Running {
    #[track_caller]
    pub(crate) fn start(mut command: Command) -> Self {
        let begun = Instant::now();
        Self { child: command.spawn().unwrap(), out: None, err: None, begun }
    }

    /// Keeps what it writes.
    #[track_caller]
    pub(crate) fn captured(mut command: Command) -> Self {
        let (out, err) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        command.stdout(out.try_clone().unwrap()).stderr(err.try_clone().unwrap());
        let mut running = Self::start(command);
        (running.out, running.err) = (Some(out), Some(err));
        running
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// What it has written to standard error so far.
    pub(crate) fn said(&self) -> String {
        self.err.as_ref().map_or_else(String::new, text)
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    #[track_caller]
    pub(crate) fn done(mut self) -> Done {
        let status = wait_until("the end of tenure", || self.child.try_wait().unwrap());
        let took = self.begun.elapsed();
        let out = self.out.as_ref().map_or_else(String::new, text);
        Done { status, out, err: self.said(), took }
    }
}

/// What is in a file that others write to, at an end of their own.
fn text(file: &File) -> String {
    let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) took: Duration,
}

impl Done {
    /// The code as a shell shows it: 128 + n for one that died of signal n.
    #[track_caller]
    pub(crate) fn code(&self, code: i32) -> &Self {
        let shown = self.status.code().or_else(|| self.status.signal().map(|n| 128 + n));
        assert_eq!(shown, Some(code), "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn died_of(&self, signal: Signal) -> &Self {
        assert_eq!(self.status.signal(), Some(signal.as_raw()), "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn says(&self, words: &str) -> &Self {
        assert!(self.err.contains(words), "{words:?} is not in {self:?}");
        self
    }

    /// The events on standard error.
    #[track_caller]
    pub(crate) fn events(&self) -> Vec<Value> {
        self.err.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect()
    }
}

/// The letter that the system has for what a process does; `None` if there is no such process.
fn state(pid: u64) -> Option<u8> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    // It comes after the name, which may hold anything.
    Some(stat.rsplit_once(')')?.1.trim_start().as_bytes()[0])
}

/// Whether a process runs: one that has ended but was not reaped does not.
pub(crate) fn is_alive(pid: u64) -> bool {
    state(pid).is_some_and(|state| !matches!(state, b'Z' | b'X'))
}

/// Stops a process. It stands still when this returns.
#[track_caller]
pub(crate) fn stop(pid: u64) {
    signal(pid, Signal::STOP);
    wait_until("a stop", || (state(pid) == Some(b'T')).then_some(()));
}

#[track_caller]
pub(crate) fn signal(pid: u64, signal: Signal) {
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), signal).unwrap();
}

/// Waits until a process has ended, and its parent knows.
#[track_caller]
pub(crate) fn until_reaped(pid: u64) {
    wait_until("a process that is reaped", || state(pid).is_none().then_some(()));
}

/// The children of a process, each with what it is called. One that nobody has reaped has no name.
pub(crate) fn children(pid: u32) -> Vec<(u64, String)> {
    let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let name = |pid: u64| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        if is_alive(pid) { name.trim_end().to_owned() } else { String::new() }
    };
    listed.split_whitespace().filter_map(|pid| pid.parse().ok()).map(|pid| (pid, name(pid))).collect()
}

/// The child of this name, once it is there.
#[track_caller]
pub(crate) fn child(pid: u32, name: &str) -> u64 {
    wait_until(name, || Some(children(pid).into_iter().find(|(_, called)| called == name)?.0))
}

/// What must be over before a span of time is, of which only a tenth is set aside. A machine that stands still just then
/// makes it late, so one of five has to be in time. Whoever leaves it to the end of the span is late in all of them.
#[track_caller]
pub(crate) fn in_time(attempt: impl Fn() -> Result<(), String>) {
    let late: Vec<String> = (0..5).map_while(|_| attempt().err()).collect();
    assert!(late.len() < 5, "late each time: {late:#?}");
}

#[track_caller]
pub(crate) fn until_dead(pid: u64) {
    wait_until("the end of a process", || (!is_alive(pid)).then_some(()));
}
