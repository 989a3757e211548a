//! Extents: owned contiguous runs of any number of frames.

use core::fmt;

use super::{Block, FrameRange, MemoryTag, Order, Pfn};

/// A range of allocated frames, owned by the holder of this value.
///
/// An extent has any number of frames, where a [`Block`](super::Block) has a power of two. Like a block it is
/// moved, not copied, and freed to the memory it came from; but it may also be freed in parts. To keep it where no
/// Rust value can live, take it apart with [`Extent::into_raw`] and put it together again with
/// [`Memory::adopt_extent`](crate::Memory::adopt_extent). Its frames are not blocks and cannot be freed as blocks,
/// unless [`Memory::split_extent`](crate::Memory::split_extent) makes them blocks. Forgetting it leaks the frames.
///
/// # Example
///
/// ```
/// # use framewright::{Config, FrameRange, Pfn};
/// use framewright::{Contiguous, MigrateType};
///
/// # use framewright_fakes::{FakePlatform, leaked};
/// # let map = [FrameRange::new(Pfn::new(0), Pfn::new(8192)).unwrap().into()];
/// # let memory = leaked(FakePlatform::default(), &Config::new(&map, 1));
/// let run = memory.alloc_contiguous(&Contiguous::new(3000, MigrateType::Movable))?;
/// let middle = run.range().start().offset(1000);
/// let (first, rest) = run.split_at(middle).expect("both parts have frames");
/// memory.free_extent(first).expect("of this memory");
/// assert_eq!(rest.range().frames(), 2000);
/// memory.free_extent(rest).expect("of this memory");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the frames stay allocated until the extent is freed"]
#[derive(PartialEq, Eq)]
pub struct Extent<'m> {
    memory: MemoryTag<'m>,
    range: FrameRange,
}

impl<'m> Extent<'m> {
    /// An extent of frames that the caller has just taken from the memory.
    pub(crate) fn new(memory: MemoryTag<'m>, range: FrameRange) -> Self {
        Self { memory, range }
    }

    /// The frames of the extent.
    #[must_use]
    pub fn range(&self) -> FrameRange {
        self.range
    }

    /// Takes the extent apart and returns its frames. They stay allocated, and the caller has to
    /// free them.
    #[must_use = "the frames are leaked unless they are adopted"]
    pub fn into_raw(self) -> FrameRange {
        self.range
    }

    /// Whether the extent belongs to a memory.
    pub(crate) fn belongs_to(&self, memory: MemoryTag<'m>) -> bool {
        self.memory == memory
    }

    /// Splits the extent at frame `at`. Returns the frames below `at`, and the frames from `at` on.
    ///
    /// # Errors
    ///
    /// The extent is returned unchanged if one of the two parts would be empty.
    pub fn split_at(self, at: Pfn) -> Result<(Self, Self), Self> {
        let inside = self.range.start() < at && at < self.range.end();
        let low = FrameRange::new(self.range.start(), at);
        let high = FrameRange::new(at, self.range.end());
        match (inside, low, high) {
            (true, Some(low), Some(high)) => {
                Ok((Self::new(self.memory, low), Self::new(self.memory, high)))
            }
            _ => Err(self),
        }
    }
}

/// The frames of an [extent](crate::Memory::split_extent) or [block](crate::Memory::split_block) that was split,
/// ascending: blocks of order 0.
#[must_use = "frames that are not taken from the iterator stay allocated"]
#[derive(Debug)]
pub struct SingleFrames<'m>(Extent<'m>);

impl<'m> SingleFrames<'m> {
    /// The frames of an extent that are single blocks from now on.
    pub(crate) fn of(extent: Extent<'m>) -> Self {
        Self(extent)
    }

    /// The frames that are left, as numbers. They stay allocated, each as a block of order 0, and the caller has to
    /// free them.
    #[must_use = "the frames are leaked unless they are freed raw"]
    pub fn into_raw(self) -> FrameRange {
        self.0.range
    }
}

impl<'m> Iterator for SingleFrames<'m> {
    type Item = Block<'m>;

    fn next(&mut self) -> Option<Block<'m>> {
        let Extent { memory, range } = self.0;
        let first = range.start();
        self.0.range = FrameRange::new(first.offset(1), range.end())?;
        Some(Block::new(memory, first, Order::ZERO))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len(), Some(self.len()))
    }
}

impl ExactSizeIterator for SingleFrames<'_> {
    fn len(&self) -> usize {
        self.0.range.frames() as usize
    }
}

impl DoubleEndedIterator for SingleFrames<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let Extent { memory, range } = self.0;
        let last = Pfn::new(range.end().get().checked_sub(1)?);
        self.0.range = FrameRange::new(range.start(), last)?;
        Some(Block::new(memory, last, Order::ZERO))
    }
}

impl fmt::Debug for Extent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "extent {:?}", self.range)
    }
}
