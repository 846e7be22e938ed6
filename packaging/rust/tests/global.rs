//! What Rust allocates is the library's: hz_free ends the process for a block of another allocator.

use std::alloc::{alloc, alloc_zeroed, dealloc, realloc, Layout};
use std::os::unix::io::AsFd;
use std::sync::mpsc;
use std::thread;

use hakozuna::{ffi, Hakozuna, Stats};

#[global_allocator]
static GLOBAL: Hakozuna = Hakozuna;

#[test]
fn a_vec_is_ours() {
    let mut numbers: Vec<u64> = (0..1000).collect();
    numbers.push(7);
    assert!(hakozuna::usable_size(numbers.as_ptr().cast()) >= numbers.capacity() * 8);
    let block = numbers.as_mut_ptr();
    std::mem::forget(numbers);
    // SAFETY: the block is live, and nothing else frees it.
    unsafe { ffi::hz_free(block.cast()) };
}

#[test]
fn a_block_of_another_allocator_is_refused() {
    if std::env::var_os("HAKOZUNA_TEST_MISUSE").is_some() {
        let elsewhere = Box::leak(Box::new([0u8; 4096]));
        // SAFETY: not safe; the library notices that no block begins there, and ends the process.
        unsafe { ffi::hz_free(elsewhere.as_mut_ptr().add(24).cast()) };
        return;
    }
    let this = std::env::current_exe().expect("a path");
    let arguments = ["--exact", "a_block_of_another_allocator_is_refused", "--nocapture"];
    let run = std::process::Command::new(this).args(arguments).env("HAKOZUNA_TEST_MISUSE", "1").output().expect("a process");
    assert!(!run.status.success());
    assert!(String::from_utf8_lossy(&run.stderr).contains("hakozuna: "), "{run:?}");
}

#[test]
fn every_alignment_holds_in_alloc_zeroed_and_realloc() {
    for shift in 0..=16 {
        let align = 1 << shift;
        for size in [1, 24, 1000, 70_000, 3 << 20] {
            let layout = Layout::from_size_align(size, align).expect("a layout");
            // SAFETY: sizes are not 0, and each block is freed once with the layout that it has then.
            unsafe {
                let dirty = alloc(layout);
                assert_eq!(dirty as usize % align, 0);
                dirty.write_bytes(0xa5, size);
                dealloc(dirty, layout);

                let block = alloc_zeroed(layout);
                assert_eq!(block as usize % align, 0);
                assert!((0..size).all(|at| *block.add(at) == 0));

                for (at, byte) in [(0, 1u8), (size - 1, 2)] {
                    block.add(at).write(byte);
                }
                let last = if size == 1 { 2 } else { 1 };
                let larger = realloc(block, layout, size * 3);
                assert_eq!(larger as usize % align, 0);
                assert_eq!((*larger, *larger.add(size - 1)), (last, 2));
                let layout = Layout::from_size_align(size * 3, align).expect("a layout");
                let smaller = realloc(larger, layout, 1);
                assert_eq!(smaller as usize % align, 0);
                assert_eq!(*smaller, last);
                dealloc(smaller, Layout::from_size_align(1, align).expect("a layout"));
            }
        }
    }
}

#[test]
fn blocks_pass_between_threads() {
    let (sender, receiver) = mpsc::channel::<Vec<usize>>();
    let reader = thread::spawn(move || receiver.iter().map(|numbers| numbers.iter().sum::<usize>()).sum::<usize>());
    for length in 0..2000 {
        sender.send(vec![1; length]).expect("the reader lives");
    }
    drop(sender);
    assert_eq!(reader.join().expect("no panic"), (0..2000).sum());
}

#[test]
fn the_library_says_what_it_is() {
    assert_eq!(hakozuna::version(), env!("CARGO_PKG_VERSION"));
    let lane = match () {
        () if cfg!(feature = "hz3-fast") => "engine=hz3 lane=fast ",
        () if cfg!(feature = "hz3-p32") => "engine=hz3 lane=p32 ",
        () if cfg!(feature = "hz3-percpu") => "engine=hz3 lane=percpu ",
        () if cfg!(feature = "hz3-home") => "engine=hz3 lane=home ",
        () if cfg!(feature = "hz4") => "engine=hz4 lane=default ",
        () if cfg!(feature = "hz4-home") => "engine=hz4 lane=home ",
        () => "engine=hz3 lane=scale ",
    };
    println!("{}", hakozuna::config_string());
    assert!(hakozuna::config_string().starts_with(lane));
    assert!(hakozuna::limit(2, 1).is_err());
    let _ = hakozuna::purge();
    let file = tempfile();
    hakozuna::print_stats(file.as_fd(), Stats::Json).expect("a report");
    assert!(file.metadata().expect("its size").len() > 100);
}

/// A file without a name.
fn tempfile() -> std::fs::File {
    let path = std::env::temp_dir().join(format!("hakozuna-{}", std::process::id()));
    let file = std::fs::File::create(&path).expect("a file");
    std::fs::remove_file(path).expect("its name goes");
    file
}

#[cfg(feature = "override")]
#[test]
fn the_c_library_is_ours_too() {
    extern "C" {
        fn strdup(text: *const std::os::raw::c_char) -> *mut std::os::raw::c_char;
        fn free(block: *mut std::os::raw::c_void);
    }
    // SAFETY: both blocks are live, and freed once.
    unsafe {
        ffi::hz_free(strdup(b"text\0".as_ptr().cast()).cast());
        free(ffi::hz_malloc(10));
    }
}

#[test]
fn the_background_thread_can_be_stopped_and_allowed() {
    for on in [false, false, true, true] {
        hakozuna::background(on).expect("the process may have one");
        thread::spawn(|| vec![1u8; 100_000]).join().expect("it ends well");
    }
}

#[test]
fn after_confine_there_is_no_background_thread() {
    if std::env::var_os("HAKOZUNA_TEST_CONFINE").is_some() {
        hakozuna::confine();
        thread::spawn(|| vec![1u8; 100_000]).join().expect("it ends well");
        let refused = hakozuna::background(true).expect_err("a sandbox is for good");
        assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
        return;
    }
    let this = std::env::current_exe().expect("a path");
    let arguments = ["--exact", "after_confine_there_is_no_background_thread"];
    let run = std::process::Command::new(this).args(arguments).env("HAKOZUNA_TEST_CONFINE", "1").output().expect("a process");
    assert!(run.status.success(), "{run:?}");
}
