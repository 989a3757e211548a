//! Where the metadata goes, and what each part of it costs.

use core::{
    fmt,
    mem::{MaybeUninit, align_of, size_of},
};

use super::{Config, InitError, Planes, carve::Carver, planes::PlaneArrays};
use crate::{
    buddy::{Buddy, Gigablock, MigrateType, Pageblock},
    frame::{Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, Pfn},
    pcp::{BundleStore, CpuPages, Lists, Slot, bundle_slots},
    platform::OwnerLock,
    sync::{AtomicU8, AtomicU32},
};

/// How much metadata a configuration needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    base: Pfn,
    managed: u64,
    pageblocks: usize,
    ranges: usize,
    cpus: usize,
    slots: usize,
    planes: Planes,
}

/// The arrays in a metadata buffer.
pub(super) struct Parts<'m> {
    pub(super) pageblocks: &'m mut [Pageblock],
    pub(super) gigablocks: &'m mut [Gigablock],
    pub(super) types: &'m [AtomicU8],
    pub(super) ranges: &'m [[u32; 2]],
    pub(super) sets: &'m mut [u64],
    pub(super) planes: PlaneArrays<'m>,
    pub(super) lists: ListParts<'m>,
}

/// What the lists of the CPUs are made from.
pub(super) struct ListParts<'m> {
    slots: &'m mut [Slot],
    occupied: &'m mut [u64],
    cpus: Carver<'m>,
    layout: Layout,
}

impl Layout {
    /// Works out what `config` needs.
    ///
    /// # Errors
    ///
    /// [`InitError`] names what is wrong with the configuration.
    pub fn new(config: &Config<'_>) -> Result<Self, InitError> {
        config.validate()?;
        let (first, last) = match config.memory {
            [first, .., last] => (first, last),
            [only] => (only, only),
            [] => return Err(InitError::NoMemory),
        };
        let base = first.start().align_down(Order::PAGEBLOCK);
        let end = last.end().get().next_multiple_of(PAGEBLOCK_FRAMES as u64);
        let span = end - base.get();
        if span > u64::from(u32::MAX) {
            return Err(InitError::SpanTooLarge);
        }
        Ok(Self {
            base,
            managed: config.managed(),
            pageblocks: (span >> PAGEBLOCK_ORDER) as usize,
            ranges: config.memory.len(),
            cpus: usize::from(config.cpus),
            planes: config.planes,
            slots: bundle_slots(&config.tuning.pcp, config.managed(), u64::from(config.cpus)),
        })
    }

