//! Who holds which frame, by what the programs say.

use crate::engine::Cpu;
use framewright::{Order, Pfn};
use std::cell::{Cell, RefCell};

/// Frames in the hands of programs, two bytes each. A frame that is handed out while somebody holds
/// it, or given back by somebody while nobody does, ends the run.
#[derive(Default)]
pub struct Ledger {
    /// By frame number: the CPU that got it, plus one.
    holders: RefCell<Vec<u16>>,
    held: Cell<u64>,
}

impl Ledger {
    /// Nobody holds anything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Frames that programs hold.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held.get()
    }

    /// `cpu` was handed 2^`order` frames.
    pub fn take(&self, cpu: Cpu<'_>, pfn: Pfn, order: Order) {
        let wrong = self.exchange(pfn, order, |holder| *holder == 0, cpu.id().get() + 1);
        if let Some((pfn, holder)) = wrong {
            cpu.fail(format!("frame {pfn:#x} was handed out while CPU {} held it", holder - 1));
        }
        self.held.set(self.held.get() + order.frames());
    }

    /// `cpu` is about to give 2^`order` frames back, whoever got them.
    pub fn give(&self, cpu: Cpu<'_>, pfn: Pfn, order: Order) {
        if let Some((pfn, _)) = self.exchange(pfn, order, |holder| *holder != 0, 0) {
            cpu.fail(format!("frame {pfn:#x} is given back and nobody holds it"));
        }
        self.held.set(self.held.get() - order.frames());
    }

    /// Makes `holder` the holder of all frames; the first that was not `right`, and who had it.
    fn exchange(
        &self,
        pfn: Pfn,
        order: Order,
        right: impl Fn(&u16) -> bool,
        holder: u16,
    ) -> Option<(u64, u16)> {
        let mut holders = self.holders.borrow_mut();
        let (start, end) = (pfn.get() as usize, (pfn.get() + order.frames()) as usize);
        if end > holders.len() {
            holders.resize(end.next_power_of_two(), 0);
        }
        let frames = &mut holders[start..end];
        if let Some(place) = frames.iter().position(|holder| !right(holder)) {
            return Some((pfn.get() + place as u64, frames[place]));
        }
        frames.fill(holder);
        None
    }
}
