//! Memories of the library that have metadata but no memory behind their frames, and the buffers of
//! this metadata.

use framewright::{
    Block, Config, CpuToken, FrameRange, InitError, Layout, Memory, MemoryRange, MigrateType,
    NodeId, Order, Pfn, Request, Tuning, ZoneKind, tuning::Auto,
};
use framewright_host::{Backing, HostMachine, Metadata, PageSize};
use std::{
    mem::MaybeUninit,
    ops::{Deref, DerefMut},
    time::Duration,
};

use super::{
    LargeMemory,
    plan::{GIB, size},
};
use crate::Error;
use crate::clock::thread_time;

/// CPU 0 of a memory, and the memory itself.
pub(super) struct Cpu<'a, 'm> {
    token: CpuToken<'a, 'm, HostMachine>,
    memory: &'a Memory<'m, HostMachine>,
}

impl<'a, 'm> Cpu<'a, 'm> {
    pub(super) fn memory(&self) -> &'a Memory<'m, HostMachine> {
        self.memory
    }
}

impl<'a, 'm> Deref for Cpu<'a, 'm> {
    type Target = CpuToken<'a, 'm, HostMachine>;

    fn deref(&self) -> &Self::Target {
        &self.token
    }
}

impl DerefMut for Cpu<'_, '_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.token
    }
}

/// The limit of devices with 24 address bits: 16 MiB.
const DMA_END: u64 = GIB / 64;
/// The limit of devices with 32 address bits: 4 GiB.
const DMA32_END: u64 = 4 * GIB;

/// The state of the metadata buffer when the memory is initialised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BufferState {
    /// Fresh from the kernel: every page of 4 KiB faults at its first access.
    Untouched,
    /// Fresh, on transparent huge pages if the kernel has them.
    HugePages,
    /// Written before.
    Touched,
}

/// A machine that exists as metadata only.
pub(super) struct Machine {
    map: Vec<MemoryRange>,
    cpu_nodes: Vec<NodeId>,
    tuning: Tuning,
}

impl Machine {
    /// The whole machine of a plan: nodes with equal shares. The first node has the zones of a PC,
    /// because some devices address only low memory.
    pub(super) fn whole(plan: &LargeMemory) -> Self {
        let map = (0..plan.nodes).flat_map(|node| zones_of(share(plan, node), number(node)));
        let per_node = (plan.cpus / u16::from(plan.nodes)).max(1);
        let node_of = |cpu| number(u8::try_from(cpu / per_node).unwrap_or(0).min(plan.nodes - 1));
        Self {
            map: map.collect(),
            cpu_nodes: (0..plan.cpus).map(node_of).collect(),
            tuning: Tuning::default(),
        }
    }

    /// One zone of `frames` frames, with one CPU.
    pub(super) fn one_zone(frames: u64) -> Self {
        Self {
            map: vec![range(0, frames).into()],
            cpu_nodes: vec![NodeId::default()],
            tuning: Tuning::default(),
        }
    }

    /// This machine without reserves: all memory can be allocated.
    pub(super) fn without_reserve(mut self) -> Self {
        self.tuning.zone.min_free = Auto::Fixed(0);
        self.tuning.zone.watermark_scale = 1;
        self
    }

    /// This machine with the memory `absent` not present yet: a whole zone, or a part at its end.
    pub(super) fn without(mut self, absent: FrameRange) -> Self {
        let cut = |old: MemoryRange| {
            let (frames, at) = (old.frames, absent.start().get());
            if frames.end() <= absent.start() {
                return vec![old];
            }
            let part = |start: u64, end: u64| MemoryRange { frames: range(start, end), ..old };
            let start = frames.start().get();
            let mut parts = vec![part(at.max(start), frames.end().get()).absent()];
            if start < at {
                parts.insert(0, part(start, at));
            }
            parts
        };
        self.map = self.map.into_iter().flat_map(cut).collect();
        self
    }

    /// The size of its metadata.
    pub(super) fn layout(&self) -> Result<Layout, Error> {
        Layout::new::<HostMachine>(&self.config()).map_err(|reason| self.refused(reason))
    }

