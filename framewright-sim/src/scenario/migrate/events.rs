//! The operations of CPU 1 on pages that are being migrated.

#![allow(unsafe_code)]

use framewright::{CpuToken, Order, Pfn};

use super::{Fixture, NEIGHBOURS, PAGES, step::Event};
use crate::{engine::Cpu, platform::Simulated, process::Symptom, scenario::Bug};

/// Repetitions of an event.
const TIMES: u32 = 6;
/// The number of steps for which the owner refuses.
const REFUSED_STEPS: u32 = 4;

/// The number of steps for which a page stays pinned or in write-out, or by which an event is
/// delayed. It varies from less than one step of the migration to all its steps.
const fn varied_steps(nth: u32) -> u32 {
    4 << (2 * (nth / PAGES))
}

impl<'m> Fixture<'_, 'm> {
    /// Triggers the event repeatedly while pages are claimed.
    pub(super) fn trigger(&self, cpu: Cpu<'_>, event: Event) {
        match event {
            Event::Refused => (0..TIMES).for_each(|nth| self.refuse(cpu, nth)),
            Event::Pinned => (0..TIMES).for_each(|nth| self.pin(cpu, nth)),
            Event::WriteFails => (0..TIMES).for_each(|nth| self.fail_to_write(cpu, nth)),
            Event::Unmapped => (0..PAGES).for_each(|nth| self.unmap(cpu, nth)),
            Event::Neighbour => {
                NEIGHBOURS.into_iter().for_each(|frame| self.free_neighbour(cpu, frame));
            }
        }
    }

    /// Waits until a page is claimed, or the migration has ended.
    fn wait_for_claims(&self, cpu: Cpu<'_>) {
        while self.owner.mover.claimed() == 0 && !self.ended.get() {
            cpu.relax();
        }
        cpu.step();
    }

    fn refuse(&self, cpu: Cpu<'_>, nth: u32) {
        // Every other time, the refusal may begin before anything is claimed.
        if nth % 2 == 1 {
            self.wait_for_claims(cpu);
        }
        self.owner.refuses.set(true);
        (0..REFUSED_STEPS).for_each(|_| cpu.step());
        self.owner.refuses.set(false);
        (0..REFUSED_STEPS).for_each(|_| cpu.step());
    }

    fn pin(&self, cpu: Cpu<'_>, nth: u32) {
        self.wait_for_claims(cpu);
        let on_frame = |frame| self.owner.record_event(frame);
        let Some(pin) = self.owner.pin(cpu, nth % PAGES, on_frame) else { return };
        (0..varied_steps(nth)).for_each(|_| cpu.step());
        self.owner.unpin(cpu, pin);
    }

    fn fail_to_write(&self, cpu: Cpu<'_>, nth: u32) {
        self.wait_for_claims(cpu);
        let Some(hold) = self.owner.write(cpu, nth % PAGES) else { return };
        (0..varied_steps(nth)).for_each(|_| cpu.step());
        self.owner.fail(cpu, hold);
    }

    /// Unmaps a page. Its frame goes to the lists of the CPU, unless the page is claimed.
    fn unmap(&self, cpu: Cpu<'_>, nth: u32) {
        let page = PAGES - 1 - nth;
        self.wait_for_claims(cpu);
        (0..varied_steps(PAGES * (1 + nth))).for_each(|_| cpu.step());
        let mut token = self.token(cpu);
        let on_frame = |frame| self.owner.record_event(frame);
        let free = &mut |frame| self.free(cpu, &mut token, frame);
        self.owner.mover.unmap_page(cpu, self.process, page, on_frame, free);
    }

    /// Frees the frame whose number follows that of a possible migration target.
    fn free_neighbour(&self, cpu: Cpu<'_>, frame: u64) {
        self.wait_for_claims(cpu);
        let target = frame as u32 - 1;
        let is_target = self.owner.step_of_target(target).is_some();
        self.oracle().freed(cpu, frame as u32);
        let mut token = self.token(cpu);
        self.free(cpu, &mut token, Pfn::new(frame));
        if is_target && self.bug == Some(Bug::TargetFreed) {
            self.free(cpu, &mut token, Pfn::new(target.into()));
        }
        // The drain merges the frame with its neighbours in the zone.
        token.drain();
        if let Some(step) = self.owner.step_of_target(target) {
            self.owner.count_event_at(step);
        }
    }

    fn token(&self, cpu: Cpu<'_>) -> CpuToken<'_, 'm, Simulated> {
        self.memory.cpu(cpu.id()).expect("the token of the CPU is free")
    }

    /// Frees an unused frame.
    fn free(&self, cpu: Cpu<'_>, token: &mut CpuToken<'_, 'm, Simulated>, frame: Pfn) {
        // SAFETY: the frame is the caller's, as a block of order 0, and no CPU accesses it any
        // more. A seeded bug may violate this; no other memory is affected.
        if let Err(error) = unsafe { token.free_raw(frame, Order::ZERO) } {
            self.oracle().see(cpu, Symptom::FreedTwice, &error.to_string());
        }
    }
}
