//! Errors as numbers, each with a text.

use core::ffi::{CStr, c_char};

use framewright::{
    AllocError, CpuError, FreeError, HotplugError, InitError, RangeError, global::GlobalError,
};

/// The result of a call. A refused call changes nothing.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FwError {
    /// No error.
    None = 0,
    /// The memory is not initialised: the pointer is NULL, or points to a buffer that is still zero, or `fw_memory_end`
    /// was called.
    NotInitialised = 1,
    /// A pointer that must not be NULL is NULL.
    NullArgument = 2,
    /// `struct fw_platform` lacks `pin` or `corruption`, or has only one of `irq_save` and `irq_restore`.
    NoFunction = 3,
    /// Zeroed frames were requested, but `struct fw_platform` has no `address`.
    NotMapped = 4,
    /// The order is too high.
    BadOrder = 5,
    /// There is no such migratetype.
    BadMigratetype = 6,
    /// There is no such flag, or the call does not take it.
    BadFlags = 7,
    /// There is no such node, or `fw_alloc_frames` got FW_FLAG_THIS_NODE without a node.
    BadNode = 8,
    /// There is no such kind of zone.
    BadZone = 9,
    /// There is no such presence.
    BadPresence = 10,
    /// There is no such setting, or it does not take the value.
    BadSetting = 11,
    /// The end of the range is below its start, or beyond the highest frame number.
    BadRange = 12,
    /// The memory map has too many ranges.
    TooManyRanges = 13,

    /// The number of CPUs is 0.
    NoCpus = 20,
    /// The number of CPUs is too high.
    TooManyCpus = 21,
    /// All ranges of the memory map are absent: no memory is present, in use, or added in pieces.
    NoMemory = 22,
    /// The number of distances is not the square of the number of nodes.
    BadDistances = 23,
    /// An absent range does not consist of whole pageblocks.
    AbsentNotWhole = 24,
    /// A range is empty.
    EmptyRange = 25,
    /// A range of the memory map starts below the one before.
    Unsorted = 26,
    /// A range of the memory map overlaps the one before.
    Overlapping = 27,
    /// A range of the memory map reaches beyond the highest frame number.
    AddressTooHigh = 28,
    /// The setting `owner_lock=biased` needs `remote_barrier`.
    NoRemoteBarrier = 29,
    /// The settings `hardening=tracked` and `owner_lock=biased` exclude each other.
    TrackedAndBiased = 30,
    /// The memory map spans too many frames.
    SpanTooLarge = 31,
    /// The buffer is too small.
    BufferTooSmall = 32,
    /// The buffer is not aligned as needed.
    BufferMisaligned = 33,

    /// The memory was made for fewer CPUs.
    NoSuchCpu = 40,
    /// The CPU is in use.
    CpuInUse = 41,
    /// The CPU is offline.
    CpuOffline = 42,

    /// Out of memory: fewer frames would stay free than the request must leave free.
    BelowWatermark = 50,
    /// There is enough free memory, but no free block of the order.
    NoBlockOfOrder = 51,
    /// Requests cannot ask for this migratetype.
    NotRequestable = 52,
    /// None of the zones that the request can use has memory.
    NoZone = 53,
    /// No run of free frames is long enough, or allocating it would violate a watermark.
    NotFound = 54,

    /// The frames are not present memory of one zone of this memory.
    NotOurs = 60,
    /// A block of this order cannot start at this frame.
    Misaligned = 61,
    /// Frames are free already.
    AlreadyFree = 62,
    /// No allocated block starts at this frame.
    NotAllocated = 63,
    /// The block at this frame has another order.
    WrongOrder = 64,

    /// The range does not consist of whole pageblocks. Other ranges are possible only within a range that is added in
    /// pieces.
    NotWhole = 70,
    /// The memory map does not name the whole range as memory of one zone that may be added or removed.
    NotInMap = 71,
    /// Memory of the range is present already.
    Present = 72,
    /// Memory of the range is not present.
    Absent = 73,
    /// A pageblock of the range is isolated by another caller.
    Isolated = 74,
    /// Frames of the range are in use.
    Busy = 75,

    /// `fw_check` found an invariant that does not hold.
    Violation = 80,
    /// An error for which this version of the interface has no number.
    Other = 81,
}

