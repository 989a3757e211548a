//! Calls the C functions from Rust, so that Miri can check them. The tests in tests/c.rs call all of
//! them from C.

use std::{
    alloc::{Layout, alloc, dealloc},
    cell::Cell,
    ffi::{CStr, c_void},
    ptr::{null, null_mut},
};

use framewright_c::*;

const FRAMES: u64 = 1024;
const MOVABLE: u32 = FwMigratetype::Movable as u32;

thread_local! {
    /// An interrupt handler that runs the next time interrupts are masked.
    static DUE: Cell<*mut FwMemory> = const { Cell::new(null_mut()) };
}

extern "C" fn pin(_: *mut c_void) -> u32 {
    0
}

extern "C" fn irq_save(_: *mut c_void) -> usize {
    let memory = DUE.replace(null_mut());
    if !memory.is_null() {
        let mut pfn = 0;
        // SAFETY: the memory exists; the frame is freed by the handler that has allocated it.
        unsafe {
            let error = fw_alloc(memory, 0, MOVABLE, FW_FLAG_ATOMIC, FW_ANY_NODE, &raw mut pfn);
            assert_eq!(error, FwError::None);
            assert_eq!(fw_free(memory, pfn, 0), FwError::None);
        }
    }
    0
}

extern "C" fn irq_restore(_: *mut c_void, _: usize) {}

extern "C" fn address(ram: *mut c_void, pfn: u64) -> *mut c_void {
    ram.cast::<[u8; FW_FRAME_SIZE as usize]>().wrapping_add(pfn as usize).cast()
}

extern "C" fn corruption(_: *mut c_void, report: *const FwCorruption) {
    // SAFETY: the library has just made the report, whose text ends with a zero byte.
    let text = unsafe { CStr::from_ptr((*report).text) };
    assert!(text.to_str().unwrap().starts_with("bad free of pfn "));
}

#[test]
fn a_memory_lives_and_ends_in_its_buffer() {
    let mut ram = vec![[7u8; FW_FRAME_SIZE as usize]; FRAMES as usize];
    let platform = FwPlatform {
        context: ram.as_mut_ptr().cast(),
        pin: Some(pin),
        unpin: None,
        irq_save: Some(irq_save),
        irq_restore: Some(irq_restore),
        address: Some(address),
        wait: None,
        now: None,
        remote_barrier: None,
        corruption: Some(corruption),
    };
    let used = FwRange {
        start: 0,
        end: 100,
        node: 0,
        zone: FwZone::Normal as u32,
        presence: FwPresence::InUse as u32,
    };
    let free = FwRange { start: 100, end: FRAMES, presence: FwPresence::Present as u32, ..used };
    let map = [used, free];
    let setting = FwSetting { key: c"hardening".as_ptr(), value: c"tracked".as_ptr() };
    let config = FwConfig {
        ranges: map.as_ptr(),
        range_count: map.len(),
        cpus: 2,
        cpu_nodes: [0u8, 0].as_ptr(),
        cpu_node_count: 2,
        distances: null(),
        distance_count: 0,
        settings: &raw const setting,
        setting_count: 1,
    };
    let (mut bytes, mut align) = (0, 0);
    // SAFETY: the arrays of the configuration have the lengths that it names.
    let error = unsafe { fw_memory_size(&config, &raw mut bytes, &raw mut align, null_mut()) };
    assert_eq!(error, FwError::None);
    let layout = Layout::from_size_align(bytes, align).unwrap();
    // SAFETY: the size is not 0.
    let buffer = unsafe { alloc(layout) };
    // After an allocator has ended, another one uses its buffer.
    for _ in 0..2 {
        let mut memory = null_mut();
        // SAFETY: the buffer has that size, and is used by the memory alone. This thread is the only CPU.
        unsafe {
            let made = fw_memory_init(
                &raw mut memory,
                &raw const platform,
                &raw const config,
                buffer.cast(),
                bytes,
                null_mut(),
            );
            assert_eq!(made, FwError::None);
            use_memory(memory, platform.context);
            assert_eq!(fw_memory_end(memory), FwError::None);
            assert_eq!(fw_drain(memory), FwError::NotInitialised);
        }
    }
    // SAFETY: allocated above, and used no longer.
    unsafe { dealloc(buffer, layout) };
}

/// # Safety
///
/// The memory is that of the test above, and this thread alone uses it. Its frames are at `ram`.
unsafe fn use_memory(memory: *mut FwMemory, ram: *mut c_void) {
    let (mut page, mut pair, mut run, mut at) = (0, 0, 0, 0);
    let mut counts = FwCounts { managed: 0, free: 0, on_cpus: 0, in_depots: 0, in_use: 0 };
    let mut text = [1; 200];
    let any = FW_ANY_NODE;
    DUE.set(memory);
    // SAFETY: the contract is that of this function. Bad frees are refused.
    unsafe {
        assert_eq!(fw_alloc(memory, 0, MOVABLE, FW_FLAG_ZEROED, any, &raw mut page), FwError::None);
        assert!(DUE.get().is_null(), "the interrupt handler did not run");
        assert_eq!(address(ram, page).cast::<u64>().read_unaligned(), 0);
        assert_eq!(fw_alloc(memory, 1, MOVABLE, 0, any, &raw mut pair), FwError::None);
        assert_eq!(fw_alloc_frames(memory, 77, 2, MOVABLE, 0, any, &raw mut run), FwError::None);
        assert_eq!(fw_free(memory, page, 0), FwError::None);
        assert_eq!(fw_free(memory, page, 0), FwError::AlreadyFree);
        assert_eq!(fw_free(memory, pair, 1), FwError::None);
        assert_eq!(fw_free_frames(memory, run + 7, 70, null_mut()), FwError::None);
        assert_eq!(fw_free_frames(memory, run, 77, &raw mut at), FwError::AlreadyFree);
        assert_eq!(at, run + 7);
        assert_eq!(fw_free_frames(memory, run, 7, null_mut()), FwError::None);
        assert_eq!(fw_free_frames(memory, 0, 100, null_mut()), FwError::None);
        assert_eq!(fw_cpu_release(memory), FwError::None);
        assert_eq!(fw_drain(memory), FwError::None);
        assert_eq!(fw_check(memory, text.as_mut_ptr(), text.len()), FwError::None);
        assert_eq!(fw_buddyinfo(memory, text.as_mut_ptr(), 20, null_mut()), FwError::None);
        assert_eq!(CStr::from_ptr(text.as_ptr()).to_bytes().len(), 19);
        assert_eq!(fw_counts(memory, &raw mut counts), FwError::None);
    }
    assert_eq!((counts.free, counts.in_use), (FRAMES, 0));
}

#[test]
fn every_error_of_the_header_has_a_text() {
    let header = include_str!("../framewright.h");
    let numbers = header.lines().filter_map(|line| line.trim().strip_prefix("FW_ERROR_"));
    let mut texts = Vec::new();
    for line in numbers {
        let number = line.split(" = ").nth(1).and_then(|rest| rest.strip_suffix(',')).unwrap();
        // SAFETY: the text is static, and ends with a zero byte.
        let text = unsafe { CStr::from_ptr(fw_error_text(number.parse().unwrap())) };
        assert_ne!(text, c"this number is not an error", "{line}");
        assert!(!texts.contains(&text), "{line} has the text of another error");
        texts.push(text);
    }
    assert!(texts.len() > 40);
}
