//! The file of `kernel/` is closed while another thread migrates its pages. No CPU walks the page
//! tables. Every migration must end or be undone before the file is dropped. (`kernel/` has no test
//! harness.)

#![allow(dead_code, unused_imports, unsafe_code)]

use std::{
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
};

use framewright::{
    Config, CpuId, FrameRange, Layout, MigrateType, Pfn, SideTables,
    compact::Workspace,
    frame::PAGEBLOCK_FRAMES,
    migrate::{ClaimEnd, Claims, Effort, Locking, Move, Mover},
    reclaim::LruList,
    tlb::{BatchSlot, Flushed, NoShootdown, Unmapping},
};
use framewright_host::{HostMachine, Metadata};

use file::File;

#[path = "../../kernel/src/file/mod.rs"]
mod file;
#[path = "../../kernel/src/mover.rs"]
mod mover;
#[path = "../../kernel/src/rmap.rs"]
mod rmap;

/// The kernel's machine: this process.
mod platform {
    pub(crate) type Machine = framewright_host::HostMachine;
}

/// The memory of all tests.
mod memory {
    use super::*;
    use framewright::{Order, Request};

    pub(crate) type Memory = framewright::Memory<'static, HostMachine>;

    pub(crate) fn memory() -> &'static Memory {
        static MEMORY: OnceLock<Memory> = OnceLock::new();
        MEMORY.get_or_init(|| {
            let machine = HostMachine::builder().frames(8 * 512).cpus(2).build().unwrap();
            let map = [machine.frames().into()];
            let side_tables = SideTables::default().with_lru().with_flags().with_owners();
            let config = Config::new(&map, 2).with_side_tables(side_tables);
            let layout = Layout::new::<HostMachine>(&config).unwrap();
            let metadata = Box::leak(Box::new(Metadata::for_layout(&layout).unwrap()));
            Memory::new(machine, &config, metadata.as_mut()).unwrap()
        })
    }

    pub(crate) fn alloc(request: Request) -> Option<Pfn> {
        let mut token = memory().cpu(cpu::this_cpu().id).ok()?;
        Some(token.alloc(request).ok()?.into_raw().0)
    }

    pub(crate) unsafe fn free(pfn: Pfn, order: Order) {
        let mut token = memory().cpu(cpu::this_cpu().id).unwrap();
        // SAFETY: by the contract of this function.
        unsafe { token.free_raw(pfn, order) }.unwrap();
    }
}

mod own {
    pub(crate) use super::memory::{alloc, free};
}

/// CPU 0 closes the file, and CPU 1 migrates pages.
mod cpu {
    use super::*;
    use std::cell::Cell;

    pub(crate) const MAX_CPUS: usize = 2;
    /// Locked during each step of a thread.
    pub(crate) static AT_WORK: Mutex<()> = Mutex::new(());
    /// Whether CPU 0 has a job for all CPUs.
    pub(crate) static HAS_JOB: AtomicBool = AtomicBool::new(false);
    thread_local! { pub(crate) static NUMBER: Cell<usize> = const { Cell::new(0) }; }

    pub(crate) struct Cpu {
        pub(crate) id: CpuId,
    }

