//! All refused connections, oldest first: bounded, without system calls.

use std::collections::VecDeque;

use super::TcpRefusalSnapshot;
use super::connection::{Connection, End, Interest, Limits};
use crate::hold::keeper::Why;

/// A connection, or its place while somebody works on it.
pub(super) struct Entry {
    pub(super) id: u64,
    pub(super) connection: Option<Connection>,
    pub(super) interest: Interest,
    pub(super) look_at_ns: u64,
    /// Bytes of its answer that are still here.
    unwritten: u64,
}

pub(super) struct Roster {
    /// Their ids only grow.
    entries: VecDeque<Entry>,
    next_id: u64,
    unwritten: u64,
    max_connections: usize,
    max_bytes: u64,
    /// Whether the thread has been told that there is something new.
    pub(super) rung: bool,
    accepted: u64,
    answered: u64,
    by_peer: u64,
    broken: u64,
    by_time: u64,
    by_bound: u64,
    by_shutdown: u64,
    without_thread: u64,
    /// Of those, how many were held when they were cut by a shutdown.
    cut_at_end: usize,
}

impl Roster {
    pub(super) fn new(max_connections: usize, max_bytes: u64) -> Self {
        Self {
            entries: VecDeque::new(),
            next_id: 0,
            unwritten: 0,
            max_connections,
            max_bytes,
            rung: false,
            accepted: 0,
            answered: 0,
            by_peer: 0,
            broken: 0,
            by_time: 0,
            by_bound: 0,
            by_shutdown: 0,
            without_thread: 0,
            cut_at_end: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Puts a connection in and hands out those that have to go for it: the oldest; for want of
    /// bytes the oldest with something to write; or the new one, if its answer is larger than all
    /// the room there is.
    pub(super) fn put(
        &mut self,
        connection: Connection,
        now_ns: u64,
        limits: &Limits,
    ) -> Vec<Connection> {
        self.accepted += 1;
        let unwritten = connection.unwritten();
        if unwritten > self.max_bytes {
            self.count_cut(Why::Bound, connection.is_answered());
            return vec![connection];
        }
        let mut outgoing = Vec::new();
        while self.entries.len() >= self.max_connections {
            outgoing.extend(self.cut_at(0));
        }
        while self.unwritten > self.max_bytes - unwritten {
            let Some(at) = self.entries.iter().position(|entry| entry.unwritten > 0) else { break };
            outgoing.extend(self.cut_at(at));
        }
        self.unwritten += unwritten;
        self.entries.push_back(Entry {
            id: self.next_id,
            interest: connection.interest(limits),
            // At once: there may be input already, and the peer's system may have the answer.
            look_at_ns: now_ns,
            connection: Some(connection),
            unwritten,
        });
        self.next_id += 1;
        outgoing
    }

    /// Takes the place away. Who works on the connection will find that out.
    fn cut_at(&mut self, at: usize) -> Option<Connection> {
        let entry = self.remove(at)?;
        let answered = entry.connection.as_ref().is_some_and(|it| it.is_answered());
        self.count_cut(Why::Bound, answered);
        entry.connection
    }

    fn remove(&mut self, at: usize) -> Option<Entry> {
        let entry = self.entries.remove(at)?;
        self.unwritten -= entry.unwritten;
        Some(entry)
    }

    /// Takes a connection out to work on it, none if it is gone or another does so. Its place is
    /// kept.
    pub(super) fn check_out(&mut self, id: u64) -> Option<Connection> {
        let at = self.find(id)?;
        self.entries[at].connection.take()
    }

    /// Puts it back; or gives it back, if its place is gone.
    pub(super) fn check_in(
        &mut self,
        id: u64,
        connection: Connection,
        now_ns: u64,
        limits: &Limits,
    ) -> Option<Connection> {
        let Some(at) = self.find(id) else { return Some(connection) };
        let entry = &mut self.entries[at];
        let unwritten = connection.unwritten();
        self.unwritten = self.unwritten - entry.unwritten + unwritten;
        entry.unwritten = unwritten;
        entry.interest = connection.interest(limits);
        entry.look_at_ns = connection.look_at_ns(now_ns, limits);
        entry.connection = Some(connection);
        None
    }

    /// A connection that was taken out has ended. If its place is gone, it was counted already.
    pub(super) fn end(&mut self, id: u64, end: End, answered: bool) {
        let Some(at) = self.find(id) else { return };
        self.remove(at);
        self.count_end(end, answered);
    }

    /// A connection that was never put in has ended.
    pub(super) fn refuse_broken(&mut self) {
        self.accepted += 1;
        self.count_end(End::Broken, false);
    }

    /// A connection came after the shutdown.
    pub(super) fn refuse_late(&mut self, answered: bool) {
        self.accepted += 1;
        self.count_cut(Why::Shutdown, answered);
    }

    /// Takes everything out.
    pub(super) fn take_all(&mut self, why: Why) -> Vec<Connection> {
        self.unwritten = 0;
        let entries = std::mem::take(&mut self.entries);
        if why == Why::Shutdown {
            self.cut_at_end += entries.len();
        }
        let mut all = Vec::with_capacity(entries.len());
        for entry in entries {
            let answered = entry.connection.as_ref().is_some_and(|it| it.is_answered());
            self.count_cut(why, answered);
            all.extend(entry.connection);
        }
        all
    }

    /// How many a shutdown has cut.
    pub(super) fn cut_at_end(&self) -> usize {
        self.cut_at_end
    }

    fn find(&self, id: u64) -> Option<usize> {
        self.entries.binary_search_by_key(&id, |entry| entry.id).ok()
    }

    fn count_end(&mut self, end: End, answered: bool) {
        self.answered += u64::from(answered);
        match end {
            End::ByPeer => self.by_peer += 1,
            End::Broken => self.broken += 1,
            End::ByTime => self.by_time += 1,
        }
    }

    fn count_cut(&mut self, why: Why, answered: bool) {
        self.answered += u64::from(answered);
        match why {
            Why::Bound => self.by_bound += 1,
            Why::Shutdown => self.by_shutdown += 1,
            Why::NoThread => self.without_thread += 1,
        }
    }

    pub(super) fn snapshot(&self) -> TcpRefusalSnapshot {
        TcpRefusalSnapshot {
            held: self.entries.len(),
            unwritten_bytes: self.unwritten,
            accepted: self.accepted,
            answered: self.answered,
            closed_by_peer: self.by_peer,
            broken: self.broken,
            cut_by_time: self.by_time,
            cut_by_bound: self.by_bound,
            cut_by_shutdown: self.by_shutdown,
            cut_without_thread: self.without_thread,
        }
    }
}