    /// Bytes of metadata in all.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.parts().map(|part| part.bytes.next_multiple_of(self.align())).sum()
    }

    /// Alignment the buffer needs, in bytes.
    #[must_use]
    pub fn align(&self) -> usize {
        align_of::<Pageblock>().max(align_of::<CpuPages<'_>>())
    }

    /// The parts of the metadata and what each costs.
    pub fn parts(&self) -> impl Iterator<Item = Part> + use<> {
        let sets = self.cpus * BundleStore::set_words(self.slots);
        [
            Part::new::<Pageblock>("pageblocks", self.pageblocks, false),
            Part::new::<Gigablock>("gigablocks", self.gigablocks(), false),
            Part::new::<AtomicU8>("pageblock types", self.pageblocks, false),
            Part::new::<u64>("pageblock sets", Buddy::set_words(self.base, self.pageblocks), false),
            Part::new::<[u32; 2]>("memory map", self.ranges, false),
            Part::new::<AtomicU32>("owner plane", self.plane(self.planes.owners), false).optional(),
            Part::new::<AtomicU8>("flags plane", self.plane(self.planes.flags), false).optional(),
            Part::new::<CpuPages<'_>>("CPU lists", self.cpus, true),
            Part::new::<Slot>("CPU list bundles", self.cpus * self.slots, true),
            Part::new::<u64>("CPU list sets", sets, true),
        ]
        .into_iter()
    }

    /// Bytes per managed frame, without optional planes and CPU lists.
    #[must_use]
    pub fn bytes_per_frame(&self) -> f64 {
        let bytes: usize = self
            .parts()
            .filter(|part| !part.per_cpu && !part.optional)
            .map(|part| part.bytes)
            .sum();
        bytes as f64 / self.managed as f64
    }

    /// Bytes of CPU lists, over all CPUs.
    #[must_use]
    pub fn cpu_list_bytes(&self) -> usize {
        self.parts().filter(|part| part.per_cpu).map(|part| part.bytes).sum()
    }

    /// Gigablocks that the pageblocks lie in.
    fn gigablocks(&self) -> usize {
        Buddy::gigablocks(self.base, self.pageblocks)
    }

    /// Entries of a plane.
    fn plane(&self, wanted: bool) -> usize {
        if wanted { self.pageblocks * PAGEBLOCK_FRAMES } else { 0 }
    }

    /// Slots in the store of each CPU.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    pub(super) fn base(&self) -> Pfn {
        self.base
    }

    pub(super) fn managed(&self) -> u64 {
        self.managed
    }

    /// Cuts the arrays out of a buffer and fills them: every pageblock holes only, and movable.
    pub(super) fn carve<'m>(
        &self,
        config: &Config<'_>,
        buffer: &'m mut [MaybeUninit<u8>],
    ) -> Result<Parts<'m>, InitError> {
        let given = buffer.len();
        let too_small = InitError::MetadataTooSmall { needed: self.bytes(), given };
        if given < self.bytes() {
            return Err(too_small);
        }
        if buffer.as_ptr().align_offset(self.align()) != 0 {
            return Err(InitError::MetadataMisaligned { align: self.align() });
        }
        let mut carver = Carver::new(buffer);
        let sets = self.cpus * BundleStore::set_words(self.slots);
        let frame = |pfn: Pfn| (pfn.get() - self.base.get()) as u32;
        let range = |i: usize| {
            let range = config.memory[i];
            [frame(range.start()), frame(range.end())]
        };
        let movable = MigrateType::Movable as u8;
        Ok(Parts {
            pageblocks: carver.array(self.pageblocks, |_| Pageblock::empty()).ok_or(too_small)?,
            gigablocks: carver.array(self.gigablocks(), |_| Gigablock::empty()).ok_or(too_small)?,
            types: carver.array(self.pageblocks, |_| AtomicU8::new(movable)).ok_or(too_small)?,
            sets: carver.array(Buddy::set_words(self.base, self.pageblocks), |_| 0).ok_or(too_small)?,
            ranges: carver.array(self.ranges, range).ok_or(too_small)?,
            planes: PlaneArrays {
                owners: carver
                    .array(self.plane(self.planes.owners), |_| AtomicU32::new(0))
                    .ok_or(too_small)?,
                flags: carver
                    .array(self.plane(self.planes.flags), |_| AtomicU8::new(0))
                    .ok_or(too_small)?,
            },
            lists: ListParts {
                slots: carver
                    .array(self.cpus * self.slots, |_| Slot::default())
                    .ok_or(too_small)?,
                occupied: carver.array(sets, |_| 0).ok_or(too_small)?,
                cpus: carver,
                layout: *self,
            },
        })
    }
}

impl<'m> ListParts<'m> {
    /// The lists of every CPU, closed.
    pub(super) fn cpus(mut self, kind: OwnerLock) -> &'m [CpuPages<'m>] {
        let slots_each = self.layout.slots;
        let sets_each = BundleStore::set_words(slots_each);
        let mut slots = self.slots.chunks_exact_mut(slots_each);
        let mut sets = self.occupied.chunks_exact_mut(sets_each);
        let lists = self.cpus.array(self.layout.cpus, |_| {
            // Both arrays were carved for exactly as many CPUs.
            let slots = slots.next().unwrap_or(&mut []);
            let sets = sets.next().unwrap_or(&mut []);
            CpuPages::new(kind, Lists::new(BundleStore::new(slots, sets)))
        });
        lists.map_or(&[], |lists| lists)
    }
}

/// One part of the metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// What it is.
    pub name: &'static str,
    /// What it costs.
    pub bytes: usize,
    /// Whether it grows with the CPUs instead of the memory.
    pub per_cpu: bool,
    /// Whether it is there only because the embedder asked for it.
    pub optional: bool,
}

impl Part {
    fn new<T>(name: &'static str, count: usize, per_cpu: bool) -> Self {
        Self { name, bytes: count * size_of::<T>(), per_cpu, optional: false }
    }
}

impl Part {
    fn optional(self) -> Self {
        Self { optional: true, ..self }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} bytes", self.name, self.bytes)
    }
}
