//! The panic handler of the static library without the standard library.

use core::{
    ffi::{CStr, c_char},
    panic::PanicInfo,
};

unsafe extern "C" {
    /// Defined by the embedder: stops the machine. `file` is the source file of the library, and not NULL.
    safe fn fw_panic(file: *const c_char, line: u32) -> !;
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let place = info.location();
    let file = place.map_or(c"unknown", |place| place.file_as_c_str());
    fw_panic(CStr::as_ptr(file), place.map_or(0, |place| place.line()))
}

/// Referenced by the unwind tables of a `core` that was built to unwind, but never called: a panic ends the machine.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
