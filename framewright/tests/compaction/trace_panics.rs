//! A trace hook panics at one of its calls while pages move. The tests try each call. No frame is lost, no page stays
//! claimed, and the memory still works.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

use framewright::{
    Block, Config, Contiguous, CpuId, Extent, FrameRange, Memory, MigrateType, Order, Pfn, Request,
    Tuning,
    compact::{Compactor, Workspace},
    migrate::{ClaimEnd, Claims, Effort, Locking, Move, Mover},
    platform::CompactPriority,
    tlb::{BatchSlot, Flushed, NoShootdown, Unmapping},
    tuning::Auto,
};

use framewright_fakes::{FailNth, FakePlatform, TracedPlatform, assert_apart, leaked, raw};

const FRAMES: u64 = 4 * 512;
const CPU: CpuId = CpuId::new(0);

/// A page.
#[derive(Clone, Copy)]
struct Page {
    order: Order,
    claimed: bool,
}

/// The owner and mover of all pages, by first frame. No page is mapped on any CPU.
struct Owner {
    memory: &'static Memory<'static, TracedPlatform>,
    /// Selects the trace event at which the hook panics.
    fault: &'static FailNth,
    pages: RefCell<BTreeMap<u64, Page>>,
}

// SAFETY: there is one thread, and no other code frees the frames of claimed pages.
unsafe impl Mover<TracedPlatform> for Owner {
    fn claim(&self, frames: FrameRange, _: &Effort, claims: &mut Claims<'_>) -> ClaimEnd {
        let mut pages = self.pages.borrow_mut();
        let range = frames.start().get()..frames.end().get();
        for (&at, page) in pages.range_mut(range).filter(|(_, page)| !page.claimed) {
            if !claims.push(Pfn::new(at), page.order) {
                break;
            }
            page.claimed = true;
        }
        ClaimEnd::Done
    }
    fn unmap(
        &self,
        moves: &mut [Move],
        _: &Effort,
        _: Locking,
        _: &mut Unmapping<'_, '_, '_, TracedPlatform>,
    ) {
        moves.iter_mut().for_each(Move::set_unmapped);
    }
    fn remap(&self, moves: &mut [Move], _: &Effort, _: &Flushed<'_>) {
        let mut pages = self.pages.borrow_mut();
        for at in moves {
            let page = pages.remove(&at.from().get()).expect("a page");
            assert!(page.claimed);
            pages.insert(at.to().get(), Page { claimed: false, ..page });
            at.set_moved();
        }
    }
    fn undo(&self, _: &[Move]) {}
    fn release(&self, moves: &mut [Move]) {
        let mut pages = self.pages.borrow_mut();
        for at in moves {
            let page = pages.get_mut(&at.from().get()).expect("a page");
            assert!(core::mem::take(&mut page.claimed), "released twice");
        }
    }
}

impl Owner {
    /// An owner with pages of orders 0 to 2 in half of the frames.
    fn of_scattered_memory(method: &str) -> Self {
        let map = [FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).unwrap().into()];
        let mut tuning = Tuning::default();
        tuning.zone.min_free = Auto::Fixed(0);
        tuning.set("compact.method", method).unwrap();
        let mut config = Config::new(&map, 1);
        config.tuning = tuning;
        let fault: &'static FailNth = Box::leak(Box::default());
        let platform = FakePlatform::default().traced();
        platform.on_trace(|_, _| fault.panic_at_nth());
        let owner = Self { memory: leaked(platform, &config), fault, pages: RefCell::default() };
        let mut token = owner.memory.cpu(CPU).unwrap();
        for nth in (0..3).cycle() {
            let order = Order::new(nth).unwrap();
            let request = Request::new(order, MigrateType::Movable).no_wait();
            let Ok(block) = token.alloc(request) else { break };
            let (pfn, order) = block.into_raw();
            owner.pages.borrow_mut().insert(pfn.get(), Page { order, claimed: false });
        }
        let mut nth = 0;
        owner.pages.borrow_mut().retain(|&at, page| {
            nth += 1;
            if nth % 2 == 0 {
                // SAFETY: the frame was a page of the owner, and is removed here.
                unsafe { token.free_raw(Pfn::new(at), page.order) }.unwrap();
            }
            nth % 2 == 1
        });
        drop(token);
        owner
    }

    /// The number of frames that are neither free nor in a page. Asserts that no frame is both, and that no page is
    /// claimed.
    fn lost(&self) -> u64 {
        self.memory.drain_all();
        self.memory.check().unwrap();
        let single = Request::new(Order::ZERO, MigrateType::Movable).no_wait();
        let single = single.ignoring_watermarks();
        let free = std::iter::from_fn(|| self.memory.alloc_bypassing_lists(single).ok());
        let free: Vec<_> = free.collect();
        let pages = self.pages.borrow();
        assert!(pages.values().all(|page| !page.claimed), "a page is still claimed");
        let of_pages = pages.iter().map(|(&at, page)| (Pfn::new(at), page.order));
        FRAMES - assert_apart(of_pages.chain(free.iter().map(raw)))
    }
}

