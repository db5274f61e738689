//! What is held, oldest first: a bounded queue, without locks and clocks.

use std::collections::VecDeque;

/// Places the ring begins with when the first item comes.
const FIRST_PLACES: usize = 16;

pub(super) struct Entry<T> {
    pub(super) item: T,
    pub(super) bytes: u64,
    /// In elapsed nanoseconds; never less than that of an entry before it.
    pub(super) due_ns: u64,
}

/// Bounded in items and bytes. Takes no memory before the first item.
pub(super) struct Ring<T> {
    entries: VecDeque<Entry<T>>,
    bytes: u64,
    max_items: usize,
    max_bytes: u64,
}

impl<T> Ring<T> {
    pub(super) fn new(max_items: usize, max_bytes: u64) -> Self {
        Self { entries: VecDeque::new(), bytes: 0, max_items, max_bytes }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When the oldest is due.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        self.entries.front().map(|entry| entry.due_ns)
    }

    /// Puts an entry in and hands out what has to go for it: the oldest ones, or the entry's own
    /// item if it is larger than all the room there is, or if there is no memory for one more
    /// place.
    pub(super) fn put(&mut self, entry: Entry<T>) -> Vec<T> {
        if entry.bytes > self.max_bytes || !self.has_place() {
            return vec![entry.item];
        }
        let mut outgoing = Vec::new();
        while self.len() >= self.max_items || self.bytes > self.max_bytes - entry.bytes {
            let Some(oldest) = self.take_oldest() else { break };
            outgoing.push(oldest);
        }
        self.bytes += entry.bytes;
        self.entries.push_back(entry);
        outgoing
    }

    /// Grows by doubling, never above the bound.
    fn has_place(&mut self) -> bool {
        let len = self.entries.len();
        if len < self.entries.capacity() || len >= self.max_items {
            return true;
        }
        let more = len.max(FIRST_PLACES).min(self.max_items - len);
        self.entries.try_reserve_exact(more).is_ok()
    }

    pub(super) fn take_oldest(&mut self) -> Option<T> {
        let oldest = self.entries.pop_front()?;
        self.bytes -= oldest.bytes;
        Some(oldest.item)
    }

    /// All entries, with their memory.
    pub(super) fn take_all(&mut self) -> VecDeque<Entry<T>> {
        self.bytes = 0;
        std::mem::take(&mut self.entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts items of these sizes in and expects these indices to be handed out in this order.
    fn check(max_items: usize, max_bytes: u64, sizes: &[u64], expected: &[usize]) {
        let mut ring = Ring::new(max_items, max_bytes);
        let mut outgoing = Vec::new();
        for (item, &bytes) in sizes.iter().enumerate() {
            outgoing.extend(ring.put(Entry { item, bytes, due_ns: 0 }));
            assert!(ring.len() <= max_items && ring.bytes() <= max_bytes);
            assert!(ring.entries.capacity() <= max_items.max(FIRST_PLACES));
        }
        assert_eq!(outgoing, expected);
        let stays = (0..sizes.len()).filter(|item| !expected.contains(item));
        let bytes = ring.bytes();
        let held: Vec<usize> = ring.take_all().into_iter().map(|entry| entry.item).collect();
        assert_eq!(held, stays.collect::<Vec<_>>());
        assert_eq!(bytes, held.iter().map(|&item| sizes[item]).sum::<u64>());
        assert_eq!((ring.len(), ring.bytes()), (0, 0));
    }

    #[test]
    fn the_oldest_go_first() {
        check(2, 100, &[1, 1, 1, 1], &[0, 1]);
        check(10, 10, &[4, 4, 4], &[0]);
        check(10, 10, &[4, 4, 10], &[0, 1]);
        check(1, u64::MAX, &[u64::MAX, u64::MAX], &[0]);
    }

    #[test]
    fn what_can_never_fit_drives_nothing_out() {
        check(10, 10, &[4, 4, 11, 2], &[2]);
    }

    #[test]
    fn items_of_no_size_are_bounded_too() {
        check(3, 1, &[0; 5], &[0, 1]);
    }
}
