//! The memory of the scenarios with the library's allocator, and the checks at the end.

use std::cell::{Cell, RefCell};

use framewright::{
    Block, Config, CpuToken, FrameRange, Layout, Memory, MemoryRange, MigrateType, Order, Pfn,
    Request, Tuning, tuning::Auto,
};

use crate::{
    check,
    engine::{Cpu, Failure, Machine, Program},
    platform::{MetadataBuffer, Settings, Simulated},
    process::{HeldFrames, Mmu, Oracle, Symptom},
    scenario::{
        Bug, Verdict,
        world::{failed, seen},
    },
};

/// Frames of a pageblock.
pub(super) const PAGEBLOCK: u64 = 512;
const FRAMES: u64 = 2 * PAGEBLOCK;

/// Makes the programs of a scenario.
type Programs<'p> = dyn for<'l, 'm> Fn(&'l Library<'m>) -> Vec<Program<'l>> + 'p;

/// A CPU's token.
pub(super) type Token<'a, 'm> = CpuToken<'a, 'm, Simulated>;

/// A memory of two pageblocks, and what its programs hold.
pub(super) struct Library<'m> {
    pub(super) memory: Memory<'m, Simulated>,
    pub(super) mmu: Mmu,
    /// Blocks whose frames processes use.
    pub(super) held: HeldFrames<'m>,
    /// Blocks that one CPU left for another to free.
    pub(super) left: RefCell<Vec<Block<'m>>>,
    /// The isolated range: no frame of it may be allocated.
    pub(super) isolated: Cell<Option<FrameRange>>,
    /// The number of frames that requests below the min watermark may hold.
    pub(super) urgent: Cell<u64>,
}

impl<'m> Library<'m> {
    pub(super) fn oracle(&self) -> &Oracle {
        self.mmu.oracle().expect("scenarios are checked")
    }

    /// Allocates a block, if there is one.
    pub(super) fn take(
        &self,
        cpu: Cpu<'_>,
        token: &mut Token<'_, 'm>,
        order: u8,
    ) -> Option<Block<'m>> {
        let isolated = self.isolated.get();
        let order = Order::new(order).expect("an order that exists");
        let block = token.alloc(Request::new(order, MigrateType::Movable)).ok()?;
        for frame in frames(&block) {
            self.oracle().taken(cpu, frame);
        }
        if let Some(range) = isolated.filter(|_| isolated == self.isolated.get())
            && range.contains(block.pfn())
        {
            self.oracle().see(cpu, Symptom::Isolated, &format!("{block:?}"));
        }
        Some(block)
    }

    /// Checks that only urgent requests have gone below the min watermark.
    pub(super) fn check_reserve(&self) -> Result<(), String> {
        check::above_min(&self.memory, self.urgent.get())
    }

    /// Frees a block.
    pub(super) fn give(&self, cpu: Cpu<'_>, token: &mut Token<'_, 'm>, block: Block<'m>) {
        for frame in frames(&block) {
            self.oracle().freed(cpu, frame);
        }
        token.free(block).expect("a block of this memory");
    }

    /// The token of a CPU that stays online.
    pub(super) fn token(&self, cpu: Cpu<'_>) -> Token<'_, 'm> {
        self.memory.cpu(cpu.id()).expect("a CPU that is online")
    }

    /// Isolates the two pageblocks in turn.
    pub(super) fn isolate_in_turn(&self, cpu: Cpu<'_>) {
        for pageblock in [0, 1] {
            let isolated = self.memory.isolate(Pfn::new(pageblock * PAGEBLOCK));
            let isolated = isolated.expect("it is movable");
            self.isolated.set(Some(isolated.range()));
            cpu.step();
            self.isolated.set(None);
            self.memory.undo_isolate(isolated).expect("of this memory");
        }
    }

    /// The work of an ordinary CPU: allocates some blocks, frees some, leaves some to others, and
    /// frees those that others have left.
    pub(super) fn work(&self, cpu: Cpu<'_>, token: &mut Token<'_, 'm>, orders: &[u8]) {
        let mut taken: Vec<_> =
            orders.iter().filter_map(|order| self.take(cpu, token, *order)).collect();
        self.left.borrow_mut().extend(taken.pop());
        for block in taken {
            self.give(cpu, token, block);
        }
        let left = self.left.borrow_mut().pop();
        left.into_iter().for_each(|block| self.give(cpu, token, block));
    }
}

/// The frames of a block.
fn frames(block: &Block<'_>) -> std::ops::Range<u32> {
    let first = block.pfn().get() as u32;
    first..first + block.order().frames() as u32
}

/// Runs the result of `programs` on a memory without reserves, and checks all invariants at the
/// end.
pub(super) fn run(machine: &Machine, bug: Option<Bug>, programs: &Programs) -> Verdict {
    run_with(machine, bug, &|_| {}, programs)
}

