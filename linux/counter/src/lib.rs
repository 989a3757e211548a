//! A plugin for QEMU: counts the executed instructions of a virtual machine, by address, between
//! two marks.
//!
//! # Theory of operation
//!
//! Every translated instruction gets a counter, which the translated code increments. Two
//! instructions without effect are *marks* (`nopl` with a number that no other code uses). Only
//! instructions executed between the first mark and the second are counted; a program may execute
//! this pair repeatedly. At the end the counts are written to
//! a file: a line `ADDRESS COUNT`, in hexadecimal and decimal, for each address with a count. The
//! reader of the file looks up the functions at the addresses.
//!
//! QEMU must run all CPUs on one thread (`-accel tcg,thread=single`, or `-icount`), because the counters are plain
//! words. The declarations below are the part of QEMU's `qemu-plugin.h`, version 1, that the plugin needs. QEMU is
//! under the GPL, which applies to distributions of a plugin that is loaded into it.
//!
//! Usage: `-plugin file=THIS.so,out=FILE`.

#![allow(unsafe_code, unreachable_pub, non_upper_case_globals)]

use std::{
    collections::BTreeMap,
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    fs::File,
    io::{BufWriter, Write},
    ptr::null_mut,
    slice::from_raw_parts,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// `nopl 0x4657_4b31(%rax)`: begins the counted code.
const BEGIN: [u8; 7] = mark(1);
/// `nopl 0x4657_4b32(%rax)`: ends the counted code.
const END: [u8; 7] = mark(2);

const fn mark(number: u8) -> [u8; 7] {
    [0x0f, 0x1f, 0x80, 0x30 + number, 0x4b, 0x57, 0x46]
}

/// A type of QEMU without known fields.
#[repr(C)]
pub struct Opaque([u8; 0]);

type Id = u64;

unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, f: extern "C" fn(Id, *mut Opaque));
    fn qemu_plugin_tb_n_insns(block: *const Opaque) -> usize;
    fn qemu_plugin_tb_get_insn(block: *const Opaque, at: usize) -> *mut Opaque;
    fn qemu_plugin_insn_vaddr(instruction: *const Opaque) -> u64;
    fn qemu_plugin_insn_data(instruction: *const Opaque) -> *const c_void;
    fn qemu_plugin_insn_size(instruction: *const Opaque) -> usize;
    fn qemu_plugin_register_atexit_cb(id: Id, f: extern "C" fn(Id, *mut c_void), data: *mut c_void);
    /// `operation` 0 adds `amount` to the word.
    fn qemu_plugin_register_vcpu_insn_exec_inline(
        instruction: *mut Opaque,
        operation: c_int,
        word: *mut c_void,
        amount: u64,
    );
    /// `flags` 0: the callback reads no registers.
    fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut Opaque,
        f: extern "C" fn(c_uint, *mut c_void),
        flags: c_int,
        data: *mut c_void,
    );
}

/// The version of the plugin interface.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = 1;

/// The counts of an address.
struct Counter {
    /// Executions since the last mark; translated code increments it.
    running: *mut u64,
    /// Executions between marks.
    total: u64,
}

/// A counter for each address that was translated.
struct Counters {
    by_address: BTreeMap<u64, Counter>,
    out: String,
}

// SAFETY: the counters are never freed. They are read and written by QEMU's only CPU thread, and in
// callbacks on that thread.
unsafe impl Send for Counters {}

static COUNTERS: Mutex<Counters> =
    Mutex::new(Counters { by_address: BTreeMap::new(), out: String::new() });

fn counters() -> MutexGuard<'static, Counters> {
    COUNTERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The entry of the plugin.
///
/// # Safety
///
/// QEMU calls this, with `count` arguments `KEY=VALUE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    _info: *const Opaque,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    for at in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: QEMU passes `count` strings, each ended by a 0.
        let argument = unsafe { CStr::from_ptr(*arguments.add(at)) }.to_string_lossy();
        if let Some(path) = argument.strip_prefix("out=") {
            path.clone_into(&mut counters().out);
        }
    }
    if counters().out.is_empty() {
        eprintln!("the instruction counter needs out=FILE");
        return -1;
    }
    // SAFETY: both callbacks have the signatures that QEMU declares.
    unsafe {
        qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
        qemu_plugin_register_atexit_cb(id, write, null_mut());
    }
    0
}

/// Called after the translation of a block: adds counters to its instructions.
extern "C" fn translated(_id: Id, block: *mut Opaque) {
    let mut counters = counters();
    // SAFETY: the block and its instructions are valid during this callback; counters are never
    // freed.
    unsafe {
        for at in 0..qemu_plugin_tb_n_insns(block) {
            let instruction = qemu_plugin_tb_get_insn(block, at);
            let address = qemu_plugin_insn_vaddr(instruction);
            let new = || Counter { running: Box::into_raw(Box::new(0)), total: 0 };
            let running = counters.by_address.entry(address).or_insert_with(new).running;
            qemu_plugin_register_vcpu_insn_exec_inline(instruction, 0, running.cast(), 1);
            let bytes = from_raw_parts(
                qemu_plugin_insn_data(instruction).cast::<u8>(),
                qemu_plugin_insn_size(instruction),
            );
            let of_mark = match bytes {
                bytes if bytes == BEGIN => begin,
                bytes if bytes == END => end,
                _ => continue,
            };
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, of_mark, 0, null_mut());
        }
    }
}

extern "C" fn begin(_cpu: c_uint, _data: *mut c_void) {
    for counter in counters().by_address.values() {
        // SAFETY: never freed, and no translated code runs meanwhile.
        unsafe { counter.running.write(0) };
    }
}

extern "C" fn end(_cpu: c_uint, _data: *mut c_void) {
    for counter in counters().by_address.values_mut() {
        // SAFETY: as in `begin`.
        counter.total += unsafe { counter.running.replace(0) };
    }
}

extern "C" fn write(_id: Id, _data: *mut c_void) {
    let counters = counters();
    if let Err(error) = counters.write() {
        eprintln!("the instruction counter cannot write '{}': {error}", counters.out);
    }
}

impl Counters {
    fn write(&self) -> std::io::Result<()> {
        let mut out = BufWriter::new(File::create(&self.out)?);
        let counted = self.by_address.iter().filter(|(_, counter)| counter.total > 0);
        for (address, counter) in counted {
            writeln!(out, "{address:x} {}", counter.total)?;
        }
        out.flush()
    }
}
