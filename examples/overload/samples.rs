//! What the onlooker writes down while a load is offered.

use std::time::Duration;

/// Seldom enough to cost the pools nothing that could be measured.
pub(crate) const SAMPLE_EVERY: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) at: Duration,
    pub(crate) queued: usize,
    pub(crate) rss_growth_bytes: Option<u64>,
}

/// A list whose memory is there, and was touched, before the run: it must not look like the pool's.
pub(crate) struct Samples {
    taken: usize,
    room: Vec<Sample>,
}

impl Samples {
    pub(crate) fn with_room_for(period: Duration) -> Self {
        let untaken = Sample { at: Duration::MAX, queued: usize::MAX, rss_growth_bytes: None };
        let expected = period.as_nanos() / SAMPLE_EVERY.as_nanos();
        // Room for the time after the last arrival, and for a generator that is late.
        Samples { taken: 0, room: vec![untaken; expected as usize * 2 + 100] }
    }

    /// Once there is no room left, the last one is replaced.
    pub(crate) fn take(&mut self, at: Duration, queued: usize, rss_growth_bytes: Option<u64>) {
        let place = self.taken.min(self.room.len() - 1);
        self.room[place] = Sample { at, queued, rss_growth_bytes };
        self.taken = place + 1;
    }

    pub(crate) fn taken(&self) -> &[Sample] {
        &self.room[..self.taken]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_never_grows_and_keeps_the_latest() {
        let mut samples = Samples::with_room_for(Duration::ZERO);
        for queued in 0..1000 {
            samples.take(Duration::from_millis(queued as u64), queued, Some(1));
        }
        let taken = samples.taken();
        assert_eq!(taken.len(), 100);
        assert_eq!((taken[0].queued, taken[98].queued, taken[99].queued), (0, 98, 999));
    }
}
