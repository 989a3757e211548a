//! The caller's wishes, read from `gfp_flags=GFP_KERNEL|__GFP_ZERO|…`.
//!
//! Only what a replay can honour is kept. The kernel prints greedily: composite names first, then
//! single bits, then a hexadecimal rest; numeric values move between releases and are ignored.

use std::ops::BitOr;

/// What a recorded allocation asked for, as far as it matters to an allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GfpFlags(u16);

impl GfpFlags {
    /// No wish at all: may not wait, may not dig into reserves.
    pub const NONE: Self = Self(0);
    /// The caller can wait for direct reclaim and compaction.
    pub const DIRECT_RECLAIM: Self = Self(1 << 0);
    /// The caller is urgent and may use part of the reserve (`GFP_ATOMIC`, `__GFP_HIGH`).
    pub const HIGH: Self = Self(1 << 1);
    /// The frames must be zeroed.
    pub const ZERO: Self = Self(1 << 2);
    /// Give up early.
    pub const NORETRY: Self = Self(1 << 3);
    /// Try hard, then fail.
    pub const RETRY_MAYFAIL: Self = Self(1 << 4);
    /// Never fail.
    pub const NOFAIL: Self = Self(1 << 5);
    /// May use all of the reserve: the allocation will free memory.
    pub const MEMALLOC: Self = Self(1 << 6);
    /// Only memory below 16 MiB will do.
    pub const DMA: Self = Self(1 << 7);
    /// Only memory below 4 GiB will do.
    pub const DMA32: Self = Self(1 << 8);
    /// Memory that the kernel does not map will do.
    pub const HIGHMEM: Self = Self(1 << 9);
    /// The contents can be moved.
    pub const MOVABLE: Self = Self(1 << 10);

    /// Are all flags of `other` set?
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Reads the kernel's text. Unknown names are later inventions and mean nothing here.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        let mut flags = Self::NONE;
        for name in text.split(|&byte| byte == b'|') {
            flags = flags | Self::named(name);
        }
        flags
    }

    fn named(name: &[u8]) -> Self {
        let user = Self::DIRECT_RECLAIM | Self::HIGHMEM;
        match name {
            b"GFP_KERNEL"
            | b"GFP_KERNEL_ACCOUNT"
            | b"GFP_USER"
            | b"GFP_NOFS"
            | b"GFP_NOIO"
            | b"__GFP_RECLAIM"
            | b"__GFP_DIRECT_RECLAIM" => Self::DIRECT_RECLAIM,
            b"GFP_HIGHUSER" => user,
            b"GFP_HIGHUSER_MOVABLE" | b"GFP_TRANSHUGE" => user | Self::MOVABLE,
            b"GFP_TRANSHUGE_LIGHT" => Self::HIGHMEM | Self::MOVABLE,
            b"GFP_ATOMIC" | b"__GFP_HIGH" => Self::HIGH,
            b"__GFP_ZERO" => Self::ZERO,
            b"__GFP_NORETRY" => Self::NORETRY,
            b"__GFP_RETRY_MAYFAIL" => Self::RETRY_MAYFAIL,
            b"__GFP_NOFAIL" => Self::NOFAIL,
            b"__GFP_MEMALLOC" => Self::MEMALLOC,
            b"GFP_DMA" | b"__GFP_DMA" => Self::DMA,
            b"GFP_DMA32" | b"__GFP_DMA32" => Self::DMA32,
            b"__GFP_HIGHMEM" => Self::HIGHMEM,
            b"__GFP_MOVABLE" => Self::MOVABLE,
            _ => Self::NONE,
        }
    }
}

impl BitOr for GfpFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn composite_names_and_single_bits_add_up() {
        let flags = GfpFlags::parse(b"GFP_NOFS|__GFP_HIGHMEM|__GFP_ZERO|__GFP_NORETRY|0x80");
        let wishes = GfpFlags::DIRECT_RECLAIM | GfpFlags::ZERO | GfpFlags::NORETRY;
        assert_eq!(flags, wishes | GfpFlags::HIGHMEM);
        assert!(flags.contains(GfpFlags::ZERO));
        assert!(!flags.contains(GfpFlags::NOFAIL));
    }

    #[test]
    fn who_cannot_wait_has_no_direct_reclaim() {
        for text in [&b"GFP_NOWAIT|__GFP_COMP"[..], b"none", b"", b"0x100"] {
            assert_eq!(GfpFlags::parse(text), GfpFlags::NONE, "{text:?}");
        }
        let light = GfpFlags::parse(b"GFP_TRANSHUGE_LIGHT");
        assert_eq!(light, GfpFlags::HIGHMEM | GfpFlags::MOVABLE);
        assert_eq!(GfpFlags::parse(b"GFP_ATOMIC"), GfpFlags::HIGH);
    }

    #[test]
    fn zones_are_told_by_composites_and_bits() {
        assert_eq!(GfpFlags::parse(b"GFP_DMA32"), GfpFlags::DMA32);
        let user = GfpFlags::parse(b"GFP_HIGHUSER_MOVABLE|__GFP_ZERO");
        assert!(user.contains(GfpFlags::HIGHMEM | GfpFlags::MOVABLE));
        assert!(!GfpFlags::parse(b"GFP_USER").contains(GfpFlags::HIGHMEM));
    }
}
