//! What every fuzz target shares: an allocator that does not believe length fields.
//!
//! A target is fed at most 64 KiB, so nothing it decodes may ask for more than [`LIMIT`] at once.

use std::alloc::{GlobalAlloc, Layout, System};

/// Largest single allocation, in bytes: buffers of fixed size, of which those of LZ4 are the largest (two blocks of
/// 4 MiB and a window), and a few times the input.
pub const LIMIT: usize = 16 << 20;

/// The system's allocator, which ends the program when more than [`LIMIT`] is asked for.
#[derive(Debug)]
pub struct Bounded;

fn check(size: usize) {
    if size > LIMIT {
        eprintln!("an allocation of {size} B, more than {LIMIT} B");
        std::process::abort();
    }
}

// SAFETY: every call is passed on as it came.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        check(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        check(size);
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Bounded = Bounded;
