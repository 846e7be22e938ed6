//! The hakozuna memory allocator as a global allocator.
//!
//! ```
//! #[global_allocator]
//! static GLOBAL: hakozuna::Hakozuna = hakozuna::Hakozuna;
//!
//! let numbers = vec![1, 2, 3];
//! assert!(hakozuna::usable_size(numbers.as_ptr().cast()) >= 12);
//! ```
//!
//! Any thread may call any function, and any thread may free any block. All sizes are in bytes.

#![deny(missing_docs)]

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::CStr;
use std::io;
use std::os::raw::{c_char, c_int};
use std::os::unix::io::{AsRawFd, BorrowedFd};

/// The functions of `hakozuna.h` by which Rust allocates. The header has their contracts.
pub mod ffi {
    use std::os::raw::c_void;

    #[allow(missing_docs)]
    extern "C" {
        pub fn hz_malloc(size: usize) -> *mut c_void;
        pub fn hz_calloc(count: usize, size: usize) -> *mut c_void;
        pub fn hz_realloc(block: *mut c_void, size: usize) -> *mut c_void;
        pub fn hz_aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
        pub fn hz_aligned_realloc(block: *mut c_void, alignment: usize, size: usize) -> *mut c_void;
        pub fn hz_free(block: *mut c_void);
        pub fn hz_usable_size(block: *const c_void) -> usize;
    }
}

extern "C" {
    fn hz_purge() -> usize;
    fn hz_version() -> *const c_char;
    fn hz_config_string() -> *const c_char;
    fn hz_stats_print(fd: c_int, format: c_int) -> c_int;
    fn hz_background_set(on: c_int) -> c_int;
    fn hz_confine();
    fn hz_limit_set(soft_bytes: usize, hard_bytes: usize) -> c_int;
}

/// The alignment of every block.
const ALIGNMENT: usize = 16;

/// The allocator, for `#[global_allocator]`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hakozuna;

// SAFETY: blocks have the size and alignment that the layout asks for (hakozuna.h), no function unwinds, and a block is
// valid until it is freed. GlobalAlloc forbids layouts of size 0, of which realloc would make a free.
unsafe impl GlobalAlloc for Hakozuna {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNMENT {
            ffi::hz_malloc(layout.size()).cast()
        } else {
            ffi::hz_aligned_alloc(layout.align(), layout.size()).cast()
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNMENT {
            return ffi::hz_calloc(1, layout.size()).cast(); // which knows when memory is zero already
        }
        let block = self.alloc(layout);
        if !block.is_null() {
            block.write_bytes(0, layout.size());
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        ffi::hz_free(block.cast());
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= ALIGNMENT {
            ffi::hz_realloc(block.cast(), size).cast()
        } else {
            ffi::hz_aligned_realloc(block.cast(), layout.align(), size).cast()
        }
    }
}

/// How many bytes may be used at `block`: at least what was asked for. `block` must be a live block of this allocator,
/// or null, which has 0. For a pointer that is neither, the library may end the process with a message.
pub fn usable_size(block: *const u8) -> usize {
    // SAFETY: the library checks the address before it reads anything.
    unsafe { ffi::hz_usable_size(block.cast()) }
}

/// Gives as much memory back to the system as possible, and returns how many bytes that was. Takes milliseconds.
pub fn purge() -> usize {
    // SAFETY: any thread may call it at any time.
    unsafe { hz_purge() }
}

/// Limits what the heap may hold; 0 is no limit. Above `soft_bytes` it keeps nothing for reuse; an allocation that
/// would exceed `hard_bytes` fails.
///
/// # Errors
/// `InvalidInput` if the soft limit is above the hard one.
pub fn limit(soft_bytes: usize, hard_bytes: usize) -> io::Result<()> {
    // SAFETY: any thread may call it at any time.
    match unsafe { hz_limit_set(soft_bytes, hard_bytes) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `false`: ends the background thread and waits; none starts until `true`. For calls that need one thread, such as
/// `unshare`: repeat one that fails with EINVAL, since the kernel counts an ended thread for some milliseconds more. Not
/// from a signal handler.
///
/// # Errors
/// `PermissionDenied` if the process can have no such thread: after `HAKOZUNA_BACKGROUND=0` or [`confine`], and when its
/// first thread has ended.
pub fn background(on: bool) -> io::Result<()> {
    // SAFETY: any thread may call it at any time.
    match unsafe { hz_background_set(c_int::from(on)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Before the program restricts its system calls (seccomp): ends the library's threads, and from then on the library
/// makes only system calls that every allocator needs. Cannot be undone. With the feature `override`, not needed if the
/// program calls `prctl`. Not from a signal handler.
pub fn confine() {
    // SAFETY: any thread may call it at any time.
    unsafe { hz_confine() }
}

/// The form of a report of [`print_stats`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stats {
    /// For people: where the memory is.
    Text = 0,
    /// One line for programs.
    Json = 1,
    /// For people, with all classes, threads and counters.
    Verbose = 2,
}

/// Writes a report of the heap. Allocates nothing.
///
/// # Errors
/// Those of `write`.
pub fn print_stats(to: BorrowedFd<'_>, form: Stats) -> io::Result<()> {
    // SAFETY: any thread may call it at any time, and the descriptor is open while it is borrowed.
    match unsafe { hz_stats_print(to.as_raw_fd(), form as c_int) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn constant(text: *const c_char) -> &'static str {
    // SAFETY: the library returns constant strings of ASCII characters, never NULL.
    unsafe { CStr::from_ptr(text) }.to_str().expect("ASCII")
}

/// The version of the C library, which is that of the crate.
pub fn version() -> &'static str {
    // SAFETY: has no precondition.
    constant(unsafe { hz_version() })
}

/// Engine, lane, version and all values with which the library was built: words `key=value` in one line.
pub fn config_string() -> &'static str {
    // SAFETY: has no precondition.
    constant(unsafe { hz_config_string() })
}
