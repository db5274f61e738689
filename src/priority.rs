//! How urgent a job is.

/// How urgent a job is: which lane it waits in, and what it may use at the door.
///
/// Higher lanes are served first; a waiting lower lane is served at least once per ageing bound
/// ([`Builder::ageing_bound`](crate::Builder::ageing_bound)), so that nothing starves for ever.
/// Give the class yourself, from what you know of the work; never take it from the caller's claim.
///
/// ```
/// use weirpool::Priority;
///
/// assert!(Priority::Low < Priority::Normal && Priority::High < Priority::Critical);
/// assert_eq!(Priority::default(), Priority::Normal);
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Work nobody waits for: clean-up, prefetching, reports.
    Low,
    /// What most jobs are.
    #[default]
    Normal,
    /// Work that somebody waits for with little patience.
    High,
    /// Health checks, configuration, what keeps the process itself alive. The only class that may
    /// use the slots of [`Builder::critical_reserve`](crate::Builder::critical_reserve).
    Critical,
}

impl Priority {
    pub(crate) fn lane(self) -> usize {
        self as usize
    }
}
