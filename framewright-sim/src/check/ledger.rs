//! The holder of each frame, as the programs report it.

use crate::engine::Cpu;
use framewright::{Order, Pfn};
use std::cell::{Cell, RefCell};

/// The holder of each frame, in two bytes per frame. The run fails if an allocated frame is already
/// held by a CPU, or if a freed frame is held by none.
#[derive(Default)]
pub struct Ledger {
    /// By frame number: the CPU that got it, plus one.
    holders: RefCell<Vec<u16>>,
    held: Cell<u64>,
}

impl Ledger {
    /// A ledger without held frames.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of frames that programs hold.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held.get()
    }

    /// Records that `cpu` allocated 2^`order` frames at `pfn`.
    pub fn take(&self, cpu: Cpu<'_>, pfn: Pfn, order: Order) {
        let wrong = self.exchange(pfn, order, |holder| *holder == 0, cpu.id().get() + 1);
        if let Some((pfn, holder)) = wrong {
            cpu.fail(format!("frame {pfn:#x} was allocated while CPU {} held it", holder - 1));
        }
        self.held.set(self.held.get() + order.frames());
    }

    /// Records that `cpu` is about to free 2^`order` frames at `pfn`. Another CPU may have
    /// allocated them.
    pub fn give(&self, cpu: Cpu<'_>, pfn: Pfn, order: Order) {
        if let Some((pfn, _)) = self.exchange(pfn, order, |holder| *holder != 0, 0) {
            cpu.fail(format!("frame {pfn:#x} is freed, but no CPU holds it"));
        }
        self.held.set(self.held.get() - order.frames());
    }

    /// Sets the holder of all frames of a block. If `is_expected` rejects the current holder of a
    /// frame, changes nothing, and returns that frame and its holder.
    fn exchange(
        &self,
        pfn: Pfn,
        order: Order,
        is_expected: impl Fn(&u16) -> bool,
        holder: u16,
    ) -> Option<(u64, u16)> {
        let mut holders = self.holders.borrow_mut();
        let (start, end) = (pfn.get() as usize, (pfn.get() + order.frames()) as usize);
        if end > holders.len() {
            holders.resize(end.next_power_of_two(), 0);
        }
        let frames = &mut holders[start..end];
        if let Some(place) = frames.iter().position(|holder| !is_expected(holder)) {
            return Some((pfn.get() + place as u64, frames[place]));
        }
        frames.fill(holder);
        None
    }
}