/// Every error, for the search by number.
const ALL: &[(FwError, &CStr)] = &[
    (FwError::None, c"no error"),
    (FwError::NotInitialised, c"the memory is not initialised: call fw_memory_init first"),
    (FwError::NullArgument, c"a pointer that must not be NULL is NULL"),
    (
        FwError::NoFunction,
        c"struct fw_platform needs pin and corruption, and irq_save and irq_restore both or neither",
    ),
    (FwError::NotMapped, c"zeroed frames need the function address of struct fw_platform"),
    (FwError::BadOrder, c"the order is too high: the highest is FW_MAX_ORDER"),
    (FwError::BadMigratetype, c"there is no such migratetype: see enum fw_migratetype"),
    (FwError::BadFlags, c"there is no such flag, or the call does not take it"),
    (FwError::BadNode, c"there is no such node: nodes are numbered from 0 to 63"),
    (FwError::BadZone, c"there is no such kind of zone: see enum fw_zone"),
    (FwError::BadPresence, c"there is no such presence: see enum fw_presence"),
    (FwError::BadSetting, c"there is no such setting, or it does not take the value"),
    (FwError::BadRange, c"the range ends below its start, or beyond the highest frame number"),
    (FwError::TooManyRanges, c"the memory map has more than FW_MAX_RANGES ranges"),
    (FwError::NoCpus, c"a memory needs at least one CPU"),
    (FwError::TooManyCpus, c"a memory has at most FW_MAX_CPUS CPUs"),
    (FwError::NoMemory, c"the memory map has no memory that is present or added in pieces"),
    (FwError::BadDistances, c"the number of distances is not the square of the number of nodes"),
    (FwError::AbsentNotWhole, c"an absent range does not consist of whole pageblocks"),
    (FwError::EmptyRange, c"the range is empty"),
    (FwError::Unsorted, c"a range of the memory map starts below the one before"),
    (FwError::Overlapping, c"a range of the memory map overlaps the one before"),
    (FwError::AddressTooHigh, c"a range of the memory map reaches beyond the highest frame number"),
    (
        FwError::NoRemoteBarrier,
        c"owner_lock=biased needs the function remote_barrier of struct fw_platform",
    ),
    (FwError::TrackedAndBiased, c"hardening=tracked needs owner_lock=auto or trylock"),
    (FwError::SpanTooLarge, c"the memory map spans more than 16 TiB minus 2 GiB"),
    (FwError::BufferTooSmall, c"the buffer is too small: fw_memory_size computes the size"),
    (
        FwError::BufferMisaligned,
        c"the buffer is not aligned: fw_memory_size computes the alignment",
    ),
    (FwError::NoSuchCpu, c"the memory was made for fewer CPUs: the number of the CPU is too high"),
    (FwError::CpuInUse, c"the CPU is in use"),
    (FwError::CpuOffline, c"the CPU is offline"),
    (FwError::BelowWatermark, c"out of memory: the request would go below a watermark"),
    (FwError::NoBlockOfOrder, c"no free block of the order: free memory is too fragmented"),
    (FwError::NotRequestable, c"requests may not ask for this migratetype"),
    (FwError::NoZone, c"no zone has memory that the request could use"),
    (FwError::NotFound, c"no run of free frames above the watermark is long enough"),
    (FwError::NotOurs, c"the frames are not present memory of one zone of this memory"),
    (FwError::Misaligned, c"a block of this order cannot start at this frame"),
    (FwError::AlreadyFree, c"frames are free already"),
    (FwError::NotAllocated, c"no allocated block starts at this frame"),
    (FwError::WrongOrder, c"the block at this frame has another order"),
    (FwError::NotWhole, c"the range neither consists of whole pageblocks nor lies within a range that is added in pieces"),
    (FwError::NotInMap, c"the memory map has no such memory in one zone"),
    (FwError::Present, c"memory of the range is present already"),
    (FwError::Absent, c"memory of the range is not present"),
    (FwError::Isolated, c"a pageblock of the range is isolated by another caller"),
    (FwError::Busy, c"frames of the range are in use"),
    (FwError::Violation, c"an invariant of the memory does not hold"),
    (FwError::Other, c"an error for which this version of the interface has no number"),
];

/// The text of an error, of static lifetime, never NULL. A number that is not an error has a text, too.
#[unsafe(no_mangle)]
pub extern "C" fn fw_error_text(error: u32) -> *const c_char {
    let named = ALL.iter().find(|(named, _)| *named as u32 == error);
    named.map_or(c"this number is not an error", |(_, text)| *text).as_ptr()
}

impl From<Result<(), FwError>> for FwError {
    #[inline(always)]
    fn from(result: Result<(), FwError>) -> Self {
        result.err().unwrap_or(FwError::None)
    }
}

/// An error, and the place or the number that explains it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorAt {
    pub(crate) error: FwError,
    pub(crate) at: u64,
}

