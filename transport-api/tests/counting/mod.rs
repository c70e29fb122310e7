//! An allocator that counts what the current thread asks for.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counted.
pub(crate) struct Counting;

thread_local! {
    // Constant and without a destructor: reading it never allocates.
    static ASKED: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

fn count(bytes: usize) {
    let (calls, sum) = ASKED.get();
    ASKED.set((calls + 1, sum + bytes as u64));
}

// SAFETY: every call is passed on to the system's allocator as it is; the count beside it touches
// nothing but a thread-local cell.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: the caller's promise about `block`, `layout` and `size` is passed on.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise about `block` and `layout` is passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Number of allocations and their bytes while `work` runs on this thread.
pub(crate) fn allocations(work: impl FnOnce()) -> (u64, u64) {
    let before = ASKED.get();
    work();
    let after = ASKED.get();
    (after.0 - before.0, after.1 - before.1)
}
