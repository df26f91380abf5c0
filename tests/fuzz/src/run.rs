//! Reads the corpus and mutations of it, and says which input fails: by a panic in any thread, by a hang, or by more
//! memory than the target's bound.

use std::fmt;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::mutate::mutate;
use crate::shrink::shrink;
use crate::{Target, corpus, memory};

/// How much is tried after the corpus: whichever ends first.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// The number of new inputs.
    pub inputs: u64,
    /// The time.
    pub time: Duration,
}

/// What was tried.
#[derive(Debug)]
pub struct Report {
    /// The inputs of the corpus.
    pub kept: usize,
    /// The new inputs.
    pub new: u64,
    /// The most memory that one of them took, in bytes.
    pub memory: usize,
    /// How long it took.
    pub time: Duration,
}

/// An input that fails.
#[derive(Debug)]
pub struct Failure {
    /// The file with the input.
    pub file: PathBuf,
    /// What is wrong.
    pub why: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = self.file.parent().and_then(Path::file_name).unwrap_or_default().display();
        write!(
            f,
            "{}\nthe input is {}; once this is mended, keep it in tests/fuzz/corpus/{folder}",
            self.why,
            self.file.display()
        )
    }
}

/// Reads all of the corpus of `target`, then new inputs that `seed` determines.
///
/// # Errors
/// The first input that fails, made as short as possible.
pub fn run(target: &mut dyn Target, seed: u64, limit: Limit) -> Result<Report, Box<Failure>> {
    let (begun, name) = (Instant::now(), target.name());
    let watch = Watchdog::start(name);
    let mut memory = 0;
    let kept: Vec<Vec<u8>> = corpus::load(name).into_iter().map(|(_, input)| input).collect();
    for inputs in kept.chunks(target.at_once()) {
        memory =
            memory.max(read(target, inputs, &watch).map_err(|why| failure(target, inputs, why, &watch))?);
    }
    let (mut rng, mut new) = (Rng::with_seed(seed), 0);
    while new < limit.inputs && begun.elapsed() < limit.time {
        let mut input = || mutate(&kept[rng.usize(..kept.len())], &kept, target.tokens(), &mut rng);
        let inputs: Vec<Vec<u8>> = (0..target.at_once()).map(|_| input()).collect();
        new += inputs.len() as u64;
        memory =
            memory.max(read(target, &inputs, &watch).map_err(|why| failure(target, &inputs, why, &watch))?);
    }
    Ok(Report { kept: kept.len(), new, memory, time: begun.elapsed() })
}

/// Reads the input in one file.
///
/// # Errors
/// What is wrong with it.
pub fn replay(target: &mut dyn Target, file: &Path) -> Result<usize, String> {
    let input = std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let watch = Watchdog::start(target.name());
    read(target, &[input], &watch)
}

/// Finds which of these inputs fails by itself, and makes it shorter.
fn failure(target: &mut dyn Target, inputs: &[Vec<u8>], why: String, watch: &Watchdog) -> Box<Failure> {
    let mut fails = |input: &[u8]| QUIET.set_for(|| read(target, &[input.to_vec()], watch)).err();
    let Some((input, why)) = inputs.iter().find_map(|input| Some((input, fails(input)?))) else {
        let files = inputs.iter().map(|input| save(target.name(), &format!("{:016x}", hash(input)), input));
        let file = files.last().unwrap_or_default();
        let why = format!(
            "{why}\n({} inputs were read at once; each alone is good, all are in that folder)",
            inputs.len()
        );
        return Box::new(Failure { file, why });
    };
    // A shorter one must fail for the same reason, not for a new one.
    let shortest = shrink(input, |input| fails(input).is_some_and(|other| kind(&other) == kind(&why)));
    let file = save(target.name(), &format!("{:016x}", hash(&shortest)), &shortest);
    Box::new(Failure { file, why })
}

/// Where it panics, or that it uses too much memory.
fn kind(why: &str) -> Option<&str> {
    if why.contains("too much memory") { Some("memory") } else { why.lines().next() }
}

/// Panics so far, in whatever thread, and the last one.
static PANICS: AtomicU64 = AtomicU64::new(0);
static LAST: Mutex<String> = Mutex::new(String::new());
static QUIET: Quiet = Quiet(Mutex::new(false));

/// Whether panics are shown.
struct Quiet(Mutex<bool>);

impl Quiet {
    fn set_for<T>(&self, work: impl FnOnce() -> T) -> T {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        let done = work();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = false;
        done
    }
}

/// Counts panics: one in a task or a thread of its own reaches nobody who waits for it.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, SeqCst);
            *LAST.lock().unwrap_or_else(PoisonError::into_inner) = panic.to_string();
            if !*QUIET.0.lock().unwrap_or_else(PoisonError::into_inner) {
                before(panic);
            }
        }));
    });
}

