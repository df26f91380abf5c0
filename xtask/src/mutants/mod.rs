//! `cargo xtask mutants`: applies known bugs, one at a time, and expects a named test to fail for each. A passing suite
//! says little unless it is known to fail when it should.

mod list;
mod tree;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use self::list::{Catch, Mutant, Part};
use self::tree::Tree;
use crate::packages::{self, KEEPER, Need, REDIS};
use crate::run::{Ended, Show, run};
use crate::summary::Counts;
use crate::{FAILED, MISSING, cargo, root, verdict};

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
    match hunt(&all) {
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

fn hunt(all: &[Mutant]) -> Result<bool, String> {
    let begin = Instant::now();
    let tree = Tree::sync(&root())?;
    let spoiled = baseline(&tree, all);
    println!("\n{} mutants", all.len());
    let (mut caught, mut survived, mut useless) = (0, 0, 0);
    for mutant in all {
        let start = Instant::now();
        let fate = match spoiled.get(&mutant.catch) {
            Some(why) => Fate::Useless(why.clone()),
            None => try_one(&tree, mutant)?,
        };
        match fate {
            Fate::Caught(_) => caught += 1,
            Fate::Survived => survived += 1,
            Fate::Broken(_) | Fate::Useless(_) => useless += 1,
        }
        let (name, bug, took) = (&mutant.name, &mutant.bug, start.elapsed().as_secs_f64());
        println!("{fate:<9} {name:<34} {took:>5.0} s  {bug}\n{:<53} {}", "", mutant.catch);
        if let Some(why) = fate.why() {
            println!("{:<53} {}", "", why.replace('\n', "\n    "));
        }
    }
    let tried = if useless > 0 { format!(", {useless} not tried") } else { String::new() };
    println!("\n{:.0} s\n{caught} caught, {survived} survived{tried}", begin.elapsed().as_secs_f64());
    Ok(survived + useless == 0)
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
fn baseline(tree: &Tree, all: &[Mutant]) -> BTreeMap<Catch, String> {
    let mut catches: Vec<&Catch> = all.iter().map(|m| &m.catch).collect();
    catches.sort();
    catches.dedup();
    println!("{} tests without mutants", catches.len());
    let (mut spoiled, mut built) = (BTreeMap::new(), BTreeMap::new());
    for catch in catches {
        let start = Instant::now();
        let said = match built.entry(catch.part.binary()).or_insert_with(|| tree.build(&catch.part)) {
            Err(why) => Some(format!("it does not compile: {why}")),
            Ok(()) => match tree.test(catch) {
                (Ended::Well, Counts { passed: 0, .. }, _) => Some("the filter selects no test".to_owned()),
                (Ended::Well, ..) => None,
                (Ended::Badly(why), _, said) => Some(format!("fails without the mutant: {why}\n{said}")),
            },
        };
        let word = if said.is_none() { "passes" } else { "FAILS" };
        println!("{word:<9} {catch} {:.0} s", start.elapsed().as_secs_f64());
        spoiled.extend(said.map(|why| (catch.clone(), why)));
    }
    spoiled
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
