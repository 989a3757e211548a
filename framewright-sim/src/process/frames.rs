//! Where processes get their frames, and give them back.

#![allow(unsafe_code)]

use framewright::{CpuToken, MigrateType, Order, Pfn, Platform, Request};

use crate::engine::Cpu;

/// What a process wants a frame for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// A page of a program: can be moved.
    Page,
    /// A page table: cannot.
    Table,
}

/// An allocator of single frames, as one CPU sees it.
pub trait FrameSource {
    /// A cleared frame, if there is one.
    fn take(&mut self, cpu: Cpu<'_>, purpose: Purpose) -> Option<u32>;

    /// Gives frames back that [`FrameSource::take`] handed out, to whichever CPU.
    fn give(&mut self, cpu: Cpu<'_>, frames: &[u32]);
}

/// The library: a CPU's token.
impl<P: Platform> FrameSource for CpuToken<'_, '_, P> {
    fn take(&mut self, _cpu: Cpu<'_>, purpose: Purpose) -> Option<u32> {
        let migratetype = match purpose {
            Purpose::Page => MigrateType::Movable,
            Purpose::Table => MigrateType::Unmovable,
        };
        let block = self.alloc(Request::new(Order::ZERO, migratetype).zeroed()).ok()?;
        let (pfn, _) = block.into_raw();
        Some(u32::try_from(pfn.get()).expect("a simulated machine has less than 16 TiB"))
    }

    fn give(&mut self, _cpu: Cpu<'_>, frames: &[u32]) {
        for &frame in frames {
            // SAFETY: `take` took the block apart, with this order, and whoever gives the frame
            // back no longer uses it.
            let block = unsafe { self.adopt_unchecked(Pfn::new(u64::from(frame)), Order::ZERO) };
            // Made by this token, so it is never given back.
            let _ = self.free(block);
        }
    }
}
