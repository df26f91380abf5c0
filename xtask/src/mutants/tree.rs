//! A copy of the workspace to apply mutants to. It is kept between runs, with its own target folder, so that only
//! changes are rebuilt.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) struct Tree {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
}

impl Tree {
    /// Brings copy `n` up to date: the tracked files with their content in the work tree, and no others.
    ///
    /// # Errors
    /// When a file cannot be listed or copied.
    pub(crate) fn sync(from: &Path, n: usize) -> Result<Self, String> {
        let base = from.join("target/mutants").join(n.to_string());
        let tree = Self { root: base.join("tree"), target: base.join("target") };
        let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(from).output();
        let listed = listed.map_err(|e| format!("git does not start: {e}"))?;
        let names = String::from_utf8_lossy(&listed.stdout).into_owned();
        let wanted: HashSet<PathBuf> = names
            .split('\0')
            .filter(|n| !n.is_empty() && from.join(n).symlink_metadata().is_ok())
            .map(PathBuf::from)
            .collect();
        if wanted.is_empty() {
            return Err(format!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr).trim()));
        }
        let failed = |e: io::Error| format!("{}: {e}", tree.root.display());
        let mut there = Vec::new();
        files(&tree.root, Path::new(""), &mut there).map_err(failed)?;
        for gone in there.iter().filter(|file| !wanted.contains(*file)) {
            fs::remove_file(tree.root.join(gone)).map_err(failed)?;
        }
        for file in &wanted {
            // Packages have links, also to folders. They are relative, so they lead to the same place here.
            match fs::read_link(from.join(file)) {
                Ok(to) => tree.link(file, &to).map_err(failed)?,
                Err(_) => {
                    let text = fs::read(from.join(file)).map_err(failed)?;
                    tree.put(file, &text).map_err(failed)?;
                }
            }
        }
        Ok(tree)
    }

    fn link(&self, file: &Path, to: &Path) -> io::Result<()> {
        let path = self.root.join(file);
        if fs::read_link(&path).is_ok_and(|old| old == to) {
            return Ok(());
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        if path.symlink_metadata().is_ok() {
            fs::remove_file(&path)?;
        }
        std::os::unix::fs::symlink(to, path)
    }

    /// Writes a file if its content differs, so that unchanged files are not rebuilt.
    pub(crate) fn put(&self, file: &Path, text: &[u8]) -> io::Result<()> {
        let path = self.root.join(file);
        if fs::read(&path).is_ok_and(|old| old == text) {
            return Ok(());
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, text)
    }
}

/// Collects the paths of all files below `root`, relative to it.
fn files(root: &Path, folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let entries = match fs::read_dir(root.join(folder)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => files(root, &path, found)?,
            false => found.push(path),
        }
    }
    Ok(())
}
