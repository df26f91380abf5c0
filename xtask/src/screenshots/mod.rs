//! `cargo xtask screenshots`: pictures of `tenure top` for the documentation, from a real screen with real processes.

mod neutral;
mod scene;
mod screen;
mod svg;
mod terminal;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::check::{done, ran, target};
use crate::scratch::Scratch;
use crate::{cargo, root};
use scene::Scene;
use screen::Row;
use terminal::Terminal;

/// Wider than all of `top`, so that it cuts nothing however long the name of this machine is. Pictures are as large as
/// what is on them.
const SIZE: (u16, u16) = (200, 24);
/// Only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(120);
/// The name that is shown in full.
const CHOSEN: &str = "orders/42";
const DOWN: &str = "\x1b[B";
const ENTER: &str = "\r";

pub(crate) fn screenshots() -> ExitCode {
    done(take())
}

fn take() -> Result<(), String> {
    ran(cargo(&["build", "--package=tenure-cli"]))?;
    let scratch = Scratch::new("screenshots")?;
    let store = scratch.path().join("locks.db").display().to_string();
    let scene = Scene::start(target().join("debug/tenure"), &store)?;
    let top = Terminal::start(scene.tenure(&["top"]), SIZE)?;
    let until = |words: &str| eventually(words, || Ok(Some(top.screen()?).filter(|page| says(page, words))));

    until(&scene.title())?;
    top.press(&DOWN.repeat(scene.rows_above(CHOSEN)))?;
    let table = until(&format!("> {CHOSEN} "))?;
    top.press(ENTER)?;
    let details = until(&format!("{CHOSEN}: fair lock, held"))?;
    top.press("q")?;

    let alt = "tenure top: who holds which lock on this store, since when, until when, and how many wait";
    write("top.svg", &scene, &store, table, alt)?;
    let alt = format!("tenure top: everything about {CHOSEN}, its holder and those who wait");
    write("top-name.svg", &scene, &store, details, &alt)
}

fn write(name: &str, scene: &Scene, store: &str, mut page: Vec<Row>, title: &str) -> Result<(), String> {
    neutral::hide(&mut page, scene.roles(), store)?;
    let file = root().join("docs/images").join(name);
    std::fs::write(&file, svg::picture(&page, title)).map_err(|e| format!("{}: {e}", file.display()))?;
    println!("{}", file.display());
    Ok(())
}

/// Whether the words are there, and `top` does not say that the store is late.
fn says(page: &[Row], words: &str) -> bool {
    let late = page.get(1).is_some_and(|row| !screen::text(row).trim().is_empty());
    !late && page.iter().any(|row| screen::text(row).contains(words))
}

fn eventually<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>, String>) -> Result<T, String> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(seen) = look()? {
            return Ok(seen);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err(format!("not within {PATIENCE:?}: {what}"))
}
