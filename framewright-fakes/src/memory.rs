//! Creation of memories, and short functions for tests.

use std::mem::MaybeUninit;

use framewright::{Block, Config, CpuId, Layout, Memory, Order, Pfn, Platform};

/// Creates an allocator that lives as long as the process.
///
/// # Panics
///
/// If the configuration is refused.
pub fn leaked<P: Platform>(platform: P, config: &Config<'_>) -> &'static Memory<'static, P> {
    let buffer = Box::leak(Box::new(Metadata::of::<P>(config))).as_mut();
    Box::leak(Box::new(Memory::new(platform, config, buffer).unwrap()))
}

/// The alignment of metadata, in bytes: two cache lines.
const ALIGN: usize = 128;

/// A buffer for metadata, aligned to two cache lines.
pub struct Metadata {
    /// The buffer, with space to align its start.
    buffer: Vec<MaybeUninit<u8>>,
    bytes: usize,
}

impl Metadata {
    /// A buffer for the metadata of a memory with this configuration.
    ///
    /// # Panics
    ///
    /// If the configuration is refused.
    #[must_use]
    pub fn of<P: Platform>(config: &Config<'_>) -> Self {
        Self::new(Layout::new::<P>(config).unwrap().bytes())
    }

    /// A buffer of `bytes` bytes. They are not zero, so that an allocator that relies on zeroes fails.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self { buffer: vec![MaybeUninit::new(0xa5); bytes + ALIGN], bytes }
    }
}

impl AsMut<[MaybeUninit<u8>]> for Metadata {
    fn as_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        let start = self.buffer.as_ptr().align_offset(ALIGN);
        &mut self.buffer[start..][..self.bytes]
    }
}

/// CPU `number`.
#[must_use]
pub fn cpu(number: u16) -> CpuId {
    CpuId::new(number)
}

/// Order `number`.
///
/// # Panics
///
/// If there is no such order.
#[must_use]
pub fn order(number: u8) -> Order {
    Order::new(number).expect("an order that exists")
}

/// The first frame and the order of a block. The block stays allocated.
#[must_use]
pub fn raw(block: &Block<'_>) -> (Pfn, Order) {
    (block.pfn(), block.order())
}

/// Asserts that no frame is in two of these blocks, given as first frame and order. Returns the number of their frames.
///
/// # Panics
///
/// If a frame is in two blocks.
pub fn assert_apart(blocks: impl IntoIterator<Item = (Pfn, Order)>) -> u64 {
    let mut blocks: Vec<(Pfn, Order)> = blocks.into_iter().collect();
    blocks.sort_unstable();
    for pair in blocks.windows(2) {
        let (first, order) = pair[0];
        assert!(first.offset(order.frames()) <= pair[1].0, "frame {} is in two blocks", pair[1].0);
    }
    blocks.iter().map(|(_, order)| order.frames()).sum()
}
