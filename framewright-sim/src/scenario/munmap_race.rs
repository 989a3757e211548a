//! Unmapping pages that reclaim has unmapped already: their entries are clear, but TLBs still hold
//! their translations.
//!
//! Reclaim defers flushes until one serves many pages. A program that unmaps such a page reads a
//! clear entry. If it returns without a flush, the page can still be accessed.

use framewright::tuning::{FlushBatching, TlbTuning};

use super::{
    Bug, Verdict, environment,
    stand_in::{Disk, Reclaimer},
};
use crate::{
    engine::{Cpu, Machine},
    process::{
        Access::{Load, Store},
        Process,
    },
};

const PAGES: u32 = 3;
const FRAMES: u32 = 8;

/// CPU 0 unmaps a page. CPU 1 accesses it, and CPU 2 reclaims it with others.
pub(super) fn run(machine: &Machine, bug: Option<Bug>) -> Verdict {
    let mut tlb = TlbTuning::default();
    tlb.batching = FlushBatching::All;
    environment::with(machine, FRAMES, tlb, &|env| {
        let process = &Process::with_memory(&env.world.mmu, 0..PAGES);
        let disk = &Disk::new(PAGES);
        let reclaimer = &Reclaimer { env, process, disk, bug };
        let touch = |cpu: Cpu<'_>, page, access| {
            let _ = disk.touch(cpu, env, process, page, access);
        };
        env.world.run_holding(
            machine,
            vec![
                Box::new(|cpu| {
                    env.run_on(cpu, process);
                    touch(cpu, 1, Store);
                    unmap(cpu, reclaimer);
                    touch(cpu, 1, Load);
                }),
                Box::new(|cpu| {
                    env.run_on(cpu, process);
                    for access in [Store, Load, Load, Load, Load, Load, Store] {
                        touch(cpu, 0, access);
                    }
                }),
                Box::new(|cpu| {
                    env.run_on(cpu, process);
                    touch(cpu, 2, Store);
                    reclaimer.reclaim(cpu, &[0, 1, 2]);
                }),
            ],
            &[process],
            &|page, pte| disk.find(page, pte),
            &|| process.frames() + env.deferred(),
        )
    })
}

/// Unmaps page 0.
fn unmap(cpu: Cpu<'_>, reclaimer: &Reclaimer<'_, '_>) {
    let (process, env) = (reclaimer.process, reclaimer.env);
    process.disown(cpu, 0..1);
    let gathered = process.clear(cpu, &mut (0..1));
    if reclaimer.bug != Some(Bug::SkippedFlush) {
        env.flusher(cpu).flush_deferred(process.space().deferred_flush());
    }
    if !gathered.is_empty() {
        process.space().flush(cpu, gathered.len() as u64);
    }
    process.unreachable(0..1);
    process.release(cpu, &gathered, &mut &env.world.stack);
}