    /// Initialises the memory, and runs `work` as its CPU 0. `work` gets the CPU time of the
    /// initialisation.
    pub(super) fn boot<R>(
        &self,
        state: BufferState,
        work: impl FnOnce(&mut Cpu<'_, '_>, Duration) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let machine = HostMachine::builder()
            .frames(self.frames())
            .cpus(self.cpu_nodes.len() as u16)
            .backing(Backing::MetadataOnly)
            .build()?;
        let mut buffer = buffer(&self.layout()?, state)?;
        let before = thread_time();
        let memory = Memory::new(machine, &self.config(), buffer.as_mut())
            .map_err(|reason| self.refused(reason))?;
        let took = thread_time() - before;
        let registered = memory.platform().register()?;
        let mut cpu = Cpu { token: memory.cpu(registered.id())?, memory: &memory };
        let result = work(&mut cpu, took)?;
        drop(cpu);
        memory.drain_all();
        memory.check()?;
        Ok(result)
    }

    fn config(&self) -> Config<'_> {
        let cpus = self.cpu_nodes.len() as u16;
        let (cpu_nodes, tuning) = (&self.cpu_nodes[..], self.tuning);
        Config::new(&self.map, cpus).with_cpu_nodes(cpu_nodes).with_tuning(tuning)
    }

    fn frames(&self) -> u64 {
        self.map.last().map_or(0, |range| range.frames.end().get())
    }

    fn refused(&self, reason: InitError) -> Error {
        Error::input(format_args!("cannot set up a memory of {}: {reason}", size(self.frames())))
    }
}

fn buffer(layout: &Layout, state: BufferState) -> Result<Metadata, Error> {
    let pages = match state {
        BufferState::HugePages => PageSize::Transparent,
        BufferState::Untouched | BufferState::Touched => PageSize::Small,
    };
    let mut buffer = Metadata::new(layout.bytes(), pages)?;
    if state == BufferState::Touched {
        buffer.as_mut().fill(MaybeUninit::new(0));
    }
    Ok(buffer)
}

/// The frames of a node: whole GiB, except for the last node, which has the rest.
pub(super) fn share(plan: &LargeMemory, node: u8) -> FrameRange {
    let each = plan.frames / u64::from(plan.nodes) / GIB * GIB;
    let last = node + 1 == plan.nodes;
    let start = u64::from(node) * each;
    range(start, if last { plan.frames } else { start + each })
}

/// The zones of a node, by address.
fn zones_of(frames: FrameRange, node: NodeId) -> impl Iterator<Item = MemoryRange> {
    let ends = [
        (ZoneKind::Dma, 0, DMA_END),
        (ZoneKind::Dma32, DMA_END, DMA32_END),
        (ZoneKind::Normal, DMA32_END, u64::MAX),
    ];
    ends.into_iter().filter_map(move |(kind, low, high)| {
        let (start, end) = (frames.start().get().max(low), frames.end().get().min(high));
        (start < end).then(|| MemoryRange::new(range(start, end), node, kind))
    })
}

/// The frames from `start` to `end`.
pub(super) fn range(start: u64, end: u64) -> FrameRange {
    FrameRange::new(Pfn::new(start), Pfn::new(end)).expect("ascending")
}

/// Node `node`, which the plan has checked.
pub(super) fn number(node: u8) -> NodeId {
    NodeId::new(node).expect("plans have valid nodes")
}

/// The order with this number.
pub(super) fn order(order: u8) -> Order {
    Order::new(order).expect("a valid order")
}

/// A request for a movable block from any zone, without waiting.
pub(super) const fn movable(order: Order) -> Request {
    Request::new(order, MigrateType::Movable).no_wait()
}

/// Frees a block of the same memory.
pub(super) fn free<'m>(cpu: &mut Cpu<'_, 'm>, block: Block<'m>) -> Result<(), Error> {
    let foreign = |block: Block<'m>| {
        Error::broken(format!("the block at frame {} could not be freed", block.pfn()))
    };
    cpu.free(block).map_err(foreign)
}
