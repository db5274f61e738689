//! What the owner of a deque knows of its upper end without looking.

use std::cell::Cell;

use super::nested::{Place, is_earlier};

/// So many entries are known at most; a body seldom joins what lies deeper.
const KNOWN: usize = 64;

/// The places of the newest entries, of which the newest is last. Entries that thieves have taken may
/// still be among them: they take the oldest first, so if the newest is gone, all are.
pub(super) struct Newest {
    places: [Cell<Place>; KNOWN],
    /// Where the next goes, around the ring.
    next: Cell<usize>,
    known: Cell<usize>,
}

impl Newest {
    pub(super) fn new() -> Self {
        Self { places: [const { Cell::new(0) }; KNOWN], next: Cell::new(0), known: Cell::new(0) }
    }

    /// An entry was pushed.
    #[inline]
    pub(super) fn pushed(&self, place: Place) {
        self.places[self.next.get() % KNOWN].set(place);
        self.next.set(self.next.get().wrapping_add(1));
        self.known.set((self.known.get() + 1).min(KNOWN));
    }

    /// The newest was taken out by the owner.
    #[inline]
    pub(super) fn popped(&self) {
        if self.known.get() > 0 {
            self.known.set(self.known.get() - 1);
            self.next.set(self.next.get().wrapping_sub(1));
        }
    }

    /// Whether the newest entry is known to be this one, if there is one.
    #[inline]
    pub(super) fn is(&self, place: Place) -> bool {
        let newest = &self.places[self.next.get().wrapping_sub(1) % KNOWN];
        self.known.get() > 0 && newest.get() == place
    }

    /// Whether there is none from the place `next` on, nor from elsewhere above those from before.
    pub(super) fn is_before(&self, next: Place) -> bool {
        let newest = self.places[self.next.get().wrapping_sub(1) % KNOWN].get();
        self.known.get() == 0 || is_earlier(newest, next)
    }

    /// There is none left.
    #[inline]
    pub(super) fn clear(&self) {
        self.known.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_newest_as_far_down_as_it_goes() {
        let newest = Newest::new();
        assert!(!newest.is(0));
        (0..1_000).for_each(|place| newest.pushed(place));
        for place in (1_000 - KNOWN as u64..1_000).rev() {
            assert!(newest.is(place) && !newest.is(place - 1), "{place}");
            newest.popped();
        }
        // What lies below was forgotten.
        assert!((0..1_000).all(|place| !newest.is(place)));
        newest.popped();
        newest.pushed(7);
        assert!(newest.is(7));
        assert!(!newest.is_before(7) && newest.is_before(8));
        newest.clear();
        assert!(!newest.is(7) && newest.is_before(0));
    }
}
