//! Owned blocks.
//!
//! A [`Block`] *is* the right to use 2^order frames. It is moved, never copied, and carries the
//! identity of the memory it came from, so that safe code cannot free a block twice, free a
//! part of one, or give it to another memory. Forgetting a block leaks its frames; it cannot
//! corrupt anything.

use core::{fmt, marker::PhantomData, num::NonZeroUsize};

use super::{Order, Pfn};

/// Identifies the memory of a block by the address of that memory's metadata.
///
/// Metadata is borrowed exclusively for `'m`, and the blocks have the lifetime `'m`. So while any
/// block is alive, no other memory can have its metadata at the same address, and equal tags mean
/// the same memory. No global counter of identities is needed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryTag<'m>(NonZeroUsize, PhantomData<&'m ()>);

impl MemoryTag<'_> {
    /// The tag of a memory with metadata at `address`.
    pub(crate) fn at(address: NonZeroUsize) -> Self {
        Self(address, PhantomData)
    }

    /// The address, to be compared while the memory is borrowed.
    pub(crate) fn address(self) -> NonZeroUsize {
        self.0
    }
}

/// 2^order allocated frames, owned by the holder of this value.
///
/// Free it with [`CpuToken::free`](crate::CpuToken::free). To keep it where no Rust value can live
/// (a page-table entry, a C structure), take it apart with [`Block::into_raw`] and put it together
/// again with [`CpuToken::adopt`](crate::CpuToken::adopt).
///
/// # Example
///
/// ```
/// # use framewright::{Config, CpuId, FrameRange, Pfn};
/// use framewright::{MigrateType, Order, Request};
///
/// # use framewright_fakes::{FakePlatform, leaked};
/// # let map = [FrameRange::new(Pfn::new(0), Pfn::new(8192)).unwrap().into()];
/// # let memory = leaked(FakePlatform::default(), &Config::new(&map, 1));
/// let mut cpu = memory.cpu(CpuId::new(0))?;
/// let block = cpu.alloc(Request::new(Order::new(3).unwrap(), MigrateType::Unmovable))?;
/// println!("{} frames from {}", block.order().frames(), block.pfn());
///
/// // A page-table entry can store only numbers.
/// let (pfn, order) = block.into_raw();
/// // SAFETY: the numbers are those of a block that nothing else owns or has freed.
/// let block = unsafe { cpu.adopt(pfn, order) }.expect("frames of this memory");
/// cpu.free(block).expect("of this memory");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a block that is dropped without being freed is leaked"]
#[derive(PartialEq, Eq)]
pub struct Block<'m> {
    memory: MemoryTag<'m>,
    /// Frame number above, order in the low byte. With the tag a block is two machine words, which
    /// are passed in registers.
    packed: u64,
}

const ORDER_BITS: u32 = 8;

impl<'m> Block<'m> {
    /// A block that the caller has just taken from the memory tagged `memory`.
    #[inline(always)]
    pub(crate) fn new(memory: MemoryTag<'m>, pfn: Pfn, order: Order) -> Self {
        Self { memory, packed: pfn.get() << ORDER_BITS | u64::from(order.get()) }
    }

    /// The first frame of the block.
    #[inline(always)]
    #[must_use]
    pub fn pfn(&self) -> Pfn {
        Pfn::new(self.packed >> ORDER_BITS)
    }

    /// The order of the block.
    #[inline(always)]
    #[must_use]
    pub fn order(&self) -> Order {
        Order::from_low_bits(self.packed)
    }

    /// The address in the tag of the block's memory.
    pub(crate) fn memory_address(&self) -> NonZeroUsize {
        self.memory.address()
    }

    /// Takes the block apart into first frame and order. The frames stay allocated, and the caller
    /// has to free them.
    #[must_use = "the frames are leaked unless they are adopted or freed raw"]
    pub fn into_raw(self) -> (Pfn, Order) {
        (self.pfn(), self.order())
    }

    #[inline(always)]
    pub(crate) fn belongs_to(&self, memory: MemoryTag<'m>) -> bool {
        self.memory == memory
    }
}

impl fmt::Debug for Block<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {:#x} of {:?}", self.pfn().get(), self.order())
    }
}
