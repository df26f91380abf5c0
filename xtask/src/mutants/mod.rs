//! `cargo xtask mutants`: applies known bugs, one at a time, and expects a named test to fail for each. A passing suite
//! says little unless it is known to fail when it should.

mod list;
mod table;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use self::list::{Catch, Mutant, Part};
use self::tree::Tree;
use crate::packages::{self, KEEPER, Need, REDIS};
use crate::run::{Ended, Show, run};
use crate::summary::Counts;
use crate::{FAILED, MISSING, cargo, cores, root, verdict};

pub(crate) use self::list::faults;

/// How many seconds tests wait for an event. Most bugs cause a hang.
const PATIENCE: u32 = 12;
/// A test that takes longer counts as hanging.
const HANGS: Duration = Duration::from_secs(150);
const BUILD: Duration = Duration::from_secs(3600);

pub(crate) fn mutants(only: Option<&str>, list: bool) -> ExitCode {
    let (mut all, _) = list::load(&root());
    let wrong = faults(&root());
    all.retain(|mutant| only.is_none_or(|texts| texts.split(',').any(|text| mutant.has(text))));
    if list {
        all.iter().for_each(|m| {
            println!("{:<34} {}\n{:<34} {}\n{:<34} {}", m.name, m.bug, "", m.file, "", m.catch)
        });
        println!("{} mutants", all.len());
    }
    if !wrong.is_empty() {
        eprintln!("{}", wrong.join("\n"));
        return FAILED.into();
    }
    if all.is_empty() {
        eprintln!("there is no such mutant");
        return FAILED.into();
    }
    if list {
        return verdict(true);
    }
    let needs: Vec<Need> = all.iter().flat_map(|m| needs(&m.catch.part)).copied().collect();
    if let Err(why) = packages::provide(&needs) {
        eprintln!("{why}");
        return MISSING.into();
    }
    // Sorted by file, so that little is rebuilt between two mutants.
    all.sort_by(|a, b| (&a.file, &a.catch).cmp(&(&b.file, &b.catch)));
    match hunt(&all, only.is_none()) {
        Ok(good) => verdict(good),
        Err(why) => {
            eprintln!("{why}");
            FAILED.into()
        }
    }
}

fn needs(part: &Part) -> &'static [Need] {
    let of = |word: &str| match word {
        _ if word.contains("redis") || word.contains("redlock") => REDIS,
        _ if word.contains("zookeeper") => KEEPER,
        _ => &[],
    };
    match part {
        Part::Unit(word) | Part::It(word) | Part::Conformance(word) => of(word),
    }
}

/// Tries all mutants, one per core at a time. `whole`: these are all there are, so the table in the documentation is
/// written anew.
fn hunt(all: &[Mutant], whole: bool) -> Result<bool, String> {
    let begin = Instant::now();
    let trees: Vec<Tree> = (0..cores()).map(|n| Tree::sync(&root(), n)).collect::<Result<_, _>>()?;
    let spoiled = baseline(&trees, all);
    println!("\n{} mutants", all.len());
    let tried = side_by_side(&trees, all.iter(), |tree, mutant| {
        let start = Instant::now();
        let fate = match spoiled.get(&mutant.catch) {
            Some(why) => Fate::Useless(why.clone()),
            None => try_one(tree, mutant).unwrap_or_else(Fate::Broken),
        };
        let (name, bug, took) = (&mutant.name, &mutant.bug, start.elapsed());
        let why = fate.why().map(|why| format!("\n{:<53} {}", "", why.replace('\n', "\n    ")));
        println!(
            "{fate:<9} {name:<34} {:>5.0} s  {bug}\n{:<53} {}{}",
            took.as_secs_f64(),
            "",
            mutant.catch,
            why.unwrap_or_default()
        );
        Tried { mutant, fate, took }
    });
    let count = |wanted: fn(&Fate) -> bool| tried.iter().filter(|t| wanted(&t.fate)).count();
    let caught = count(|fate| matches!(fate, Fate::Caught(_)));
    let survived = count(|fate| matches!(fate, Fate::Survived));
    let useless = tried.len() - caught - survived;
    let rest = if useless > 0 { format!(", {useless} not tried") } else { String::new() };
    let verdict = format!("{caught} caught, {survived} survived{rest}");
    println!("\n{:.0} s\n{verdict}", begin.elapsed().as_secs_f64());
    if whole {
        table::write(&root(), &tried, begin.elapsed(), &verdict)?;
    }
    Ok(survived + useless == 0)
}

/// Runs `work` on every item, with one thread per tree. The results are in the order in which they came.
fn side_by_side<T: Send, R: Send>(
    trees: &[Tree],
    items: impl Iterator<Item = T> + Send,
    work: impl Fn(&Tree, T) -> R + Sync,
) -> Vec<R> {
    let (todo, done) = (Mutex::new(items), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for tree in trees {
            scope.spawn(|| {
                loop {
                    let Some(item) = todo.lock().unwrap().next() else { return };
                    let result = work(tree, item);
                    done.lock().unwrap().push(result);
                }
            });
        }
    });
    done.into_inner().unwrap()
}

/// A mutant, and what became of it.
struct Tried<'a> {
    mutant: &'a Mutant,
    fate: Fate,
    took: Duration,
}

/// The outcome of a mutant.
enum Fate {
    /// By a failed test, or in the way described.
    Caught(Option<String>),
    Survived,
    /// It does not compile, so no test has run.
    Broken(String),
    /// Its test also fails without it, or does not exist.
    Useless(String),
}

