//! Memory for jobs: blocks of a few sizes, recycled.
//!
//! A block freed by another thread than the one that allocated it costs a general allocator about
//! 200 ns, and that is what a pool does all day: the submitter allocates, the worker frees. So a
//! thread keeps two small magazines of free blocks per size, and passes whole magazines through a
//! depot under a lock: one lock in [`BATCH`] jobs. (Bonwick's magazines; the two per thread keep a
//! thread that frees and allocates around a boundary from going to the depot each time.)
//!
//! The depot never holds more blocks of a size than the pools that exist have slots, and a thread
//! never more than two magazines; what is above that goes back to the allocator. Jobs larger than the
//! largest size are allocated and freed exactly.

use std::alloc::Layout;
use std::ptr::NonNull;

/// A pool's share of the depot: while it lives, the depot may keep `capacity` blocks more.
pub(crate) struct Reservation {
    blocks: usize,
}

impl Reservation {
    pub(crate) fn new(capacity: usize) -> Self {
        recycled::raise_limit(capacity);
        Self { blocks: capacity }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        recycled::lower_limit(self.blocks);
    }
}

/// Allocates a block for `layout`; never fails (aborts when memory is out, as `Box` does).
#[inline(always)]
pub(super) fn allocate(layout: Layout) -> NonNull<u8> {
    recycled::allocate(layout)
}

/// Frees a block.
///
/// # Safety
/// `block` came from [`allocate`] with the same layout and is not used any more.
#[inline(always)]
pub(super) unsafe fn free(block: NonNull<u8>, layout: Layout) {
    // SAFETY: the caller's promise.
    unsafe { recycled::free(block, layout) }
}

fn allocate_exactly(layout: Layout) -> NonNull<u8> {
    debug_assert!(layout.size() > 0, "a job has a header");
    // SAFETY: a job's layout has a size, since it has a header.
    let block = unsafe { std::alloc::alloc(layout) };
    NonNull::new(block).unwrap_or_else(|| std::alloc::handle_alloc_error(layout))
}

/// # Safety
/// `block` came from [`allocate_exactly`] with the same layout and is not used any more.
unsafe fn free_exactly(block: NonNull<u8>, layout: Layout) {
    // SAFETY: the caller's promise.
    unsafe { std::alloc::dealloc(block.as_ptr(), layout) }
}

/// Without recycling: loom and the address sanitizer see each block's own birth and death.
#[cfg(any(weirpool_no_recycle, all(loom, feature = "loom")))]
mod recycled {
    pub(super) use super::{allocate_exactly as allocate, free_exactly as free};

    pub(super) fn raise_limit(_: usize) {}
    pub(super) fn lower_limit(_: usize) {}
}

#[cfg(not(any(weirpool_no_recycle, all(loom, feature = "loom"))))]
mod recycled {
    use std::alloc::Layout;
    use std::cell::RefCell;
    use std::ptr::{NonNull, null_mut};

    use super::{allocate_exactly, free_exactly};
    use crate::sync::stat::{AtomicUsize, Relaxed};
    use crate::sync::{Mutex, prefetch_to_write};

    /// Blocks that change hands at once.
    const BATCH: usize = 32;
    /// The sizes: a header of 64 bytes and a body (or result) of 64, 192 or 448.
    const SIZES: [usize; 3] = [128, 256, 512];
    const LINE: usize = 64;
    /// Two jobs never share a cache line, nor a pair of them: processors fetch the other one of a pair
    /// along with the first.
    const ALIGN: usize = 2 * LINE;

    #[inline(always)]
    fn size_class(layout: Layout) -> Option<usize> {
        if layout.align() > ALIGN {
            return None;
        }
        SIZES.iter().position(|&size| layout.size() <= size)
    }

    const fn block_layout(class: usize) -> Layout {
        match Layout::from_size_align(SIZES[class], ALIGN) {
            Ok(layout) => layout,
            Err(_) => panic!("the sizes are multiples of the alignment"),
        }
    }

    // Always: the layout is known at compile time, and most of this goes away with it.
    #[inline(always)]
    pub(super) fn allocate(layout: Layout) -> NonNull<u8> {
        let Some(class) = size_class(layout) else {
            return allocate_exactly(layout);
        };
        with_magazines(class, Magazines::take)
            .flatten()
            .unwrap_or_else(|| allocate_exactly(block_layout(class)))
    }

    /// # Safety
    /// See [`super::free`].
    #[inline(always)]
    pub(super) unsafe fn free(block: NonNull<u8>, layout: Layout) {
        let Some(class) = size_class(layout) else {
            // SAFETY: a layout without class was allocated exactly.
            return unsafe { free_exactly(block, layout) };
        };
        if with_magazines(class, |magazines| magazines.put(block)).is_none() {
            // SAFETY: a layout with a class was allocated as a block of that class.
            unsafe { free_exactly(block, block_layout(class)) };
        }
    }

    /// What a free block holds: the way to the next.
    struct Link {
        next: *mut Link,
        /// Only in the first block of a batch in the depot.
        next_batch: *mut Link,
    }

    /// Free blocks of one size, each pointing to the next.
    struct Chain {
        first: *mut Link,
        len: usize,
    }

    impl Chain {
        const EMPTY: Self = Self { first: null_mut(), len: 0 };

        fn push(&mut self, block: NonNull<u8>) {
            let link = block.cast::<Link>();
            // SAFETY: a free block is ours, larger than a link and aligned to 64.
            unsafe { link.write(Link { next: self.first, next_batch: null_mut() }) };
            self.first = link.as_ptr();
            self.len += 1;
        }

