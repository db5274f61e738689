//! How much of a worker's stack is left for jobs run in place.

/// What must be left of a stack for one more job in place: a quarter of it, but at least what the
/// pool's own frames and a modest body take, and no more than any but an odd body could want.
const MIN_STACK_RESERVE: usize = 32 << 10;
const MAX_STACK_RESERVE: usize = 256 << 10;

/// How much of this thread's stack is left, from its size and where it began. Rough, which is what
/// the reserve is for: the system's own use of the top and rounding are a few pages.
pub(super) struct Stack {
    top: usize,
    size: usize,
}

impl Stack {
    pub(super) fn here(size: usize) -> Self {
        Self { top: address_here(), size }
    }

    pub(super) fn remaining(&self) -> usize {
        self.size.saturating_sub(self.top.abs_diff(address_here()))
    }

    pub(super) fn reserve(&self) -> usize {
        (self.size / 4).clamp(MIN_STACK_RESERVE, MAX_STACK_RESERVE)
    }
}

/// Roughly where the stack pointer is.
#[inline(never)]
fn address_here() -> usize {
    let here = 0_u8;
    std::hint::black_box(&raw const here).addr()
}
