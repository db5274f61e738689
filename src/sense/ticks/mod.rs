//! The system's monotonic clock, read from the processor's time-stamp counter where that is safe.
//!
//! Each job costs two readings, and a call of `clock_gettime` takes two to three times as long as
//! reading the counter below it. So a thread asks the kernel now and then, keeps the answer beside
//! what the counter said ([`Pair`](rate::Pair)), and adds the counter's ticks since. Three things
//! keep a strange machine from making the time wrong:
//!
//! - **The kernel must trust the counter**: it counts through every sleep and change of frequency
//!   (CPUID), and it is the clock source that the kernel itself uses. Otherwise [`now_ns`] is the
//!   kernel's clock and nothing else, as it is on any other system, under Miri and under loom,
//!   where this module doesn't exist.
//! - **No answer is stretched further than [`SPAN_TICKS`](rate::SPAN_TICKS)**, a fifth of a
//!   millisecond or so. After that, and whenever the counter jumped or did not advance, the kernel
//!   is asked again. An hour without a reading, a suspended or migrated machine, a counter that
//!   stands still: nothing can be off by more than that span, nor for longer.
//! - **The rate is measured again every [`STRETCH_NS`](measure::STRETCH_NS)**, from the kernel's
//!   own answers, and only one that was confirmed within the last second is used. When two
//!   measures disagree, the counter is left alone for a while, four times as long each time, and then must be the
//!   kernel's own again.
//!
//! # How exact it is
//!
//! A thread's time never goes backwards. It is ahead of the kernel's by what asking took: some tens
//! of nanoseconds, and [`WIDEST_TICKS`](rate::WIDEST_TICKS) at most. It is behind by as much as the
//! kernel changed the rate since the last measure: up to 0.1 % of a span. So two threads agree
//! within a microsecond if the counter has 2 GHz or more (0.6 µs with 2.6 GHz). If the kernel's clock
//! begins to be slewed harder than that, as some daemons do to mend a large error (8 %), threads may be
//! 20 µs apart until the next measure notices. The counter is read without a fence, so a reading may
//! be as early as the processor reorders instructions. Whoever subtracts the readings of two
//! threads saturates.

mod counter;
mod measure;
mod rate;
#[cfg(test)]
mod tests;

pub(crate) use counter::now_ns;