impl From<FwError> for ErrorAt {
    fn from(error: FwError) -> Self {
        Self { error, at: 0 }
    }
}

impl From<InitError> for ErrorAt {
    fn from(error: InitError) -> Self {
        let (error, at) = match error {
            InitError::NoCpus => (FwError::NoCpus, 0),
            InitError::TooManyCpus { given } => (FwError::TooManyCpus, u64::from(given)),
            InitError::BadTuning { .. } => (FwError::BadSetting, 0),
            InitError::NoMemory => (FwError::NoMemory, 0),
            InitError::BadDistances { given, .. } => (FwError::BadDistances, given as u64),
            InitError::AbsentNotWhole { index } => (FwError::AbsentNotWhole, index as u64),
            InitError::EmptyRange { index } => (FwError::EmptyRange, index as u64),
            InitError::Unsorted { index } => (FwError::Unsorted, index as u64),
            InitError::Overlapping { index } => (FwError::Overlapping, index as u64),
            InitError::AddressTooHigh { index } => (FwError::AddressTooHigh, index as u64),
            InitError::NoRemoteBarrier => (FwError::NoRemoteBarrier, 0),
            InitError::TrackedAndBiased => (FwError::TrackedAndBiased, 0),
            InitError::SpanTooLarge => (FwError::SpanTooLarge, 0),
            InitError::MetadataTooSmall { needed, .. } => (FwError::BufferTooSmall, needed as u64),
            InitError::MetadataMisaligned { align } => (FwError::BufferMisaligned, align as u64),
            _ => (FwError::Other, 0),
        };
        Self { error, at }
    }
}

impl From<CpuError> for FwError {
    fn from(error: CpuError) -> Self {
        match error {
            CpuError::NoSuchCpu(_) => FwError::NoSuchCpu,
            CpuError::InUse(_) => FwError::CpuInUse,
            CpuError::Offline(_) => FwError::CpuOffline,
            _ => FwError::Other,
        }
    }
}

impl From<GlobalError> for FwError {
    fn from(error: GlobalError) -> Self {
        match error {
            GlobalError::NotInitialised => FwError::NotInitialised,
            GlobalError::Cpu(error) => error.into(),
            GlobalError::Alloc(error) => error.into(),
            _ => FwError::Other,
        }
    }
}

impl From<AllocError> for FwError {
    fn from(error: AllocError) -> Self {
        match error {
            AllocError::BelowWatermark(_) => FwError::BelowWatermark,
            AllocError::NoBlockOfOrder(_) => FwError::NoBlockOfOrder,
            AllocError::NotRequestable(_) => FwError::NotRequestable,
            AllocError::NoZone => FwError::NoZone,
            _ => FwError::Other,
        }
    }
}

impl From<FreeError> for FwError {
    fn from(error: FreeError) -> Self {
        match error {
            FreeError::NotOurs => FwError::NotOurs,
            FreeError::Misaligned => FwError::Misaligned,
            FreeError::AlreadyFree => FwError::AlreadyFree,
            FreeError::NotAllocated => FwError::NotAllocated,
            FreeError::WrongOrder => FwError::WrongOrder,
            _ => FwError::Other,
        }
    }
}

impl From<RangeError> for ErrorAt {
    fn from(error: RangeError) -> Self {
        let (error, at) = match error {
            RangeError::Empty => (FwError::EmptyRange, 0),
            RangeError::NotOurs => (FwError::NotOurs, 0),
            RangeError::NotRequestable(_) => (FwError::NotRequestable, 0),
            RangeError::Isolated { at } => (FwError::Isolated, at.get()),
            RangeError::Busy { frames } => (FwError::Busy, frames),
            RangeError::NotFound => (FwError::NotFound, 0),
            RangeError::BadFree { at, why } => (why.into(), at.get()),
            _ => (FwError::Other, 0),
        };
        Self { error, at }
    }
}

impl From<HotplugError> for ErrorAt {
    fn from(error: HotplugError) -> Self {
        let (error, at) = match error {
            HotplugError::NotWhole => (FwError::NotWhole, 0),
            HotplugError::NotInMap => (FwError::NotInMap, 0),
            HotplugError::Present { at } => (FwError::Present, at.get()),
            HotplugError::Absent { at } => (FwError::Absent, at.get()),
            HotplugError::Isolated { at } => (FwError::Isolated, at.get()),
            HotplugError::Busy { frames } => (FwError::Busy, frames),
            _ => (FwError::Other, 0),
        };
        Self { error, at }
    }
}
