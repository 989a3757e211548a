//! The costs of flushes: each cycle that a CPU spends on flushes counts once.

use std::cell::Cell;

use framewright::{
    Config, FrameRange, Layout, Memory, Pfn,
    tlb::{CpuMask, Scope},
};

use super::super::shootdown::Counted;
use crate::{
    engine::{Cpu, Machine, Model, Options, Program},
    platform::{MetadataBuffer, Settings, Simulated},
    process::{AddressSpace, Costs, Mmu},
};

/// Cycles of sending, arrival, entry and acknowledgement of an interrupt.
const MODEL: [u64; 4] = [10, 1_000, 200, 30];
const FLUSH_PAGE: u64 = 5_000;

/// Cycles of flushes by the statistics, and cycles for which each of two CPUs was in its flush. The first `senders`
/// CPUs flush a page on the other CPU; all run one process.
fn flushed(senders: u16) -> (u64, [u64; 2]) {
    let [send, arrive_local, entry, acknowledge] = MODEL;
    let model = Model { send, arrive_local, entry, acknowledge, ..Model::free(2) };
    let machine = Machine::modelled(model, Options::default());
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(512)).unwrap().into()];
    let config = Config::new(&map, 2);
    let mut metadata = MetadataBuffer::new(&Layout::new::<Simulated>(&config).unwrap());
    let platform = Simulated::new(&machine, Settings::default());
    let memory = Memory::new(platform, &config, metadata.as_mut()).unwrap();
    let mmu = Mmu::measuring(2, Costs { flush_page: FLUSH_PAGE, switch: 0, ..Costs::default() });
    let space = AddressSpace::new(&mmu);
    let counted = Counted::new(&memory, &mmu);
    let took = [const { Cell::new(0) }; 2];
    let flush = |cpu: Cpu<'_>, took: &Cell<u64>| {
        let mut others = CpuMask::from_words(&[0b11]);
        others.remove(cpu.id());
        let page = Scope::Pages { space: space.id().number(), first: 0, pages: 1 };
        let began = cpu.now();
        // SAFETY: the units of this machine cache translations, and nothing else does.
        #[allow(unsafe_code)]
        unsafe { memory.flusher(cpu.id(), &counted) }.flush(&others, page);
        took.set(cpu.now() - began);
    };
    let programs = took.iter().map(|took| -> Program<'_> {
        Box::new(|cpu| {
            space.load(cpu);
            cpu.work(1_000);
            cpu.step();
            match cpu.id().get() < senders {
                true => flush(cpu, took),
                false => cpu.sleep_until(100_000),
            }
        })
    });
    machine.run(programs.collect()).unwrap();
    (counted.costs().cycles, took.map(Cell::into_inner))
}

/// Cycles of a handler, and of a flush whose sender waits for it.
fn expected() -> (u64, u64) {
    let [send, arrival, entry, acknowledge] = MODEL;
    let handler = entry + FLUSH_PAGE + acknowledge;
    (handler, send + arrival + handler)
}

#[test]
fn a_flush_costs_the_time_of_its_sender_and_that_of_the_handler() {
    let (cycles, took) = flushed(1);
    let (handler, flush) = expected();
    assert_eq!((cycles, took), (flush + handler, [flush, 0]));
}

#[test]
fn a_handler_that_interrupts_a_waiting_sender_costs_nothing_more() {
    let (cycles, took) = flushed(2);
    let (_, flush) = expected();
    assert_eq!((cycles, took), (2 * flush, [flush; 2]));
}
