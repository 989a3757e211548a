//! Sizes of compilers. `kbuild` and `high-alloc` run one compiler after the other: each reads
//! files, uses memory of its own, and writes an object.

/// Pages of the smallest compiler: 4 MiB.
pub const LEAST_PAGES: u32 = 1024;

/// Pages of the largest compiler: 48 MiB.
pub const MOST_PAGES: u32 = 12_288;

/// Files that are read for one compiler of `high-alloc`, or of `kbuild` in the kernel: a source and
/// 40 headers. In `high-alloc` they are anywhere in the tree: its recordings on Linux do not show
/// which files are headers. The workload requests huge pages in passes, and two of them run while the
/// compilers do. In the second pass the recorded kernels reclaimed 1,000 to 1,800 pages per second,
/// although the first pass had just freed all its memory. So nearly every file was read from the
/// device. If compilers read the same few files again and again, the simulation reclaims a seventh.
pub const READS: u32 = 41;

/// Pages of an object: 20 to 120 KiB.
pub const OBJECT_PAGES: core::ops::RangeInclusive<u32> = 5..=30;
