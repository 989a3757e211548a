//! CPU numbers.

/// A CPU of the machine, numbered from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct CpuId(u16);

impl CpuId {
    /// CPU `number`.
    #[must_use]
    pub const fn new(number: u16) -> Self {
        Self(number)
    }

    /// The number of the CPU.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The number of the CPU as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
