//! A `GlobalAlloc` for kernels without a slab allocator: `cargo run -p framewright --example global_alloc`.
//!
//! Each allocation is a block of whole frames. That is enough for large objects, and for all objects of a new kernel.
//! Later, small objects belong in a slab allocator that allocates its memory here.

use std::{
    alloc::{GlobalAlloc, Layout},
    error::Error,
    ptr::null_mut,
};

use framewright::{
    Config, FrameRange, Global, MigrateType, Order, Pfn, Request,
    frame::FRAME_SIZE,
    global::{Mapped, OneCpu},
};

static MEMORY: Global<OneCpu, 1> = Global::new();

/// In a kernel: `#[global_allocator] static HEAP: Heap = Heap;`
struct Heap;

/// The order of a block for an allocation. Blocks are aligned to their size.
fn order_of(layout: Layout) -> Option<Order> {
    Order::holding(layout.size().max(layout.align()).div_ceil(FRAME_SIZE) as u64)
}

// SAFETY: a block is at least as large as the layout, is aligned to its own size, and has one owner until it is freed.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(order) = order_of(layout) else { return null_mut() };
        let Ok(memory) = MEMORY.memory() else { return null_mut() };
        // Nothing can move objects of the heap.
        match MEMORY.alloc(Request::new(order, MigrateType::Unmovable)) {
            Ok(block) => memory.platform().address(block.into_raw().0),
            Err(_) => null_mut(),
        }
    }

    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        let Some(order) = order_of(layout) else { return };
        // This machine maps physical memory at offset 0, so the address is a physical one.
        let pfn = Pfn::containing(object.addr() as u64);
        // SAFETY: the object is a block of that order, and its owner no longer uses it. The machine prints a refusal.
        let _ = unsafe { MEMORY.free_raw(pfn, order) };
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let bytes = vec![0u8; 16 << 20].leak();
    let start = bytes.as_mut_ptr().expose_provenance() as u64;
    let map = [FrameRange::inside(start, start + bytes.len() as u64).ok_or("no memory")?.into()];
    // SAFETY: every frame of the map is mapped at its physical address; this thread alone uses the allocator.
    let machine = unsafe { OneCpu::new(0, |report| eprintln!("{report}")) };

    let layout = Layout::new::<[u64; 1000]>();
    // SAFETY: the layout is not empty.
    assert!(unsafe { Heap.alloc(layout) }.is_null(), "not initialised yet");
    MEMORY.init_in_map(machine, &Config::new(&map, 1))?;
    let memory = MEMORY.memory()?;
    let before = memory.in_use();
    for size in [1, 4096, 4097, 100_000, 1 << 20] {
        let layout = Layout::from_size_align(size, 64)?;
        // SAFETY: the layout is not empty; the object is written within its size, and freed once.
        unsafe {
            let object = Heap.alloc_zeroed(layout);
            assert!(!object.is_null() && object.addr().is_multiple_of(64));
            object.write_bytes(1, size);
            Heap.dealloc(object, layout);
        }
    }
    memory.check()?;
    assert_eq!(memory.in_use(), before);
    println!("{before} frames are in use, as before");
    Ok(())
}

#[cfg(test)]
#[test]
fn runs() -> Result<(), Box<dyn Error>> {
    main()
}
