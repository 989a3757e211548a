//! The configuration of a memory, as C passes it.

use core::ffi::{CStr, c_char};

use framewright::{Config, FrameRange, MemoryRange, NodeId, Pfn, Presence, Tuning, ZoneKind};

use crate::error::{ErrorAt, FwError};

/// The highest number of ranges of a memory map.
pub const FW_MAX_RANGES: usize = 128;
/// The highest number of CPUs of a memory.
pub const FW_MAX_CPUS: u32 = 1024;

/// The kind of a zone: the use that its frames are restricted to.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum FwZone {
    /// Frames that devices with 24 address bits can access: below 16 MiB.
    Dma = 0,
    /// Frames that devices with 32 address bits can access: below 4 GiB.
    Dma32 = 1,
    /// Frames for every use.
    Normal = 2,
    /// Frames for movable contents only.
    Movable = 3,
}

/// Whether a range of the memory map is present from the start.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum FwPresence {
    /// The range is present, and free.
    Present = 0,
    /// The range may be added later, in whole pageblocks.
    Absent = 1,
    /// Pieces of any length within this range may be added later.
    InPieces = 2,
    /// The range is present, and in use from the start: its frames count as allocated, and are freed by
    /// `fw_free_frames`.
    InUse = 3,
}

/// A range of the memory map.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FwRange {
    /// The first frame.
    pub start: u64,
    /// The first frame after the range (exclusive end).
    pub end: u64,
    /// The node, from 0 to 63.
    pub node: u32,
    /// The kind of zone: an `enum fw_zone`.
    pub zone: u32,
    /// Whether the range is present: an `enum fw_presence`.
    pub presence: u32,
}

/// A setting, for example "hardening" and "tracked". The keys are those of `Tuning::set` of the library.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FwSetting {
    /// The key.
    pub key: *const c_char,
    /// The value.
    pub value: *const c_char,
}

/// The configuration of a memory. Members that are 0 or NULL have their defaults, except `ranges` and `cpus`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FwConfig {
    /// The memory map: ascending, not overlapping. Gaps are holes.
    pub ranges: *const FwRange,
    /// The number of ranges, at most FW_MAX_RANGES.
    pub range_count: usize,
    /// The number of CPUs that may ever use the memory, at most FW_MAX_CPUS.
    pub cpus: u32,
    /// The node of each CPU. CPUs beyond the end of the array are on node 0.
    pub cpu_nodes: *const u8,
    /// The number of elements of `cpu_nodes`.
    pub cpu_node_count: usize,
    /// The distances between nodes, row by row, as in the ACPI SLIT. Without them all nodes are equally far from one
    /// another.
    pub distances: *const u8,
    /// The number of elements of `distances`: the square of the number of nodes, or 0.
    pub distance_count: usize,
    /// Settings.
    pub settings: *const FwSetting,
    /// The number of settings.
    pub setting_count: usize,
}

/// The nodes of CPUs.
type CpuNodes = [NodeId; FW_MAX_CPUS as usize];

/// Space for the parts of a [`Config`] that are converted from the values that C passes.
pub(crate) struct Parts {
    ranges: [MemoryRange; FW_MAX_RANGES],
    cpu_nodes: CpuNodes,
}

impl Parts {
    /// No ranges and no nodes. A constant, because a function would have a copy of its own on the stack, and the
    /// stack of a kernel is small.
    pub(crate) const NONE: Self = {
        let (Some(frames), Some(node)) =
            (FrameRange::new(Pfn::new(0), Pfn::new(0)), NodeId::new(0))
        else {
            unreachable!()
        };
        Self {
            ranges: [MemoryRange::new(frames, node, ZoneKind::Normal); FW_MAX_RANGES],
            cpu_nodes: [node; FW_MAX_CPUS as usize],
        }
    };
}