    pub(crate) fn this_cpu() -> &'static Cpu {
        static CPUS: [Cpu; MAX_CPUS] = [Cpu { id: CpuId::new(0) }, Cpu { id: CpuId::new(1) }];
        &CPUS[NUMBER.get()]
    }

    /// CPUs join a job between two steps.
    pub(crate) fn run_on_all(job: &(dyn Fn(&'static Cpu) + Sync)) {
        HAS_JOB.store(true, SeqCst);
        let _nobody_works = AT_WORK.lock().unwrap();
        job(this_cpu());
    }
}

mod frames {
    use super::*;
    use framewright::Order;

    pub(crate) const BYTES: u64 = 4096;

    pub(crate) fn address(pfn: Pfn) -> u64 {
        memory::memory().platform().frame(pfn).as_ptr() as u64
    }

    pub(crate) fn fill(pfn: Pfn, order: Order, word: u64) {
        let frames =
            (0..order.frames()).map(|frame| memory::memory().platform().frame(pfn.offset(frame)));
        frames.flatten().for_each(|place| place.store(word, SeqCst));
    }

    pub(crate) fn words(pfn: Pfn) -> impl Iterator<Item = u64> {
        memory::memory().platform().frame(pfn).iter().map(|word| word.load(SeqCst))
    }

    pub(crate) fn read(pfn: Pfn, word: usize) -> u64 {
        memory::memory().platform().frame(pfn)[word].load(SeqCst)
    }
}

mod wait {
    pub(crate) struct Event;

    impl Event {
        pub(crate) const SERVED: Self = Self;
    }

    pub(crate) fn until(_: Event, condition: impl Fn() -> bool) {
        while !condition() {
            std::thread::yield_now();
        }
    }

    pub(crate) fn wake(_: Event) {}
}

mod shootdown {
    use super::*;
    use framewright::tlb::Flusher;

    pub(crate) fn flusher() -> Flusher<'static, 'static, HostMachine> {
        // SAFETY: nothing is mapped here.
        unsafe { memory::memory().flusher(cpu::this_cpu().id, &NoShootdown) }
    }
}

#[path = "../../kernel/src/paging"]
mod paging {
    pub(crate) mod entry;

    use entry::Table;
    pub(crate) use entry::{Entry, Slot};
    use framewright::tlb::{CpuMask, DeferredFlush};
    use std::ops::Deref;

    /// A page table that no CPU has cached.
    pub(crate) struct AddressSpace {
        pub(crate) table: &'static Table,
        deferred_flush: DeferredFlush,
    }

    /// Address spaces have no numbers here.
    pub(crate) struct Found(AddressSpace);

    impl Deref for Found {
        type Target = AddressSpace;

        fn deref(&self) -> &AddressSpace {
            &self.0
        }
    }

    impl AddressSpace {
        pub(crate) fn new() -> &'static Self {
            // SAFETY: entries are words, and an empty entry is 0.
            let table = Box::leak(unsafe { Box::<Table>::new_zeroed().assume_init() });
            Box::leak(Box::new(Self { table, deferred_flush: DeferredFlush::new() }))
        }

        pub(crate) fn by_number(_: u32) -> Option<Found> {
            None
        }

        pub(crate) fn number(&self) -> u32 {
            1
        }

        pub(crate) fn deferred_flush(&self) -> &DeferredFlush {
            &self.deferred_flush
        }

        pub(crate) fn advance(&self) -> CpuMask {
            CpuMask::from_words(&[0])
        }

        pub(crate) fn find(&self, page: u64) -> Option<&'static Slot> {
            self.table.0.get(page as usize)
        }
    }
}

/// The end of the migrations that are in progress while the file is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    Completed,
    Undone,
}

/// The kernel's mover. It lets the file begin to close after pages were copied.
struct Interrupted<'a> {
    ending: Ending,
    /// The number of copied pages.
    copied: &'a AtomicU64,
    closed: &'a AtomicBool,
}

// SAFETY: each result is that of the kernel's mover, or says that the page does not move.
unsafe impl Mover<HostMachine> for Interrupted<'_> {
    fn claim(&self, frames: FrameRange, effort: &Effort, claims: &mut Claims<'_>) -> ClaimEnd {
        mover::Mover.claim(frames, effort, claims)
    }

    fn unmap(
        &self,
        moves: &mut [Move],
        effort: &Effort,
        locking: Locking,
        batch: &mut Unmapping<'_, '_, '_, HostMachine>,
    ) {
        mover::Mover.unmap(moves, effort, locking, batch);
    }

    fn remap(&self, moves: &mut [Move], effort: &Effort, flushed: &Flushed<'_>) {
        self.copied.fetch_add(moves.len() as u64, SeqCst);
        // By now, the closing thread waits for other CPUs, or has finished without waiting.
        while !cpu::HAS_JOB.load(SeqCst) && !self.closed.load(SeqCst) {
            thread::yield_now();
        }
        match self.ending {
            Ending::Completed => mover::Mover.remap(moves, effort, flushed),
            Ending::Undone => moves.iter_mut().for_each(Move::set_refused),
        }
    }

    fn undo(&self, moves: &[Move]) {
        mover::Mover.undo(moves);
    }

    fn release(&self, moves: &mut [Move]) {
        mover::Mover.release(moves);
    }
}

const PAGES: u64 = 400;

/// Words that are never freed.
fn words() -> &'static [AtomicU64] {
    Box::leak((0..PAGES).map(|_| AtomicU64::new(0)).collect())
}

