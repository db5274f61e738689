//! How urgent a job is, and what kind of work it is.

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
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
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
    pub(crate) const COUNT: usize = 4;

    /// From the lane's number.
    pub(crate) fn of_lane(lane: u8) -> Self {
        match lane {
            0 => Self::Low,
            1 => Self::Normal,
            2 => Self::High,
            _ => Self::Critical,
        }
    }

    pub(crate) fn lane(self) -> usize {
        self as usize
    }
}

/// What kind of work a job is: a number from 0 to 63 that you give, default 0.
///
/// Service time and CPU cost are learned for each class by itself, so that the eye can tell them
/// apart ([`Snapshot::class`](crate::Snapshot::class)) and an adaptive limit doesn't take a shift
/// from short to long jobs for congestion. A class has no lane and no slots of its own; those are
/// [`Priority`] and [`Partition`](crate::Partition).
///
/// ```
/// use weirpool::Class;
///
/// const THUMBNAIL: Class = Class(1);
/// const PASSWORD: Class = Class(2);
///
/// let pool = weirpool::Pool::new(1, 4)?;
/// pool.job().class(PASSWORD).try_submit(|| ()).unwrap().join().unwrap();
/// let snapshot = pool.snapshot();
/// println!("a password costs {:?}", snapshot.class(PASSWORD).mean_service_time);
/// assert_eq!(snapshot.class(THUMBNAIL).jobs, 0);
/// # Ok::<(), weirpool::BuildError>(())
/// ```
///
/// Numbers above 63 count as 63.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class(pub u8);

impl Class {
    pub(crate) const COUNT: usize = 64;

    #[inline]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0).min(Self::COUNT - 1)
    }
}
