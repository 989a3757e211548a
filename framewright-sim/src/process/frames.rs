//! Where processes get their frames, and give them back.

use std::{cell::RefCell, collections::BTreeMap};

use framewright::{Block, CpuToken, MigrateType, Order, Platform, Request};

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

/// Blocks whose frames processes use, by frame number, so that any CPU can free a frame.
#[derive(Debug, Default)]
pub struct HeldFrames<'m>(RefCell<BTreeMap<u32, Block<'m>>>);

/// Frames from the library: the token of a CPU, and the blocks of all CPUs.
pub struct TokenFrames<'h, 'a, 'm, P: Platform> {
    token: CpuToken<'a, 'm, P>,
    held: &'h HeldFrames<'m>,
}

impl<'h, 'a, 'm, P: Platform> TokenFrames<'h, 'a, 'm, P> {
    /// Frames from the memory of `token`; `held` keeps their blocks.
    #[must_use]
    pub fn new(token: CpuToken<'a, 'm, P>, held: &'h HeldFrames<'m>) -> Self {
        Self { token, held }
    }
}

impl<P: Platform> FrameSource for TokenFrames<'_, '_, '_, P> {
    fn take(&mut self, _cpu: Cpu<'_>, purpose: Purpose) -> Option<u32> {
        let migratetype = match purpose {
            Purpose::Page => MigrateType::Movable,
            Purpose::Table => MigrateType::Unmovable,
        };
        let block = self.token.alloc(Request::new(Order::ZERO, migratetype).zeroed()).ok()?;
        let frame = u32::try_from(block.pfn().get());
        let frame = frame.expect("a simulated machine has less than 16 TiB");
        self.held.0.borrow_mut().insert(frame, block);
        Some(frame)
    }

    /// # Panics
    ///
    /// A frame was not taken, was given back already, or is of another memory.
    fn give(&mut self, _cpu: Cpu<'_>, frames: &[u32]) {
        for frame in frames {
            let block = self.held.0.borrow_mut().remove(frame).expect("a frame that was taken");
            self.token.free(block).expect("a frame of this memory");
        }
    }
}
