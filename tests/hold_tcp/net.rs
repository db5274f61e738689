//! Clients and servers over the loopback, and what can be done to their sockets.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use crate::common::{STEP, eventually};

/// Connections over the loopback.
pub(crate) struct Loopback(TcpListener);

impl Loopback {
    pub(crate) fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    /// A client and the server's end. The client's reads and writes have a watchdog.
    pub(crate) fn connect(&self) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(self.0.local_addr().unwrap()).unwrap();
        client.set_read_timeout(Some(STEP)).unwrap();
        client.set_write_timeout(Some(STEP)).unwrap();
        (client, self.0.accept().unwrap().0)
    }

    /// The same with small system buffers, of which the system makes twice as much.
    pub(crate) fn connect_narrow(&self) -> (TcpStream, TcpStream) {
        let ends = self.connect();
        set_buffer(&ends.0, libc::SO_RCVBUF);
        set_buffer(&ends.1, libc::SO_SNDBUF);
        ends
    }
}

pub(crate) fn set_buffer(stream: &TcpStream, option: libc::c_int) {
    // Less makes the systems wait for each other by timers, segments being as large as that.
    let bytes: libc::c_int = 128 << 10;
    // SAFETY: an open socket, and an int that lives.
    let answer = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const bytes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    assert_eq!(answer, 0);
}

/// Returns when the peer's system has all that was written, and the end. A receiver's system may take
/// its time to say so.
pub(crate) fn wait_flushed(server: &TcpStream) {
    #[cfg(target_os = "linux")]
    eventually("all is acknowledged", || {
        let mut bytes: libc::c_int = 0;
        // SAFETY: an open socket, and a place for the answer.
        unsafe {
            libc::ioctl(server.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) == 0 && bytes == 0
        }
    });
    #[cfg(not(target_os = "linux"))]
    let _ = server;
}

/// All that comes until the end of the stream.
pub(crate) fn read_all(mut client: &TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Whether the server's end is gone: the next writes of the client break.
pub(crate) fn is_cut(mut client: &TcpStream) -> bool {
    client.write_all(b"x").is_err()
}

/// Closes so that the peer gets a reset.
pub(crate) fn reset(client: TcpStream) {
    reset_on_close(&client);
    drop(client);
}

pub(crate) fn reset_on_close(stream: &TcpStream) {
    let at_once = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: an open socket, and a value that lives.
    let answer = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const at_once).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        )
    };
    assert_eq!(answer, 0);
}
