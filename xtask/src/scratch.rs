//! A temporary folder that is removed on drop.

use std::path::{Path, PathBuf};

pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes a folder of this process for `what`.
    ///
    /// # Errors
    /// When it cannot be made; the text names it.
    pub(crate) fn new(what: &str) -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("tenure-{what}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(Self(folder))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