impl FwConfig {
    /// The configuration for the library.
    ///
    /// # Safety
    ///
    /// Each array is NULL, or has as many elements as the number next to it says. Each key and value is NULL, or a
    /// string that ends with a zero byte.
    pub(crate) unsafe fn convert<'c>(
        &'c self,
        parts: &'c mut Parts,
    ) -> Result<Config<'c>, ErrorAt> {
        // SAFETY: the contract is that of this function.
        let (ranges, nodes, distances) = unsafe {
            (
                array(self.ranges, self.range_count)?,
                array(self.cpu_nodes, self.cpu_node_count)?,
                array(self.distances, self.distance_count)?,
            )
        };
        let map = parts.ranges.get_mut(..ranges.len());
        let map = map.ok_or(ErrorAt { error: FwError::TooManyRanges, at: ranges.len() as u64 })?;
        for (index, (to, from)) in map.iter_mut().zip(ranges).enumerate() {
            *to = from.convert().map_err(|error| ErrorAt { error, at: index as u64 })?;
        }
        let too_many = ErrorAt { error: FwError::TooManyCpus, at: u64::from(self.cpus) };
        let cpus = u16::try_from(self.cpus).map_err(|_| too_many)?;
        let nodes_of_cpus = parts.cpu_nodes.get_mut(..nodes.len()).ok_or(too_many)?;
        for (index, (to, &from)) in nodes_of_cpus.iter_mut().zip(nodes).enumerate() {
            let bad = ErrorAt { error: FwError::BadNode, at: index as u64 };
            *to = NodeId::new(from).ok_or(bad)?;
        }
        // SAFETY: the contract is that of this function.
        let tuning = unsafe { self.tuning() }?;
        let config = Config::new(map, cpus).with_tuning(tuning);
        Ok(config.with_cpu_nodes(nodes_of_cpus).with_distances(distances))
    }

    /// The settings.
    ///
    /// # Safety
    ///
    /// As for [`FwConfig::convert`].
    unsafe fn tuning(&self) -> Result<Tuning, ErrorAt> {
        let mut tuning = Tuning::default();
        // SAFETY: the contract is that of this function.
        let settings = unsafe { array(self.settings, self.setting_count) }?;
        for (index, setting) in settings.iter().enumerate() {
            let bad = |error| ErrorAt { error, at: index as u64 };
            // SAFETY: the contract is that of this function.
            let (key, value) = unsafe { (text(setting.key), text(setting.value)) };
            let (key, value) = key.zip(value).ok_or(bad(FwError::BadSetting))?;
            tuning.set(key, value).map_err(|_| bad(FwError::BadSetting))?;
        }
        Ok(tuning)
    }
}

impl FwRange {
    fn convert(&self) -> Result<MemoryRange, FwError> {
        let frames = FrameRange::new(Pfn::new(self.start), Pfn::new(self.end));
        let node = u8::try_from(self.node).ok().and_then(NodeId::new).ok_or(FwError::BadNode)?;
        let zone = ZoneKind::ALL.get(self.zone as usize).ok_or(FwError::BadZone)?;
        let presence = match self.presence {
            of if of == FwPresence::Present as u32 => Presence::Present,
            of if of == FwPresence::Absent as u32 => Presence::Absent,
            of if of == FwPresence::InPieces as u32 => Presence::InPieces,
            of if of == FwPresence::InUse as u32 => Presence::InUse,
            _ => return Err(FwError::BadPresence),
        };
        Ok(MemoryRange {
            presence,
            ..MemoryRange::new(frames.ok_or(FwError::BadRange)?, node, *zone)
        })
    }
}

/// An array that C passes.
///
/// # Safety
///
/// `start` is NULL, or has `count` elements, which do not change while the result is used.
unsafe fn array<'c, T>(start: *const T, count: usize) -> Result<&'c [T], FwError> {
    match (start.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(FwError::NullArgument),
        // SAFETY: the contract is that of this function.
        (false, _) => Ok(unsafe { core::slice::from_raw_parts(start, count) }),
    }
}

/// A string that C passes.
///
/// # Safety
///
/// `start` is NULL, or the start of a string that ends with a zero byte.
unsafe fn text<'c>(start: *const c_char) -> Option<&'c str> {
    if start.is_null() {
        return None;
    }
    // SAFETY: the contract is that of this function.
    unsafe { CStr::from_ptr(start) }.to_str().ok()
}
