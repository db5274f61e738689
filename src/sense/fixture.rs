//! File trees for tests.

use std::fs;
use std::path::{Path, PathBuf};

use crate::sync::stat::{AtomicU64, Relaxed};

/// A directory of its own under the system's temporary one, removed when dropped.
pub(crate) struct Tree(PathBuf);

impl Tree {
    /// With these files, each a path and its contents.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let name = format!("weirpool-{}-{}", std::process::id(), MADE.fetch_add(1, Relaxed));
        let root = std::env::temp_dir().join(name);
        fs::create_dir_all(&root).unwrap();
        let tree = Self(root);
        for (path, contents) in files {
            tree.write(path, contents);
        }
        tree
    }

    pub(crate) fn root(&self) -> &Path {
        &self.0
    }

    pub(crate) fn write(&self, path: &str, contents: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