/// Reads some inputs at once. Returns the memory that they took, or what is wrong.
fn read(target: &mut dyn Target, inputs: &[Vec<u8>], watch: &Watchdog) -> Result<usize, String> {
    let panics = PANICS.load(SeqCst);
    watch.begin(inputs);
    let used = memory::used(|| drop(catch_unwind(AssertUnwindSafe(|| target.read_all(inputs)))));
    watch.end();
    if PANICS.load(SeqCst) != panics {
        let last = LAST.lock().unwrap_or_else(PoisonError::into_inner).clone();
        return Err(format!("{}: {last}", target.name()));
    }
    let most = inputs.iter().map(|input| target.most_memory(input.len())).sum();
    if used > most {
        return Err(format!(
            "{} uses too much memory: {used} bytes at once for inputs of {}, where {most} are the most",
            target.name(),
            inputs.iter().map(Vec::len).sum::<usize>()
        ));
    }
    Ok(used)
}

/// Stands between inputs that are read at once, in the file with the current ones.
const BETWEEN: &[u8] = b"\n%%%%\n";

/// Ends the process if one input takes longer than the patience of all tests, and leaves that input in a file. The file
/// is also there if the process dies, of a stack overflow for instance.
struct Watchdog {
    target: &'static str,
    current: std::fs::File,
    begun: Arc<Mutex<Option<Instant>>>,
}

impl Watchdog {
    fn start(target: &'static str) -> Self {
        count_panics();
        let path = save(target, "current", b"");
        let begun = Arc::new(Mutex::new(None::<Instant>));
        let (seen, shown) = (Arc::downgrade(&begun), path.clone());
        std::thread::spawn(move || {
            while let Some(begun) = seen.upgrade() {
                let begun = *begun.lock().unwrap_or_else(PoisonError::into_inner);
                if begun.is_some_and(|begun| begun.elapsed() > testbed::patience()) {
                    eprintln!("{target} hangs; the input is {}", shown.display());
                    std::process::exit(101);
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let current = std::fs::File::options().write(true).open(&path).expect("it was just written");
        Self { target, current, begun }
    }

    fn begin(&self, inputs: &[Vec<u8>]) {
        let text = inputs.join(BETWEEN);
        let written = self.current.set_len(0).and_then(|()| self.current.write_all_at(&text, 0));
        written.unwrap_or_else(|e| panic!("the input of {} cannot be kept: {e}", self.target));
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn end(&self) {
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Writes an input to a file beside the program that runs: in cargo's target folder.
fn save(target: &str, name: &str, input: &[u8]) -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let marked = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    let folder = marked.map_or_else(std::env::temp_dir, Path::to_owned).join("fuzz").join(target);
    let file = folder.join(name);
    let saved = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&file, input));
    saved.unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    file
}

fn hash(bytes: &[u8]) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails in the ways that a target can.
    struct Wrong;

    impl Target for Wrong {
        fn name(&self) -> &'static str {
            "duration"
        }

        fn tokens(&self) -> &'static [&'static str] {
            &["panic", "thread", "memory"]
        }

        fn most_memory(&self, length: usize) -> usize {
            (1 << 16) + 8 * length
        }

        fn read(&mut self, input: &[u8]) {
            let text = String::from_utf8_lossy(input);
            assert!(!text.contains("panic"), "as it should");
            if text.contains("thread") {
                std::thread::spawn(|| panic!("out of sight")).join().unwrap_err();
            }
            if text.contains("memory") {
                drop(std::hint::black_box(vec![0_u8; 1 << 24]));
            }
        }
    }

    #[test]
    fn every_kind_of_failure_is_found() {
        let _alone = memory::alone();
        let watch = Watchdog::start("duration");
        let read = |input: &[u8]| QUIET.set_for(|| read(&mut Wrong, &[input.to_vec()], &watch));
        assert!(read(b"30s").is_ok());
        assert!(read(b"a panic").unwrap_err().contains("as it should"));
        assert!(read(b"a thread").unwrap_err().contains("out of sight"));
        assert!(read(b"much memory").unwrap_err().contains("too much memory"));
        let endless = Limit { inputs: u64::MAX, time: Duration::MAX };
        let failed = QUIET.set_for(|| run(&mut Wrong, 7, endless)).unwrap_err();
        let shortest = std::fs::read(&failed.file).unwrap();
        assert!(shortest.len() <= 7, "{:?}", String::from_utf8_lossy(&shortest));
        assert!(failed.to_string().contains("tests/fuzz/corpus/duration"), "{failed}");
    }
}
