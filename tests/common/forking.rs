//! Children that a test forks, and what each of them does, step by step.
#![cfg(unix)]

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Seconds after which a child that hangs is ended by its alarm.
const ALARM_S: u32 = 120;

/// What a child does, step by step; each step says whether it was right.
pub(crate) type Steps<'a> = Vec<(&'static str, Box<dyn FnOnce() -> bool + 'a>)>;

pub(crate) fn step<'a>(
    name: &'static str,
    run: impl FnOnce() -> bool + 'a,
) -> (&'static str, Box<dyn FnOnce() -> bool + 'a>) {
    (name, Box::new(run))
}

/// Forks, takes the `steps` in the child, and fails here with the name of the one that was wrong,
/// panicked or hung. The child tells each step's number through a pipe before it takes it.
#[track_caller]
pub(crate) fn in_a_child(steps: Steps<'_>) {
    let names: Vec<_> = steps.iter().map(|step| step.0).collect();
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for the two descriptors.
    let answer = unsafe { libc::pipe(ends.as_mut_ptr()) };
    assert_eq!(answer, 0);
    // SAFETY: the child goes on with this thread alone, and leaves through `_exit` in `walk`.
    let child = match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", io::Error::last_os_error()),
        0 => walk(steps, ends[1]),
        child => child,
    };
    let mut status = 0;
    // SAFETY: `status` is a valid place, and `child` is ours to wait for.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } == -1 {
        assert_eq!(io::Error::last_os_error().kind(), io::ErrorKind::Interrupted);
    }
    let reached = last_byte(ends);
    let step = reached.map_or("none", |reached| names[usize::from(reached)]);
    assert!(!libc::WIFSIGNALED(status), "signal {} at: {step}", libc::WTERMSIG(status));
    assert_eq!(libc::WEXITSTATUS(status), 0, "wrong in the child: {step}");
}

/// The child's part.
fn walk(steps: Steps<'_>, progress: libc::c_int) -> ! {
    // SAFETY: the default action of the alarm ends the process, which is what we want.
    unsafe { libc::alarm(ALARM_S) };
    let right = catch_unwind(AssertUnwindSafe(|| {
        steps.into_iter().enumerate().all(|(number, (_, run))| {
            let number = number as u8;
            // SAFETY: one byte from a live variable, to a pipe that is open.
            unsafe { libc::write(progress, (&raw const number).cast(), 1) };
            run()
        })
    }));
    let code = match right {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(_) => 2,
    };
    // SAFETY: ends the child without destructors or exit handlers, as a forked child should.
    unsafe { libc::_exit(code) }
}

/// The last byte in the pipe, of which both ends are closed then.
fn last_byte([read, write]: [libc::c_int; 2]) -> Option<u8> {
    let mut bytes = [0_u8; 256];
    // SAFETY: both descriptors are ours, and `bytes` has room for as many as we ask for. A byte of
    // our own in front makes sure that the read has something to return.
    unsafe {
        let end = u8::MAX;
        libc::write(write, (&raw const end).cast(), 1);
        let length = libc::read(read, bytes.as_mut_ptr().cast(), bytes.len());
        libc::close(read);
        libc::close(write);
        let length = usize::try_from(length).expect("there is at least our own byte");
        bytes[..length].iter().rev().find(|&&byte| byte != end).copied()
    }
}
