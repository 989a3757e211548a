//! Pauses: reclaim waits for pages that another CPU has isolated, and is woken when they are put
//! back.

use framewright::{
    Config, FrameRange, Layout, Memory, MemoryRange, MigrateType, NodeId, Order, Pfn, Request,
    SideTables,
    platform::Relief,
    reclaim::{
        PageKind, PageOwner, PageState, Pause, Reclaim, Reference, Released, Shadow, Throttle,
        Unmapped, WriteOut,
    },
    tlb::{NoShootdown, Unmapping},
};

use crate::{
    engine::{Cpu, Failure, Machine, WaitQueue},
    one_thread::OneThread,
    platform::{LentRelief, MetadataBuffer, Settings, Simulated},
    process::Symptom,
    scenario::{Bug, Verdict, world::seen},
};

const FRAMES: u64 = 512;
/// Pages on the lists, and the number that CPU 0 isolates: more than an eighth of the others.
const PAGES: usize = 16;
const ISOLATED: usize = 8;

/// The owner of pages that cannot be locked: none is ever reclaimed.
struct Owner;

// SAFETY: this owner releases no page.
unsafe impl PageOwner<Simulated> for Owner {
    fn lock(&self, _: &[Pfn], _: &mut [Option<PageState>]) {}
    fn unlock(&self, _: &[Pfn]) {}
    fn referenced(&self, _: &[Pfn], _: &mut [Reference]) {}
    fn unmap(&self, _: &[Pfn], _: &mut Unmapping<'_, '_, '_, Simulated>, _: &mut [Unmapped]) {}
    fn write_out(&self, _: &[Pfn], _: &mut [WriteOut]) {}
    fn release(&self, _: &[Pfn], _: &[Shadow], _: &mut [Released]) {}
}

/// The wait queue of CPUs that pause. It has no time limit.
struct Waits<'w>(OneThread<(&'w Machine, WaitQueue, Option<Bug>)>);

impl Waits<'_> {
    fn cpu(&self) -> Cpu<'_> {
        self.0.get().0.current().expect("on a CPU")
    }
}

impl Relief for Waits<'_> {
    fn pause(&self, pause: &Pause<'_>) {
        let ((_, queue, bug), cpu) = (self.0.get(), self.cpu());
        if pause.why() != Throttle::Isolated {
            // No CPU ever makes progress here.
            return;
        }
        if *bug == Some(Bug::LostWakeUp) {
            if !pause.is_over() {
                cpu.step();
                cpu.wait_on(queue);
            }
            return;
        }
        while !pause.is_over() {
            cpu.wait_on(queue);
        }
    }

    fn resume(&self, _: NodeId, _: Throttle) {
        self.0.get().1.wake_all(self.cpu());
    }
}

/// CPU 0 isolates many pages for a short time, while CPUs 1 and 2 reclaim.
pub(in crate::scenario) fn run(machine: &Machine, bug: Option<Bug>) -> Verdict {
    let range = FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).expect("in order");
    let map = [MemoryRange::from(range)];
    let side_tables = SideTables::default().with_lru();
    let config = Config::new(&map, machine.cpus()).with_side_tables(side_tables);
    let mut metadata =
        MetadataBuffer::new(&Layout::new::<Simulated>(&config).expect("a small layout"));
    let relief = LentRelief::default();
    let platform = Simulated::new(machine, Settings::default()).with_relief(&relief);
    let memory = Memory::new(platform, &config, metadata.as_mut()).expect("a small memory");
    let waits = Waits(OneThread::new((machine, WaitQueue::default(), bug)));
    // SAFETY: the owner releases no page, and nothing is mapped.
    #[allow(unsafe_code)]
    let reclaim = unsafe { Reclaim::new(&memory, &Owner, &NoShootdown) }.expect("LRU lists");
    let page = Request::new(Order::ZERO, MigrateType::Movable);
    let pages: Vec<Pfn> = (0..PAGES)
        .map(|_| memory.alloc_bypassing_lists(page).expect("a frame of many").into_raw().0)
        .collect();
    let (lru, first) = (reclaim.lru(), framewright::CpuId::new(0));
    pages.iter().for_each(|&pfn| assert!(lru.add(first, pfn, PageKind::File)));
    lru.drain_all();
    let isolates = |cpu: Cpu<'_>| {
        let isolated = pages[..ISOLATED].iter().filter(|&&pfn| lru.isolate(pfn));
        let isolated: Vec<Pfn> = isolated.copied().collect();
        cpu.step();
        for pfn in isolated {
            // SAFETY: it was isolated above.
            #[allow(unsafe_code)]
            let is_back = unsafe { lru.put_back(pfn) };
            assert!(is_back, "a page was abandoned");
        }
    };
    let reclaims = |cpu: Cpu<'_>| {
        assert_eq!(reclaim.shrink_node(cpu.id(), NodeId::default(), 1), 0);
    };
    let programs = || machine.run(vec![Box::new(isolates), Box::new(reclaims), Box::new(reclaims)]);
    match relief.lend(&waits, programs) {
        Ok(()) => Verdict::Clean,
        Err(Failure::Deadlock) => seen(Symptom::LostWakeUp, "all pages are back on their lists"),
        Err(failure) => Verdict::Failed(failure),
    }
}
