//! One refused connection: what is still to be written, and how long it may linger.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsRawFd, RawFd};

use super::answer::Answer;
use super::system;

/// At most so much is written to or read from one connection before the next has its turn.
const TURN_BYTES: usize = 256 << 10;

/// For how long, and how much.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// From the end of the answer to the cut.
    pub(super) linger_ns: u64,
    /// From the last progress of the answer to the cut.
    pub(super) write_timeout_ns: u64,
    /// From the refusal to the cut, whatever the progress.
    pub(super) longest_ns: u64,
    /// While the system still has some of the answer, how often to look for progress.
    pub(super) look_ns: u64,
    /// Input read and thrown away.
    pub(super) max_drain: u64,
}

/// How a connection ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The peer has closed its side, and the answer is with the system.
    ByPeer,
    /// It broke: reset, or another error.
    Broken,
    /// It was cut: no progress for too long.
    ByTime,
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interest {
    pub(super) read: bool,
    pub(super) write: bool,
}

pub(super) struct Connection {
    stream: TcpStream,
    answer: Answer,
    written: usize,
    half_closed: bool,
    /// The peer has closed its side.
    peer_done: bool,
    drained: u64,
    /// Bytes of the answer that had not reached the peer's system when last looked at.
    outstanding: u64,
    started_ns: u64,
    progress_ns: u64,
}

impl Connection {
    /// Takes over a socket, whatever its settings, and makes a first attempt at writing.
    pub(super) fn new(stream: TcpStream, answer: Answer) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        // So that closing neither waits nor throws the answer away.
        system::close_in_background(&stream)?;
        let outstanding = answer.bytes().len() as u64;
        let mut new = Self {
            stream,
            answer,
            written: 0,
            half_closed: false,
            peer_done: false,
            drained: 0,
            outstanding,
            started_ns: 0,
            progress_ns: 0,
        };
        new.write()?;
        Ok(new)
    }

    /// It is held from now on.
    pub(super) fn start(&mut self, now_ns: u64) {
        self.started_ns = now_ns;
        self.progress_ns = now_ns;
    }

    pub(super) fn fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// Bytes of the answer that are still here.
    pub(super) fn unwritten(&self) -> u64 {
        (self.answer.bytes().len() - self.written) as u64
    }

    /// Whether the system has all of the answer.
    pub(super) fn is_answered(&self) -> bool {
        self.half_closed
    }

    /// Once the peer is done or has sent more than is drained there is nothing to read, and what is
    /// ready for ever must not be asked for.
    pub(super) fn interest(&self, limits: &Limits) -> Interest {
        let read = !self.peer_done && self.drained < limits.max_drain;
        Interest { read, write: self.unwritten() > 0 }
    }

    /// When to look at it although nothing has happened.
    pub(super) fn look_at_ns(&self, now_ns: u64, limits: &Limits) -> u64 {
        let due_ns = self.due_ns(limits);
        if self.outstanding == 0 {
            due_ns
        } else {
            due_ns.min(now_ns.saturating_add(limits.look_ns))
        }
    }

    fn due_ns(&self, limits: &Limits) -> u64 {
        let flushed = self.outstanding == 0;
        let patience_ns = if flushed { limits.linger_ns } else { limits.write_timeout_ns };
        let patient_ns = self.progress_ns.saturating_add(patience_ns);
        patient_ns.min(self.started_ns.saturating_add(limits.longest_ns))
    }

    /// Does what can be done without waiting; says whether that was the end.
    pub(super) fn work(&mut self, now_ns: u64, limits: &Limits, buffer: &mut [u8]) -> Option<End> {
        let was_half_closed = self.half_closed;
        let done = self.write().and_then(|()| self.drain(limits.max_drain, buffer));
        if done.is_err() {
            return Some(End::Broken);
        }
        if self.half_closed && self.peer_done {
            return Some(End::ByPeer);
        }
        // The end of the stream is one more, which some systems take their time to acknowledge.
        let unsent = system::unsent(&self.stream).saturating_sub(self.half_closed.into());
        let outstanding = self.unwritten() + unsent;
        if outstanding < self.outstanding || self.half_closed != was_half_closed {
            self.progress_ns = now_ns;
        }
        self.outstanding = outstanding;
        (now_ns >= self.due_ns(limits)).then_some(End::ByTime)
    }

    /// Throws input away, so that the close that follows doesn't make the system reset the
    /// connection and the peer's system throw away the answer.
    pub(super) fn part(mut self, buffer: &mut [u8]) {
        let _ = self.drain(u64::MAX, buffer);
    }

    /// Writes, and closes our side after the last byte.
    fn write(&mut self) -> io::Result<()> {
        let mut left = TURN_BYTES;
        while self.unwritten() > 0 && left > 0 {
            let rest = &self.answer.bytes()[self.written..];
            match (&self.stream).write(&rest[..rest.len().min(left)]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(bytes) => {
                    self.written += bytes;
                    left -= bytes;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.unwritten() == 0 && !self.half_closed {
            self.stream.shutdown(Shutdown::Write)?;
            self.half_closed = true;
        }
        Ok(())
    }

    /// Reads and throws away, up to `max` bytes in all.
    fn drain(&mut self, max: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut left = max.saturating_sub(self.drained).min(TURN_BYTES as u64);
        while !self.peer_done && left > 0 {
            let room = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            match (&self.stream).read(&mut buffer[..room]) {
                Ok(0) => self.peer_done = true,
                Ok(bytes) => {
                    self.drained += bytes as u64;
                    left -= bytes as u64;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