/// As [`run`], with other settings. If they set a reserve, the watermark is checked during the run,
/// too.
pub(super) fn run_with(
    machine: &Machine,
    bug: Option<Bug>,
    settings: &dyn Fn(&mut Tuning),
    programs: &Programs<'_>,
) -> Verdict {
    let range = FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).expect("in order");
    let map = [MemoryRange::from(range)];
    let mut config = Config::new(&map, machine.cpus());
    config.tuning.zone.min_free = Auto::Fixed(0);
    config.tuning.pcp.batch = Auto::Fixed(2);
    settings(&mut config.tuning);
    let has_reserve = config.tuning.zone.min_free != Auto::Fixed(0);
    let mut metadata =
        MetadataBuffer::new(&Layout::new::<Simulated>(&config).expect("a small layout"));
    let skip_barriers = bug == Some(Bug::MissingBarrier);
    let platform = Simulated::new(machine, Settings { skip_barriers, ..Settings::default() });
    let library = Library {
        memory: Memory::new(platform, &config, metadata.as_mut()).expect("a small memory"),
        mmu: Mmu::checking(machine.cpus(), Oracle::new(FRAMES as u32)),
        held: HeldFrames::default(),
        left: RefCell::default(),
        isolated: Cell::new(None),
        urgent: Cell::new(0),
    };
    let result = if has_reserve {
        machine.run_watched(programs(&library), 1, &|| library.check_reserve())
    } else {
        machine.run(programs(&library))
    };
    verdict(&library, result)
}

fn verdict(library: &Library<'_>, result: Result<(), Failure>) -> Verdict {
    if let Err(failure) = result {
        return failed(library.oracle(), failure);
    }
    let memory = &library.memory;
    memory.drain_all();
    if let Err(violation) = memory.check() {
        return seen(Symptom::Inconsistent, &violation.to_string());
    }
    let taken = library.oracle().frames_taken();
    if memory.free() + taken != FRAMES {
        let free = memory.free();
        return seen(Symptom::Leaked, &format!("{free} frames free, {taken} taken, of {FRAMES}"));
    }
    Verdict::Clean
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use framewright::Extent;

    use super::*;
    use crate::engine::Options;

    /// The verdict on a program on one CPU.
    fn on_one(program: impl Fn(Cpu<'_>, &Library<'_>) + 'static) -> Verdict {
        let machine = Machine::new(1, Options::default());
        let program = Rc::new(program);
        run(&machine, None, &|library| {
            let program = Rc::clone(&program);
            vec![Box::new(move |cpu| program(cpu, library))]
        })
    }

    fn symptom(verdict: Verdict) -> Symptom {
        match verdict {
            Verdict::Seen { symptom, .. } => symptom,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn freed_blocks_are_not_leaked() {
        let verdict = on_one(|cpu, library| {
            let mut token = library.memory.cpu(cpu.id()).unwrap();
            library.work(cpu, &mut token, &[0, 3, 1, 0]);
        });
        assert_eq!(verdict, Verdict::Clean);
    }

    #[test]
    fn a_block_that_is_never_freed_is_reported_as_leaked() {
        let verdict = on_one(|cpu, library| {
            let mut token = library.memory.cpu(cpu.id()).unwrap();
            let block = library.take(cpu, &mut token, 2).unwrap();
            frames(&block).for_each(|frame| library.oracle().freed(cpu, frame));
            let _ = block.into_raw();
        });
        assert_eq!(symptom(verdict), Symptom::Leaked);
    }

    #[test]
    fn an_allocation_from_an_isolated_pageblock_is_detected() {
        let verdict = on_one(|cpu, library| {
            let mut token = library.memory.cpu(cpu.id()).unwrap();
            library.isolated.set(FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)));
            library.take(cpu, &mut token, 0);
        });
        assert_eq!(symptom(verdict), Symptom::Isolated);
    }

    #[test]
    fn an_allocation_of_a_held_frame_is_detected() {
        let verdict = on_one(|cpu, library| {
            let range = FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).unwrap();
            let taken = library.memory.alloc_range(range, MigrateType::Movable, &mut |_| {});
            (0..FRAMES as u32).for_each(|frame| library.oracle().taken(cpu, frame));
            let extent: Extent<'_> = taken.unwrap();
            // The oracle does not learn of this free, so the next allocation of these frames is a
            // second one.
            library.memory.free_extent(extent).unwrap();
            let mut token = library.memory.cpu(cpu.id()).unwrap();
            library.take(cpu, &mut token, 0);
        });
        assert_eq!(symptom(verdict), Symptom::TakenTwice);
    }
}