/// An operation that moves pages. It adds its allocations to `held`.
type Step = fn(&mut Compactor<'_, 'static, TracedPlatform>, &mut Vec<Held>);

/// The frames that a step has allocated.
enum Held {
    Block(Block<'static>),
    Extent(Extent<'static>),
}

const STEPS: [Step; 5] = [
    |compactor, held| form(compactor, 9, CompactPriority::Async, held),
    |compactor, held| form(compactor, 9, CompactPriority::Sync, held),
    |compactor, held| form(compactor, 10, CompactPriority::SyncLight, held),
    |compactor, held| {
        let range = FrameRange::new(Pfn::new(1), Pfn::new(512)).unwrap();
        let extent = compactor.alloc_range(range, MigrateType::Movable, &mut |_| ());
        held.extend(extent.ok().map(Held::Extent));
    },
    |compactor, held| {
        let extent = compactor.alloc_contiguous(&Contiguous::new(700, MigrateType::Movable));
        held.extend(extent.ok().map(Held::Extent));
    },
];

fn form(
    compactor: &mut Compactor<'_, 'static, TracedPlatform>,
    order: u8,
    priority: CompactPriority,
    held: &mut Vec<Held>,
) {
    let request = Request::new(Order::new(order).unwrap(), MigrateType::Movable).no_wait();
    let (_, block) = compactor.form(request, priority);
    held.extend(block.map(Held::Block));
}

/// Runs a step. Its trace number `at` panics. Returns the number of lost frames; `None` if there were fewer traces.
fn lost(method: &str, step: Step, at: u32) -> Option<u64> {
    let owner = Owner::of_scattered_memory(method);
    let (mut moves, mut slots) = ([Move::default(); 64], [BatchSlot::default(); 64]);
    let mut held = Vec::new();
    owner.fault.arm(at);
    let result = catch_unwind(AssertUnwindSafe(|| {
        let space = Workspace { moves: &mut moves, slots: &mut slots };
        // SAFETY: the pages of the mover are in frames of this allocator, and nothing is mapped.
        let mut compactor = unsafe { owner.memory.compactor(CPU, &owner, &NoShootdown, space) };
        step(&mut compactor, &mut held);
    }));
    owner.fault.disarm();
    for held in held {
        match held {
            Held::Block(block) => owner.memory.free_bypassing_lists(block).unwrap(),
            Held::Extent(extent) => owner.memory.free_extent(extent).unwrap(),
        }
    }
    let lost = owner.lost();
    result.is_err().then_some(lost)
}

#[test]
fn no_frame_is_lost_though_a_trace_panics_while_pages_move() {
    std::panic::set_hook(Box::new(|info| {
        if info.payload_as_str() != Some("a fault") {
            eprintln!("{info}");
        }
    }));
    for method in ["index", "scan"] {
        for (nth, step) in STEPS.into_iter().enumerate() {
            let all: Vec<u64> = (1..).map_while(|at| lost(method, step, at)).collect();
            assert!(all.len() > 1, "{method}, step {nth}: {} traces", all.len());
            assert!(all.iter().all(|&lost| lost == 0), "{method}, step {nth}: {all:?}");
        }
    }
}