impl Fate {
    fn why(&self) -> Option<&str> {
        match self {
            Self::Caught(why) => why.as_deref(),
            Self::Survived => None,
            Self::Broken(why) | Self::Useless(why) => Some(why),
        }
    }
}

impl std::fmt::Display for Fate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Caught(_) => "caught",
            Self::Survived => "SURVIVED",
            Self::Broken(_) => "BROKEN",
            Self::Useless(_) => "NO TEST",
        })
    }
}

/// Runs each test without any mutant. Returns those that do not pass, and why.
fn baseline(trees: &[Tree], all: &[Mutant]) -> BTreeMap<Catch, String> {
    let mut by_binary: BTreeMap<Vec<&str>, BTreeSet<&Catch>> = BTreeMap::new();
    for mutant in all {
        by_binary.entry(mutant.catch.part.binary()).or_default().insert(&mutant.catch);
    }
    println!("{} tests without mutants", by_binary.values().map(BTreeSet::len).sum::<usize>());
    // All tests of one binary in one tree, so that it is built once.
    let spoiled = side_by_side(trees, by_binary.into_values(), |tree, catches| {
        let mut spoiled = Vec::new();
        let mut built = None;
        for catch in catches {
            let start = Instant::now();
            let said = match built.get_or_insert_with(|| tree.build(&catch.part)) {
                Err(why) => Some(format!("it does not compile: {why}")),
                Ok(()) => match tree.test(catch) {
                    (Ended::Well, Counts { passed: 0, .. }, _) => {
                        Some("the filter selects no test".to_owned())
                    }
                    (Ended::Well, ..) => None,
                    (Ended::Badly(why), _, said) => Some(format!("fails without the mutant: {why}\n{said}")),
                },
            };
            let word = if said.is_none() { "passes" } else { "FAILS" };
            println!("{word:<9} {catch} {:.0} s", start.elapsed().as_secs_f64());
            spoiled.extend(said.map(|why| (catch.clone(), why)));
        }
        spoiled
    });
    spoiled.into_iter().flatten().collect()
}

fn try_one(tree: &Tree, mutant: &Mutant) -> Result<Fate, String> {
    let file = Path::new(&mutant.file);
    let failed = |e: std::io::Error| format!("{}: {e}", mutant.file);
    let good = std::fs::read_to_string(tree.root.join(file)).map_err(failed)?;
    tree.put(file, mutant.apply(&good)?.as_bytes()).map_err(failed)?;
    let fate = match tree.build(&mutant.catch.part) {
        Err(why) => Fate::Broken(why),
        Ok(()) => match tree.test(&mutant.catch) {
            (Ended::Well, ..) => Fate::Survived,
            (Ended::Badly(_), Counts { failed: 1.., .. }, _) => Fate::Caught(None),
            (Ended::Badly(why), ..) => Fate::Caught(Some(why)),
        },
    };
    tree.put(file, good.as_bytes()).map_err(failed)?;
    Ok(fate)
}

impl Part {
    /// Cargo's arguments for the test binary.
    fn binary(&self) -> Vec<&str> {
        match self {
            Self::Unit(krate) => vec!["--package", krate, "--lib"],
            Self::It(krate) => vec!["--package", krate, "--test", "it"],
            Self::Conformance(_) => vec!["--package", "conformance", "--test", "matrix"],
        }
    }
}

impl Tree {
    fn cargo(&self, part: &Part, words: &[&str]) -> Command {
        let mut command = cargo(&["test"]);
        command.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        // Backtraces are not needed, and without debug information building and linking is faster.
        command.env("CARGO_PROFILE_DEV_DEBUG", "false");
        command.args(part.binary()).args(words);
        command
    }

    fn build(&self, part: &Part) -> Result<(), String> {
        let said = Arc::new(Mutex::new(String::new()));
        let to = said.clone();
        let ended = run(self.cargo(part, &["--no-run", "--quiet"]), BUILD, Show::Later, move |line| {
            if line.starts_with("error") {
                to.lock().unwrap().push_str(&format!("{line}\n"));
            }
        });
        match ended {
            Ended::Well => Ok(()),
            Ended::Badly(why) => Err(format!("{why}\n{}", said.lock().unwrap().trim_end())),
        }
    }

    /// Runs the tests of a filter; returns how they ended, their counts, and their last output.
    fn test(&self, catch: &Catch) -> (Ended, Counts, String) {
        let mut command = self.cargo(&catch.part, &["--quiet", "--", &catch.filter]);
        // A fixed seed, so that each run injects the same faults and catches the same mutants.
        command.env("TENURE_PATIENCE", PATIENCE.to_string()).env("TENURE_SEED", "1");
        if let Part::Conformance(store) = &catch.part {
            command.env("TENURE_STORES", store);
        }
        let said = Arc::new(Mutex::new((Counts::default(), Vec::<String>::new())));
        let to = said.clone();
        let ended = run(command, HANGS, Show::Later, move |line| {
            let (counts, lines) = &mut *to.lock().unwrap();
            if let Some(more) = Counts::of_line(line) {
                *counts += more;
            }
            lines.push(line.to_owned());
        });
        let (counts, lines) = &*said.lock().unwrap();
        (ended, *counts, lines[lines.len().saturating_sub(12)..].join("\n"))
    }
}
