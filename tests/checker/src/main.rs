//! `cargo run -p checker -- HISTORY…`: judges recorded histories.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use checker::{Check, Expectations, History, Report, Store, check, insert, shorten, svg, table, text};

const USAGE: &str = "\
Usage: checker [--store STORE] [--svg FOLDER] HISTORY…
       checker --promises
       checker --write-promises [PAGE]

HISTORY is a file of events, one JSON object per line, or a folder with one such file per process.

  --store STORE            what to judge by, for histories that do not say so: memory, sqlite, redis, redis-plain,
                           redis-sentinel, redis-cluster, redlock, zookeeper
  --svg FOLDER             draws violations there
  --promises               prints the table of promises
  --write-promises [PAGE]  puts it into PAGE, docs/guarantees.md if none is named

Exit code: 0 every promise was kept, 1 one was broken, 2 a history could not be judged.
";

#[derive(Default)]
struct Options {
    store: Option<Store>,
    svg: Option<PathBuf>,
    histories: Vec<PathBuf>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.first().map(String::as_str) {
        None | Some("-h" | "--help") => {
            print!("{USAGE}");
            return if words.is_empty() { ExitCode::from(2) } else { ExitCode::SUCCESS };
        }
        Some("--promises") => {
            print!("{}", table());
            return ExitCode::SUCCESS;
        }
        Some("--write-promises") => {
            let page = words.get(1).map_or_else(guarantees, PathBuf::from);
            write_promises(&page).map(|()| true)
        }
        Some(_) => options(words).and_then(|options| judge(&options)),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("checker: {why}");
            ExitCode::from(2)
        }
    }
}

fn guarantees() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guarantees.md")
}

fn write_promises(page: &Path) -> Result<(), String> {
    let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", page.display());
    let text = std::fs::read_to_string(page).map_err(|e| failed(&e))?;
    let text = insert(&text).ok_or_else(|| failed(&"it has no place for the table"))?;
    std::fs::write(page, text).map_err(|e| failed(&e))
}

fn options(words: Vec<String>) -> Result<Options, String> {
    let mut options = Options::default();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--store" => {
                let value = value()?;
                let known = Store::ALL.into_iter().find(|store| store.to_string() == value);
                options.store = Some(known.ok_or(format!("no store is called {value}"))?);
            }
            "--svg" => options.svg = Some(value()?.into()),
            _ if word.starts_with('-') => return Err(format!("no option is called {word}")),
            _ => options.histories.push(word.into()),
        }
    }
    if options.histories.is_empty() { Err("no history is named".into()) } else { Ok(options) }
}

fn judge(options: &Options) -> Result<bool, String> {
    let mut lines = Vec::new();
    let mut good = true;
    for path in &options.histories {
        let history = read(path)?;
        let said = history.run().map(Expectations::of_run);
        let expected = options.store.map(Expectations::of).map(|by_name| match &said {
            Some(said) => Expectations { store: by_name.store, ..said.clone() },
            None => by_name,
        });
        let expected = expected
            .or(said)
            .ok_or(format!("{}: it does not say of which store: --store", path.display()))?;
        let report = check(&history, &expected);
        show(options, path, &history, &expected, &report)?;
        good &= report.is_good();
        lines.push((path.display().to_string(), report.row()));
    }
    println!("| history | {} |", Report::COLUMNS.join(" | "));
    println!("| --- |{}", " --- |".repeat(Report::COLUMNS.len()));
    for (path, row) in lines {
        println!("| {path} | {} |", row.join(" | "));
    }
    Ok(good)
}

fn read(path: &Path) -> Result<History, String> {
    let failed = |path: &Path, why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        let entries = path.read_dir().map_err(|e| failed(path, &e))?;
        files = entries.flatten().map(|entry| entry.path()).filter(|file| file.is_file()).collect();
        files.sort();
    }
    let mut history = History::default();
    for file in files {
        let open = File::open(&file).map_err(|e| failed(&file, &e))?;
        history.read(BufReader::new(open)).map_err(|e| failed(&file, &e))?;
    }
    Ok(history)
}

/// Prints the first violation of each check, and draws it if that is wanted.
fn show(
    options: &Options,
    path: &Path,
    history: &History,
    expected: &Expectations,
    report: &Report,
) -> Result<(), String> {
    let mut shown: Vec<Check> = Vec::new();
    for violation in &report.violations {
        if shown.contains(&violation.check) {
            continue;
        }
        shown.push(violation.check);
        let short = shorten(history, expected, violation);
        println!("{}: {}", path.display(), text(&short, violation));
        if let Some(folder) = &options.svg {
            let stem = path.file_stem().unwrap_or_default().display();
            let file = folder.join(format!("{stem}-{}.svg", violation.check));
            let drawn =
                std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&file, svg(&short, violation)));
            drawn.map_err(|e| format!("{}: {e}", file.display()))?;
            println!("drawn: {}\n", file.display());
        }
    }
    Ok(())
}
