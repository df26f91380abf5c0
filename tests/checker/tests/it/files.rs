//! Histories in files, and the command.

use std::process::{Command, Output};

use checker::sim::{Bug, Protocol, Scenario, simulate};
use checker::{History, Store};

use crate::build::{LOCK, Log};

#[test]
fn a_history_is_the_same_when_it_is_read_again() {
    for protocol in [Protocol::Tenure, Protocol::ByHand] {
        let history = simulate(3, Scenario::right(protocol)).history;
        let mut file = Vec::new();
        history.write(&mut file).unwrap();
        let mut again = History::default();
        again.read(file.as_slice()).unwrap();
        assert_eq!(again, history);
    }
}

#[test]
fn half_a_line_at_the_end_is_left_out_and_elsewhere_an_error() {
    let half = r#"{"at":20,"process":1,"wh"#;
    let whole = r#"{"at":20,"process":1,"what":"killed"}"#;
    let mut history = History::default();
    history.read(format!("{whole}\n{half}").as_bytes()).unwrap();
    assert_eq!(history.events().len(), 1);
    let error = history.read(format!("{half}\n{whole}\n").as_bytes()).unwrap_err();
    assert!(error.to_string().starts_with("line 1 is no event"), "{error}");
}

struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn write(&self, name: &str, history: &History) -> String {
        let path = self.0.join(name);
        history.write(std::fs::File::create(&path).unwrap()).unwrap();
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run(arguments: &[&str]) -> (Output, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_checker")).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, text)
}

#[test]
fn the_command_prints_a_table_and_says_by_its_exit_code_what_was_found() {
    let folder = Folder::new("command");
    let good = folder.write("good.jsonl", &simulate(1, Scenario::right(Protocol::Tenure)).history);
    let (output, text) = run(&[&good]);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.starts_with("| history | operations | grants | unknown | violations |"), "{text}");

    let bad = folder.write("bad.jsonl", &simulate(0, Scenario::with(Bug::FenceGoesBack)).history);
    let pictures = folder.0.join("pictures").display().to_string();
    let (output, text) = run(&["--svg", &pictures, &good, &bad]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("seed 0") && text.contains("fence of "), "{text}");
    assert!(std::fs::read_to_string(folder.0.join("pictures/bad-fence.svg")).unwrap().starts_with("<svg"));
}

#[test]
fn a_folder_is_one_history_of_several_processes() {
    let folder = Folder::new("folder");
    let mut log = Log::default();
    folder.write("1.jsonl", &log.hold((10, 50), 1, 1, 7, &LOCK).history());
    let mut log = Log::default();
    folder.write("2.jsonl", &log.hold((40, 80), 2, 1, 8, &LOCK).history());
    let path = folder.0.display().to_string();
    let (output, text) = run(&["--store", "redis", &path]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("overlap of a: 1/1 (lock, fence 7) and 2/1 (lock, fence 8) both hold it for 10 ms")
    );
    let (output, _) = run(&[&path]);
    assert_eq!(output.status.code(), Some(2), "it does not say of which store");
}

#[test]
fn every_store_has_the_name_by_which_the_command_knows_it() {
    let (_, usage) = run(&["--help"]);
    for store in Store::ALL {
        assert!(usage.contains(&store.to_string()), "{store}");
    }
    assert_eq!(run(&["--nonsense"]).0.status.code(), Some(2));
}
