//! The source of frames for processes.

use std::{cell::RefCell, collections::BTreeMap};

use framewright::{Block, CpuToken, MigrateType, Order, Platform, Request};

use crate::engine::Cpu;

/// The use of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// A page of a program: movable.
    Page,
    /// A page table: unmovable.
    Table,
}

/// An allocator of single frames, for one CPU.
pub trait FrameSource {
    /// Allocates a cleared frame, if there is one.
    fn take(&mut self, cpu: Cpu<'_>, purpose: Purpose) -> Option<u32>;

    /// Frees frames from [`FrameSource::take`]. Another CPU may have allocated them.
    fn give(&mut self, cpu: Cpu<'_>, frames: &[u32]);
}

/// The blocks of frames that processes use, by frame number, so that any CPU can free a frame.
#[derive(Debug, Default)]
pub struct HeldFrames<'m>(RefCell<BTreeMap<u32, Block<'m>>>);

/// A source of frames from the library: the token of a CPU, and the blocks of all CPUs.
pub struct TokenFrames<'h, 'a, 'm, P: Platform> {
    token: CpuToken<'a, 'm, P>,
    held: &'h HeldFrames<'m>,
}

impl<'h, 'a, 'm, P: Platform> TokenFrames<'h, 'a, 'm, P> {
    /// A source of frames from the memory of `token`; `held` stores their blocks.
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
    /// If a frame was not taken, was freed already, or is of another memory.
    fn give(&mut self, _cpu: Cpu<'_>, frames: &[u32]) {
        for frame in frames {
            let block = self.held.0.borrow_mut().remove(frame).expect("a frame that was taken");
            self.token.free(block).expect("a frame of this memory");
        }
    }
}
