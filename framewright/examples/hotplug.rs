//! Memory in use at boot, a memory map in pieces, ranges of any length: `cargo run -p framewright --example hotplug`.

use std::{error::Error, mem::MaybeUninit};

use framewright::{
    Config, Contiguous, FrameRange, Global, Layout, MemoryRange, MigrateType, NodeId, Order, Pfn,
    ZoneKind, frame::FRAME_SIZE, global::OneCpu,
};

static MEMORY: Global<OneCpu, 1> = Global::new();

fn frames(start: u64, end: u64) -> FrameRange {
    FrameRange::new(Pfn::new(start), Pfn::new(end)).expect("start <= end")
}

fn main() -> Result<(), Box<dyn Error>> {
    let initrd = frames(1000, 3000);
    let hotplug = MemoryRange::new(frames(65_536, 131_072), NodeId::default(), ZoneKind::Normal);
    let map = [
        frames(0, 1000).into(),
        // In use from the start, and freed when the initrd has been unpacked.
        MemoryRange::from(initrd).in_use(),
        // The boot loader reports the rest of this range in pieces.
        MemoryRange::from(frames(3000, 65_536)).in_pieces(),
        // Whole pageblocks for memory that is added later.
        hotplug.absent(),
    ];
    let config = Config::new(&map, 1);
    let layout = Layout::new::<OneCpu>(&config)?;
    let metadata = vec![MaybeUninit::uninit(); layout.bytes() + layout.align()].leak();
    let start = metadata.as_ptr().align_offset(layout.align());
    let ram = vec![0u8; (hotplug.frames.end().get() as usize + 1) * FRAME_SIZE].leak();
    let offset = ram.as_mut_ptr().expose_provenance().next_multiple_of(FRAME_SIZE);
    // SAFETY: all frames of the map are mapped at the offset; this thread alone uses the allocator.
    let machine = unsafe { OneCpu::new(offset, |report| eprintln!("{report}")) };
    MEMORY.init(machine, &config, &mut metadata[start..])?;
    let memory = MEMORY.memory()?;
    println!("{} frames, {} of them free", memory.managed(), memory.free());

    // The order of the pieces does not matter. A piece that overlaps another is refused.
    memory.add_memory(frames(20_000, 60_000))?;
    memory.add_memory(frames(3000, 20_000))?;
    let refused = memory.add_memory(frames(59_999, 60_001)).expect_err("it overlaps");
    println!("refused: {refused}");
    println!("{} frames, {} of them free", memory.managed(), memory.free());

    // The initrd is freed in two parts. A range in use can be taken only once.
    let extent = memory.take_in_use(initrd)?;
    let (unpacked, rest) = extent.split_at(Pfn::new(2000)).map_err(|_| "not inside")?;
    memory.free_extent(unpacked).map_err(|_| "another memory")?;
    memory.free_extent(rest).map_err(|_| "another memory")?;
    println!("again: {}", memory.take_in_use(initrd).expect_err("it has been handed out"));

    // A range can have any number of frames and an alignment, and can be freed in parts.
    let aligned = Order::new(8).ok_or("no such order")?;
    let buffer = memory
        .alloc_contiguous(&Contiguous::new(10_000, MigrateType::Unmovable).aligned(aligned))?;
    println!("a buffer of 10000 frames: {}", buffer.range());
    let middle = buffer.range().start().offset(1234);
    let (low, high) = buffer.split_at(middle).map_err(|_| "not inside")?;
    memory.free_extent(high).map_err(|_| "another memory")?;
    memory.free_extent(low).map_err(|_| "another memory")?;

    // Pageblocks can be added and removed.
    memory.add_memory(hotplug.frames)?;
    println!("plugged in: {} frames", memory.managed());
    memory.remove_memory(hotplug.frames, &mut |busy| println!("in use: {busy}"))?;

    memory.drain_all();
    memory.check()?;
    assert_eq!(memory.free(), memory.managed());
    println!("all {} frames are free", memory.free());
    Ok(())
}

#[cfg(test)]
#[test]
fn runs() -> Result<(), Box<dyn Error>> {
    main()
}
