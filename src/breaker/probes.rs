//! Who is inside as a probe, and until when.

/// A probe's name: never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProbeId(u64);

#[derive(Debug)]
struct Lease {
    id: ProbeId,
    until_ns: u64,
}

/// The probes inside: a place each, for the time of a lease.
///
/// A place is found by the probe's name and not by a count, so that the late end of a probe whose
/// place was reclaimed takes nobody else's.
#[derive(Debug)]
pub(super) struct Probes {
    leases: Vec<Lease>,
    next_id: u64,
}

impl Probes {
    /// With room for `most`, so that nothing is allocated later.
    pub(super) fn new(most: usize) -> Self {
        Self { leases: Vec::with_capacity(most), next_id: 0 }
    }

    /// Takes the places back whose lease is over.
    pub(super) fn reclaim(&mut self, now_ns: u64) {
        self.leases.retain(|lease| lease.until_ns > now_ns);
    }

    /// Lets one in. The caller has seen that there is room.
    pub(super) fn admit(&mut self, until_ns: u64) -> ProbeId {
        let id = ProbeId(self.next_id);
        self.next_id = self.next_id.wrapping_add(1);
        self.leases.push(Lease { id, until_ns });
        id
    }

    /// Lets one out; false if its place was reclaimed.
    pub(super) fn leave(&mut self, id: ProbeId) -> bool {
        let place = self.leases.iter().position(|lease| lease.id == id);
        place.map(|place| self.leases.swap_remove(place)).is_some()
    }

    pub(super) fn clear(&mut self) {
        self.leases.clear();
    }

    pub(super) fn inside(&self) -> usize {
        self.leases.len()
    }

    /// When the first lease is over.
    pub(super) fn first_end_ns(&self) -> Option<u64> {
        self.leases.iter().map(|lease| lease.until_ns).min()
    }
}
