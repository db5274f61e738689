//! The counter itself, and what threads share and keep of it.

use std::cell::Cell;
use std::path::Path;

use super::measure::{LONGEST_NS, Measure};
use super::rate::{FIRST_NS, Pair, Rate};
use crate::sense::text::Text;
use crate::sync::stat::{AtomicU64, Mutex, Relaxed};
use crate::sync::system_ns;

/// The rate that all threads use; 0 while the kernel is to be asked each time.
static RATE: AtomicU64 = AtomicU64::new(0);

/// When the next pair is wanted, by the kernel's clock. Never, if the counter is not to be used.
static DUE_NS: AtomicU64 = AtomicU64::new(0);

/// Only ever tried: nobody waits for it, and a fork may leave it locked for ever.
static MEASURE: Mutex<Measure> = Mutex::new(Measure::new());

/// What a thread keeps.
struct Kept {
    /// The kernel's last answer.
    anchor: Cell<Pair>,
    /// What was read last.
    last_ns: Cell<u64>,
}

std::thread_local! {
    // Without a destructor, so it can be read until the thread is gone.
    static KEPT: Kept = const { Kept { anchor: Cell::new(Pair::NONE), last_ns: Cell::new(FIRST_NS) } };
}

/// The system's monotonic clock, in nanoseconds since some beginning; see the [module](super) for
/// how exact it is.
#[inline]
pub(crate) fn now_ns() -> u64 {
    KEPT.with(|kept| {
        let Some(rate) = Rate::from_word(RATE.load(Relaxed)) else {
            return kept.ask();
        };
        match kept.anchor.get().ns_at(ticks(), rate, kept.last_ns.get()) {
            Some(ns) => {
                kept.last_ns.set(ns);
                ns
            }
            None => kept.ask_and_keep(),
        }
    })
}

impl Kept {
    // Out of line, so that the rest is short enough to go where the time is read.
    #[inline(never)]
    fn ask(&self) -> u64 {
        let ns = system_ns();
        if ns >= DUE_NS.load(Relaxed) {
            measure(ask_between_ticks());
        }
        self.forward(ns)
    }

    #[cold]
    #[inline(never)]
    fn ask_and_keep(&self) -> u64 {
        let (ns, pair) = ask_between_ticks();
        self.anchor.set(pair.unwrap_or(Pair::NONE));
        if ns >= DUE_NS.load(Relaxed) {
            measure((ns, pair));
        }
        self.forward(ns)
    }

    /// Not behind what this thread has read before.
    fn forward(&self, ns: u64) -> u64 {
        let ns = ns.max(self.last_ns.get());
        self.last_ns.set(ns);
        ns
    }
}

/// Asks the kernel for the time, and reads the counter around it.
fn ask_between_ticks() -> (u64, Option<Pair>) {
    let before = ticks();
    let ns = system_ns();
    (ns, Pair::between(before, ns, ticks()))
}

/// Measures the rate, unless another thread is at it.
#[cold]
fn measure((ns, pair): (u64, Option<Pair>)) {
    let Some(mut measure) = MEASURE.try_lock() else {
        // Nobody has measured for so long: whoever has the lock stayed behind in a fork.
        if ns.saturating_sub(DUE_NS.load(Relaxed)) > LONGEST_NS {
            RATE.store(0, Relaxed);
        }
        return;
    };
    if ns < DUE_NS.load(Relaxed) {
        return;
    }
    // Also after a contradiction: the kernel may have found out the same.
    if measure.is_at_beginning() && !is_trusted(Path::new("/")) {
        DUE_NS.store(u64::MAX, Relaxed);
        return;
    }
    let verdict = measure.note(ns, pair);
    RATE.store(Rate::word(verdict.rate), Relaxed);
    DUE_NS.store(verdict.due_ns, Relaxed);
}

/// Whether the counter counts evenly, and the kernel of the file tree under `root` relies on it, on
/// all cores alike.
pub(super) fn is_trusted(root: &Path) -> bool {
    let source = root.join("sys/devices/system/clocksource/clocksource0/current_clocksource");
    counts_evenly() && Text::default().of(&source).is_ok_and(|name| name.trim() == "tsc")
}

/// Whatever the core's frequency is, and while it sleeps ("invariant TSC").
pub(super) fn counts_evenly() -> bool {
    const HIGHEST_LEAF: u32 = 0x8000_0000;
    const POWER_LEAF: u32 = 0x8000_0007;
    #[allow(unused_unsafe)] // Newer compilers know it to be safe.
    // SAFETY: every processor of this architecture has the instruction.
    let leaf = |number| unsafe { std::arch::x86_64::__cpuid(number) };
    leaf(HIGHEST_LEAF).eax >= POWER_LEAF && leaf(POWER_LEAF).edx & (1 << 8) != 0
}

/// The counter.
#[inline(always)]
fn ticks() -> u64 {
    #[allow(unused_unsafe)] // As above.
    // SAFETY: every processor of this architecture has the instruction, and it touches no memory. A
    // process that is forbidden to use it could not call `clock_gettime` either, which uses it.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
}
