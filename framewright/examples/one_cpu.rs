//! From a memory map to a page, on one CPU: `cargo run -p framewright --example one_cpu`.
//!
//! A kernel gets the memory map from its boot loader. Here, a buffer of this process serves as physical memory.

use std::{error::Error, slice};

use framewright::{
    Config, FrameRange, Global, MigrateType, Order, Pfn, Request,
    global::{Mapped, OneCpu},
};

static MEMORY: Global<OneCpu, 1> = Global::new();

const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);

/// A leaked buffer of 16 MiB, in the form of a boot loader's report.
fn ram() -> Option<FrameRange> {
    let bytes = vec![0u8; 16 << 20].leak();
    let start = bytes.as_mut_ptr().expose_provenance() as u64;
    FrameRange::inside(start, start + bytes.len() as u64)
}

fn main() -> Result<(), Box<dyn Error>> {
    let map = [ram().ok_or("no memory")?.into()];
    // SAFETY: every frame of the map is mapped at its physical address, this thread alone uses the allocator, and
    // nothing interrupts it.
    let machine = unsafe { OneCpu::new(0, |report| eprintln!("{report}")) };
    MEMORY.init_in_map(machine, &Config::new(&map, 1))?;
    let page = MEMORY.alloc(PAGE.zeroed())?;
    let machine = MEMORY.memory()?.platform();

    // SAFETY: the page belongs to this function until it is freed.
    let contents = unsafe { slice::from_raw_parts_mut(machine.address(page.pfn()), 4096) };
    assert!(contents.iter().all(|byte| *byte == 0));
    contents.fill(1);

    // A page-table entry stores only a physical address. So an unmapped page is freed by frame number.
    let (pfn, order) = page.into_raw();
    let address = pfn.address();
    println!("a page at physical address {address:#x}");
    let pfn = Pfn::from_address(address).ok_or("an entry names a whole frame")?;
    // SAFETY: the page belonged to this function, and is no longer in use.
    unsafe { MEMORY.free_raw(pfn, order) }?;

    let memory = MEMORY.memory()?;
    memory.check()?;
    println!("{} of {} frames are free", memory.free(), memory.managed());
    Ok(())
}

#[cfg(test)]
#[test]
fn runs() -> Result<(), Box<dyn Error>> {
    main()
}
