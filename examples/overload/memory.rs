//! How much memory this process holds.

/// Resident memory, where the system tells.
pub(crate) fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * page_len()?)
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