/// CPU 1 migrates the pages from half of the pageblock of a frame.
fn empty_half_around(pfn: Pfn, mover: &Interrupted<'_>) {
    cpu::NUMBER.set(1);
    let _me = memory::memory().platform().register_as(CpuId::new(1)).unwrap();
    let _at_work = cpu::AT_WORK.lock().unwrap();
    memory::memory().lru().unwrap().drain_all();
    let pageblock = PAGEBLOCK_FRAMES as u64;
    let first = pfn.get() / pageblock * pageblock;
    let range = FrameRange::new(Pfn::new(first), Pfn::new(first + pageblock / 2)).unwrap();
    let (mut moves, mut slots) = ([Move::default(); 512], [BatchSlot::default(); 512]);
    let work = Workspace { moves: &mut moves, slots: &mut slots };
    // SAFETY: the frames of the file are from this allocator; nothing is mapped here.
    let mut compactor =
        unsafe { memory::memory().compactor(CpuId::new(1), mover, &NoShootdown, work) };
    let taken = compactor.alloc_range(range, MigrateType::Movable, &mut |_| ());
    assert_eq!(taken.is_ok(), mover.ending == Ending::Completed, "{:?}", taken.err());
    taken.into_iter().for_each(|extent| memory::memory().free_extent(extent).unwrap());
}

fn close_during_migrations(ending: Ending) {
    static ONE_FILE: Mutex<()> = Mutex::new(());
    let _one = ONE_FILE.lock().unwrap();
    let memory = memory::memory();
    let me = memory.platform().register_as(CpuId::new(0)).unwrap();
    let space = paging::AddressSpace::new();
    let file: &'static mut File = Box::leak(Box::new(File::new(words(), words(), |page| page + 1)));
    file.map_in([space].into_iter());
    let file: &'static File = file;
    // SAFETY: the file is never dropped.
    unsafe { file.open() };
    for page in 0..PAGES {
        assert!(file::serve(cpu::this_cpu(), space, page, &space.table.0[page as usize], false));
    }
    let in_frame = |page: u64| space.table.0[page as usize].get().pfn();
    let of_file = LruList::InactiveFile;
    assert!((0..PAGES).all(|page| frames::read(in_frame(page), 0) == page + 1));
    for page in (0..PAGES).step_by(3) {
        assert!(file::write_page(cpu::this_cpu(), page, page));
    }
    assert!(file::moving::may_claim(of_file));

    let frames_before: Vec<u64> = (0..PAGES).map(|page| in_frame(page).get()).collect();
    let half = |frame: u64| frame % PAGEBLOCK_FRAMES as u64 / 256 == 0;
    let was_in_half = |page: u64| half(frames_before[page as usize]);
    let (copied, closed) = (AtomicU64::new(0), AtomicBool::new(false));
    cpu::HAS_JOB.store(false, SeqCst);
    let mover = Interrupted { ending, copied: &copied, closed: &closed };
    thread::scope(|scope| {
        let moving = scope.spawn(|| empty_half_around(in_frame(0), &mover));
        while copied.load(SeqCst) == 0 && !moving.is_finished() {
            thread::yield_now();
        }
        file.close();
        closed.store(true, SeqCst);
    });
    let moved = (0..PAGES).filter(|&page| was_in_half(page)).count() as u64;
    assert!(
        0 < moved && moved < PAGES && copied.load(SeqCst) >= moved,
        "{moved} of {PAGES} pages were to move"
    );
    assert!(!file::moving::may_claim(of_file));
    assert!(space.table.0.iter().all(|slot| slot.get().is_none()), "a page is still mapped");

    let lru = memory.lru().unwrap();
    lru.drain_all();
    memory.drain_all();
    memory.check().and_then(|()| lru.check()).unwrap();
    drop(me);
    assert_eq!(memory.in_use(), memory.tlb().deferred(), "frames are not free");
    assert_eq!(memory.platform().corruptions(), 0);
    let frames = memory.platform().frames();
    let mut frames = (frames.start().get()..frames.end().get()).map(Pfn::new);
    let has_no_flags = |pfn| memory.frame_flags(pfn).unwrap().load(SeqCst) == 0;
    assert!(frames.all(has_no_flags), "a frame is still locked or dirty");
}

#[test]
fn a_file_is_closed_after_migrations_have_ended() {
    close_during_migrations(Ending::Completed);
}

#[test]
fn a_file_is_closed_after_migrations_were_undone() {
    close_during_migrations(Ending::Undone);
}
