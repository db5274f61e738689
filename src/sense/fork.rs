//! Whether this process was forked off since a pool was built.
//!
//! A forked child has the pool's memory but none of its threads, and any lock may be held for ever
//! by a thread that no longer exists. So the child must know before it touches a lock, and the
//! check must cost next to nothing: a `pthread_atfork` handler raises a number in the child, and a
//! pool (or handle) whose own number differs belongs to the parent.

use crate::sync::stat::{AtomicUsize, Relaxed};

/// How many forks lie between this process and the first one that built a pool.
static GENERATION: AtomicUsize = AtomicUsize::new(0);

/// The generation in which something was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(usize);

impl Generation {
    /// Relaxed suffices: only the fork handler writes, while the child has a single thread.
    #[inline]
    pub(crate) fn current() -> Self {
        Self(GENERATION.load(Relaxed))
    }

    /// Whether the process was forked since.
    #[inline]
    pub(crate) fn is_past(self) -> bool {
        self != Self::current()
    }
}

/// Asks the system to tell us of forks; called before the first pool starts its threads. Fails if
/// the system has no memory for that.
pub(crate) fn watch() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        static WATCHING: crate::sync::OnceLock<i32> = crate::sync::OnceLock::new();

        extern "C" fn in_child() {
            GENERATION.fetch_add(1, Relaxed);
        }

        let error = *WATCHING.get_or_init(|| {
            // SAFETY: `in_child` is a function that lives as long as the program and does nothing
            // but add to an atomic, which is allowed in the child of a process with many threads.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) }
        });
        if error != 0 {
            return Err(std::io::Error::from_raw_os_error(error));
        }
    }
    Ok(())
}
