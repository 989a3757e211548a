//! Page tables of the `x86_64` crate in frames of this library.

use framewright::{Config, FrameRange, Global, Order, Pfn, global::OneCpu};
use framewright_x86_64::{Frames, frame_of, order_of, pfn_of};
use x86_64::{
    PhysAddr, VirtAddr,
    structures::paging::{
        FrameAllocator, FrameDeallocator, Mapper, OffsetPageTable, Page, PageTable, PageTableFlags,
        PhysFrame, Size1GiB, Size2MiB, Size4KiB, Translate, mapper::CleanUp,
    },
};

static MEMORY: Global<OneCpu, 1> = Global::new();

const FRAMES: usize = 16 << 20 >> 12;

#[test]
fn page_tables_take_frames_and_give_them_back() {
    // Physical address 0 is mapped at the start of a buffer.
    let ram = vec![0u8; (FRAMES + 1) << 12].leak();
    let offset = ram.as_mut_ptr().expose_provenance().next_multiple_of(4096);
    // The map excludes frame 0.
    let map = [FrameRange::new(Pfn::new(1), Pfn::new(FRAMES as u64)).unwrap().into()];
    // SAFETY: all frames of the map are mapped at the offset; this thread alone uses the allocator.
    let machine = unsafe { OneCpu::new(offset, |report| panic!("{report}")) };
    let mut frames = Frames::new(&MEMORY);
    assert_eq!(
        FrameAllocator::<Size4KiB>::allocate_frame(&mut frames),
        None,
        "allocated before the memory is initialised"
    );
    MEMORY.init_in_map(machine, &Config::new(&map, 1)).unwrap();
    let memory = MEMORY.memory().unwrap();
    let before = memory.in_use();

    let top: PhysFrame<Size4KiB> = frames.allocate().unwrap();
    let at = VirtAddr::new(offset as u64);
    let top_at = (at + top.start_address().as_u64()).as_mut_ptr::<PageTable>();
    // SAFETY: the frame is mapped there, and belongs to this test.
    let table = unsafe {
        top_at.write(PageTable::new());
        &mut *top_at
    };
    // SAFETY: all frames for tables are mapped at the offset. No CPU uses these tables.
    let mut mapper = unsafe { OffsetPageTable::new(table, at) };
    let page: Page<Size4KiB> = Page::containing_address(VirtAddr::new(0x7000_1234_5000));
    let target: PhysFrame<Size4KiB> = frames.allocate().unwrap();
    let flags = PageTableFlags::PRESENT | PageTableFlags::WRITABLE;
    // SAFETY: nothing is accessed through the mapping.
    unsafe { mapper.map_to(page, target, flags, &mut frames) }.unwrap().ignore();
    assert_eq!(mapper.translate_addr(page.start_address()), Some(target.start_address()));
    // In use: the target, the top-level table, and three tables below it.
    assert_eq!(memory.in_use(), before + 5);
    memory.check().unwrap();

    let (unmapped, flush) = mapper.unmap(page).unwrap();
    flush.ignore();
    assert_eq!(unmapped, target);
    // SAFETY: no CPU uses these tables, and the frames are no longer in use.
    unsafe {
        mapper.clean_up(&mut frames);
        frames.deallocate_frame(target);
        frames.deallocate_frame(top);
    }
    assert_eq!(memory.in_use(), before);

    let huge: PhysFrame<Size2MiB> = frames.allocate().unwrap();
    assert!(huge.start_address().is_aligned(2u64 << 20));
    assert!(frames.allocate::<Size1GiB>().is_err(), "there is no free GiB");
    // SAFETY: the frame is no longer in use.
    unsafe { frames.deallocate_frame(huge) };
    memory.drain_all();
    memory.check().unwrap();
    assert_eq!(memory.in_use(), before);
}

#[test]
fn frames_are_converted_both_ways() {
    assert_eq!(order_of::<Size4KiB>(), Order::ZERO);
    assert_eq!(order_of::<Size2MiB>(), Order::PAGEBLOCK);
    assert_eq!(order_of::<Size1GiB>(), Order::MAX);
    let frame: PhysFrame<Size2MiB> = frame_of(Pfn::new(0x600)).unwrap();
    assert_eq!(frame.start_address(), PhysAddr::new(0x60_0000));
    assert_eq!(pfn_of(frame), Pfn::new(0x600));
    assert_eq!(frame_of::<Size2MiB>(Pfn::new(0x601)), None, "not aligned");
    assert_eq!(frame_of::<Size4KiB>(Pfn::MAX), None, "beyond 52 bits");
    assert_eq!(frame_of::<Size4KiB>(Pfn::new(u64::MAX)), None);
}
