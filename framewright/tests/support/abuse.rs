//! Frees that must be refused, at `checked`, `tracked` and `paranoid`.

use framewright::{FreeError, Order, Pfn};

use super::{machine::cpu, steps::Step, world::World, zone::Frame};

impl World<'_, '_> {
    pub(super) fn free_twice(&mut self, step: Step) {
        let Some(i) = usize::from(step.pick).checked_rem(self.freed.len()) else { return };
        let (pfn, order) = self.freed[i];
        // If a frame was allocated again meanwhile, the free would look like a free by the new
        // owner.
        if !(0..order.frames()).any(|i| self.oracle.at(pfn.offset(i)) == Frame::Used) {
            self.abuse(step, pfn, order);
        }
    }

    pub(super) fn free_wrong_order(&mut self, step: Step) {
        let Some(i) = usize::from(step.pick).checked_rem(self.blocks.len()) else { return };
        let (pfn, order) = (self.blocks[i].pfn(), self.blocks[i].order());
        if step.order() != order {
            self.abuse(step, pfn, step.order());
        }
    }

    pub(super) fn free_anywhere(&mut self, step: Step) {
        let (pfn, order) = (self.oracle.some_frame(step.pick), step.order());
        // Any part of an extent may be freed.
        let in_extent = self.extents.iter().any(|extent| extent.range().contains(pfn));
        let is_right =
            in_extent || self.blocks.iter().any(|b| b.pfn() == pfn && b.order() == order);
        if !is_right {
            self.abuse(step, pfn, order);
        }
    }

    /// Attempts a raw free that must be refused at the call. At `checked`, frames may be on lists
    /// of other CPUs or in the depot. Then the free may be refused only when it reaches the zone.
    fn abuse(&mut self, step: Step, pfn: Pfn, order: Order) {
        self.memory.platform().take_reports();
        let others_hold_nothing = step.flags & 128 == 0;
        if others_hold_nothing {
            let own = self.online_cpu(step);
            let others = (0..self.memory.cpu_count()).filter(|&i| i != own);
            others.for_each(|i| self.memory.drain_cpu(cpu(i)).unwrap());
        }
        let in_zone = others_hold_nothing && self.memory.zones().all(|zone| zone.in_depot == 0);
        let at_once = self.tracked || in_zone;
        // SAFETY: violated on purpose; the library must refuse the free from `checked` on. The
        // frames do not exist.
        let result = unsafe { self.token(step).free_raw(pfn, order) };
        assert!(!at_once || result.is_err(), "{order:?} at {pfn} was not refused at once");
        self.drain_all();
        let reports = self.memory.platform().take_reports();
        if !pfn.is_aligned(order) {
            assert_eq!(result, Err(FreeError::Misaligned));
        } else if self.oracle.zone_of_block(pfn, order).is_none() {
            assert_eq!(result, Err(FreeError::NotOurs));
        } else {
            let reported: u32 = reports.iter().map(|report| report.count).sum();
            assert_eq!(reported, 1, "{order:?} at {pfn}: {result:?}, {reports:?}");
        }
    }
}
