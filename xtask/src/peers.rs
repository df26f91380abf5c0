//! Downloads the dependencies of the drivers for other libraries while the tests are compiled: on a fresh machine this
//! takes longer than the tests themselves. Errors are ignored: the build of the driver fails again, and reports them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::root;
use crate::scratch::Scratch;

/// Fills the caches of the package managers, unless Maven, which takes longest, has done this before.
pub(crate) fn fetch() {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    if home.join(".m2/repository/org/redisson").is_dir() {
        return;
    }
    let sources = root().join("tests/interop");
    let Ok(scratch) = Scratch::new("peers") else { return };
    for project in ["redisson.xml", "curator.xml"] {
        let out = scratch.path().join(project);
        let mut maven = Command::new("mvn");
        maven.args(["-q", "-B", "-f"]).arg(sources.join("java").join(project));
        maven.arg(format!("-Dout={}", out.display()));
        maven.arg(format!("-Dmdep.outputFile={}", out.with_extension("class-path").display()));
        quietly(maven.args(["compiler:compile", "dependency:build-classpath"]));
    }
    quietly(Command::new("go").args(["mod", "download"]).current_dir(sources.join("go")));
    let npm = &mut Command::new("npm");
    for file in ["package.json", "package-lock.json"] {
        let _ = std::fs::copy(sources.join("node").join(file), scratch.path().join(file));
    }
    npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]);
    quietly(npm.current_dir(scratch.path()));
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "-q", "--no-input", "--disable-pip-version-check", "-r"]);
    quietly(pip.arg(sources.join("python/requirements.txt")).arg("-d").arg(scratch.path()));
}

fn quietly(command: &mut Command) {
    let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
}
