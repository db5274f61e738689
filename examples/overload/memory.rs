//! How much memory this process holds.

use std::fs::File;
use std::io::{Read, Seek};

/// Where the system tells how much memory is resident. Kept open, and read into a buffer on the
/// stack: what measures memory should not use it.
pub(crate) struct Resident(Option<File>);

impl Resident {
    pub(crate) fn open() -> Self {
        Resident(File::open("/proc/self/statm").ok())
    }

    pub(crate) fn bytes(&mut self) -> Option<u64> {
        let file = self.0.as_mut()?;
        file.rewind().ok()?;
        let mut buffer = [0; 128];
        let len = file.read(&mut buffer).ok()?;
        let text = std::str::from_utf8(&buffer[..len]).ok()?;
        let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
        Some(pages * page_len()?)
    }
}

#[cfg(unix)]
fn page_len() -> Option<u64> {
    // SAFETY: `sysconf` takes no pointer and may be called at any time.
    let len = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(len).ok()
}

#[cfg(not(unix))]
fn page_len() -> Option<u64> {
    None
}

/// Gives freed memory back to the system where the allocator can. Otherwise a pool would fill what
/// the one before it left behind, and seem to need none.
pub(crate) fn give_back_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: `malloc_trim` touches only memory that is free, under the allocator's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}