        /// Asks for the two lines of the block that is taken next, which another core wrote: whoever takes
        /// it reads the link in it, and writes a header, which fills the first line, and a body behind that.
        #[inline]
        fn prefetch(&self) {
            if !self.first.is_null() {
                prefetch_to_write(self.first);
                prefetch_to_write(self.first.wrapping_byte_add(LINE));
            }
        }

        fn pop(&mut self) -> Option<NonNull<u8>> {
            let link = NonNull::new(self.first)?;
            // SAFETY: what a chain points to is a free block with a link in it, see `push`.
            self.first = unsafe { link.as_ref().next };
            self.len -= 1;
            Some(link.cast())
        }

        fn free_all(&mut self, class: usize) {
            while let Some(block) = self.pop() {
                // SAFETY: the block came from `allocate` with this class and is in no chain now.
                unsafe { free_exactly(block, block_layout(class)) };
            }
        }
    }

    /// One thread's free blocks of one size: `loaded` is used, `spare` is empty or full.
    struct Magazines {
        class: usize,
        loaded: Chain,
        spare: Chain,
    }

    impl Magazines {
        const fn new(class: usize) -> Self {
            Self { class, loaded: Chain::EMPTY, spare: Chain::EMPTY }
        }

        #[inline]
        fn take(&mut self) -> Option<NonNull<u8>> {
            if self.loaded.len == 0 {
                std::mem::swap(&mut self.loaded, &mut self.spare);
                if self.loaded.len == 0 {
                    self.loaded = DEPOT[self.class].take()?;
                }
            }
            let block = self.loaded.pop();
            self.loaded.prefetch();
            block
        }

        #[inline]
        fn put(&mut self, block: NonNull<u8>) {
            if self.loaded.len == BATCH {
                std::mem::swap(&mut self.loaded, &mut self.spare);
                if self.loaded.len == BATCH {
                    DEPOT[self.class]
                        .put(std::mem::replace(&mut self.loaded, Chain::EMPTY), self.class);
                }
            }
            self.loaded.push(block);
        }
    }

    impl Drop for Magazines {
        fn drop(&mut self) {
            for chain in [&mut self.loaded, &mut self.spare] {
                if chain.len == BATCH {
                    DEPOT[self.class].put(std::mem::replace(chain, Chain::EMPTY), self.class);
                } else {
                    chain.free_all(self.class);
                }
            }
        }
    }

    std::thread_local! {
        static MAGAZINES: RefCell<[Magazines; 3]> =
            const { RefCell::new([Magazines::new(0), Magazines::new(1), Magazines::new(2)]) };
    }

    /// None while the thread is torn down, or inside an allocator that itself submits jobs.
    #[inline]
    fn with_magazines<R>(class: usize, f: impl FnOnce(&mut Magazines) -> R) -> Option<R> {
        MAGAZINES
            .try_with(|magazines| magazines.try_borrow_mut().ok().map(|mut all| f(&mut all[class])))
            .ok()
            .flatten()
    }

    /// Full magazines of one size, for any thread to take.
    struct Depot(Mutex<Batches>);

    struct Batches {
        first: *mut Link,
        len: usize,
    }

    // SAFETY: the pointers lead to free blocks, which belong to whoever holds the lock.
    unsafe impl Send for Batches {}

    static DEPOT: [Depot; 3] = [const { Depot::new() }; 3];

    /// How many blocks of each size the depot may keep: the slots of all pools.
    static LIMIT: AtomicUsize = AtomicUsize::new(0);

    impl Depot {
        const fn new() -> Self {
            Self(Mutex::new(Batches { first: null_mut(), len: 0 }))
        }

        /// Tries only: a lock held at the time of a fork stays held in the child, and the
        /// allocator is always there.
        #[cold]
        fn take(&self) -> Option<Chain> {
            let mut batches = self.0.try_lock()?;
            let first = NonNull::new(batches.first)?;
            // SAFETY: what the depot points to is the first free block of a batch, ours to read.
            batches.first = unsafe { first.as_ref().next_batch };
            batches.len -= 1;
            Some(Chain { first: first.as_ptr(), len: BATCH })
        }

        #[cold]
        fn put(&self, mut chain: Chain, class: usize) {
            debug_assert_eq!(chain.len, BATCH);
            if let Some(mut batches) = self.0.try_lock() {
                if (batches.len + 1) * BATCH <= LIMIT.load(Relaxed) {
                    // SAFETY: the chain is full, so its first block exists and is ours to write.
                    unsafe { (*chain.first).next_batch = batches.first };
                    batches.first = chain.first;
                    batches.len += 1;
                    return;
                }
            }
            chain.free_all(class);
        }

        /// Frees what is above the limit, as far as nobody else is at it: what stays is freed when
        /// the next pool goes.
        fn trim(&self, class: usize) {
            while self.0.try_lock().is_some_and(|kept| kept.len * BATCH > LIMIT.load(Relaxed)) {
                let Some(mut chain) = self.take() else { return };
                chain.free_all(class);
            }
        }
    }

    pub(super) fn raise_limit(blocks: usize) {
        LIMIT.fetch_add(blocks, Relaxed);
    }

    pub(super) fn lower_limit(blocks: usize) {
        LIMIT.fetch_sub(blocks, Relaxed);
        for (class, depot) in DEPOT.iter().enumerate() {
            depot.trim(class);
        }
    }
}
