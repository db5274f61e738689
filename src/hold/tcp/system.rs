//! The system calls that the standard library doesn't have.

use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Turns `SO_LINGER` off, which some servers set: with a time it makes `close` wait, also on a
/// socket that doesn't block; with zero it makes `close` reset the connection.
pub(super) fn close_in_background(stream: &TcpStream) -> io::Result<()> {
    let off = libc::linger { l_onoff: 0, l_linger: 0 };
    // SAFETY: the descriptor is open, and the option's value is a live `linger` of the size given.
    let answer = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const off).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// How many written bytes the peer's system has not acknowledged; zero where that can't be known.
pub(super) fn unsent(stream: &TcpStream) -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the descriptor is open, and this request writes one int to the place given. (It is
        // SIOCOUTQ, tcp(7), under its older name.)
        let answer = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        if answer == 0 { u64::try_from(bytes).unwrap_or(0) } else { 0 }
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        let _ = stream;
        0
    }
}

/// Waits until one of them is ready, at most for `limit` (none: for as long as it takes). Who is
/// ready has its `revents` set: all of them, if the system can't say.
pub(super) fn poll(list: &mut [libc::pollfd], limit: Option<Duration>) -> io::Result<()> {
    let milliseconds = limit.map_or(-1, |limit| {
        let whole = limit.as_nanos().div_ceil(1_000_000);
        libc::c_int::try_from(whole).unwrap_or(libc::c_int::MAX)
    });
    let count = libc::nfds_t::try_from(list.len()).unwrap_or(libc::nfds_t::MAX);
    // SAFETY: the pointer and the number are those of one live slice, which `poll` changes within.
    let answer = unsafe { libc::poll(list.as_mut_ptr(), count, milliseconds) };
    if answer >= 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    let interrupted = error.kind() == ErrorKind::Interrupted;
    for entry in list {
        entry.revents = if interrupted { 0 } else { entry.events };
    }
    if interrupted { Ok(()) } else { Err(error) }
}
