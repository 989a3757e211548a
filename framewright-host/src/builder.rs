//! Builds a machine.

use framewright::{FrameRange, Pfn, frame::FRAME_SIZE};

use crate::{
    HostError, HostMachine,
    cpu::{Cpus, processors},
    frames::Frames,
    machine::Parts,
    mapping::{Mapping, MappingSpec},
    membarrier::RemoteBarrier,
};

/// The memory behind the frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Backing {
    /// Anonymous memory.
    #[default]
    Anonymous,
    /// An anonymous file (`memfd_create`), mapped shared.
    Memfd,
    /// None: frames are numbers, and clearing and copying them does nothing. For measurements of the
    /// allocator alone, or of more memory than the system has.
    MetadataOnly,
}

/// The pages with which the kernel maps memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PageSize {
    /// 4 KiB.
    #[default]
    Small,
    /// 2 MiB where the kernel can allocate such pages (transparent huge pages).
    Transparent,
    /// 2 MiB from the kernel's pool (`hugetlb`); the build fails if the pool has too few.
    Huge,
}

/// Builds a [`HostMachine`]: the methods set its properties, and [`HostBuilder::build`] creates it.
///
/// # Example
///
/// ```
/// use framewright_host::{Backing, HostMachine};
///
/// // 16 GiB of frames without memory behind them: for measuring the allocator alone.
/// let machine = HostMachine::builder().frames(4 << 20).cpus(8).backing(Backing::MetadataOnly).build()?;
/// assert_eq!((machine.frames().frames(), machine.cpus()), (4 << 20, 8));
/// # Ok::<(), framewright_host::HostError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until build() is called"]
pub struct HostBuilder {
    frames: u64,
    base: Pfn,
    cpus: u16,
    pin: bool,
    backing: Backing,
    pages: PageSize,
    populate: bool,
    membarrier: bool,
}

impl Default for HostBuilder {
    fn default() -> Self {
        Self {
            frames: 0,
            base: Pfn::new(0),
            cpus: 1,
            pin: false,
            backing: Backing::default(),
            pages: PageSize::default(),
            populate: false,
            membarrier: true,
        }
    }
}

impl HostBuilder {
    /// The number of frames of 4 KiB. There is no default.
    pub fn frames(mut self, frames: u64) -> Self {
        self.frames = frames;
        self
    }

    /// The number of the first frame; a multiple of 512. Default: 0.
    pub fn base(mut self, base: Pfn) -> Self {
        self.base = base;
        self
    }

    /// The number of CPUs: the maximum number of registered threads. It may exceed the number of
    /// processors of the system. Default: 1.
    pub fn cpus(mut self, cpus: u16) -> Self {
        self.cpus = cpus;
        self
    }

    /// Whether each registered thread is pinned to a processor: the thread of CPU n to the n-th processor that the
    /// process may use. If there are fewer processors, the count restarts at the first. Default: no.
    pub fn pin(mut self, pin: bool) -> Self {
        self.pin = pin;
        self
    }

    /// The memory behind the frames. Default: anonymous memory.
    pub fn backing(mut self, backing: Backing) -> Self {
        self.backing = backing;
        self
    }

    /// The pages with which the kernel maps the frames. Default: small pages.
    pub fn page_size(mut self, pages: PageSize) -> Self {
        self.pages = pages;
        self
    }

    /// Whether the kernel provides all memory at once, instead of at the first touch of each
    /// page. Default: no.
    pub fn populate(mut self, populate: bool) -> Self {
        self.populate = populate;
        self
    }

    /// Whether `membarrier` may be used. `false` selects the try-lock as owner lock even if the kernel
    /// has `membarrier`, for tests. Default: `true`.
    pub fn membarrier(mut self, allow: bool) -> Self {
        self.membarrier = allow;
        self
    }

    /// Builds the machine.
    ///
    /// # Errors
    ///
    /// [`HostError`] names the impossible property or the missing resource, and the remedy.
    pub fn build(self) -> Result<HostMachine, HostError> {
        let range = self.range()?;
        if self.cpus == 0 {
            return Err(HostError::NoCpus);
        }
        let processors = if self.pin { processors()? } else { Vec::new() };
        let mapping = match self.backing {
            Backing::MetadataOnly => None,
            Backing::Anonymous | Backing::Memfd => Some(Mapping::new(&MappingSpec {
                what: "the frames",
                bytes: range.frames() as usize * FRAME_SIZE,
                backing: self.backing,
                pages: self.pages,
                populate: self.populate,
            })?),
        };
        Ok(HostMachine::from_parts(Parts {
            frames: Frames::new(range, mapping),
            cpus: Cpus::new(self.cpus, processors),
            barrier: RemoteBarrier::detect(self.membarrier),
        }))
    }

    fn range(&self) -> Result<FrameRange, HostError> {
        let (frames, base) = (self.frames, self.base.get());
        if frames == 0 {
            return Err(HostError::NoFrames);
        }
        if !base.is_multiple_of(512) {
            return Err(HostError::MisalignedBase { base });
        }
        let too_many = HostError::TooManyFrames { frames, base };
        let end = base.checked_add(frames).filter(|end| *end <= Pfn::MAX.get());
        let addressable = frames <= (isize::MAX as u64) / FRAME_SIZE as u64;
        match end.and_then(|end| FrameRange::new(self.base, Pfn::new(end))) {
            Some(range) if addressable => Ok(range),
            _ => Err(too_many),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(builder: HostBuilder) -> HostError {
        builder.build().err().unwrap()
    }

    #[test]
    fn impossible_machines_are_refused_with_a_reason() {
        let good = HostMachine::builder().frames(512);
        assert_eq!(refusal(HostMachine::builder()), HostError::NoFrames);
        assert_eq!(refusal(good.clone().cpus(0)), HostError::NoCpus);
        let base = refusal(good.clone().base(Pfn::new(3)));
        assert_eq!(base, HostError::MisalignedBase { base: 3 });
        for frames in [u64::MAX, 1 << 52] {
            let many = refusal(good.clone().frames(frames));
            assert_eq!(many, HostError::TooManyFrames { frames, base: 0 });
        }
        assert!(matches!(
            refusal(good.base(Pfn::new(Pfn::MAX.get() & !511)).frames(513)),
            HostError::TooManyFrames { .. }
        ));
    }

    #[test]
    fn metadata_only_may_be_larger_than_any_memory() {
        let machine = HostMachine::builder()
            .frames(1 << 40)
            .backing(Backing::MetadataOnly)
            .populate(true)
            .build()
            .unwrap();
        assert_eq!(machine.frames().frames(), 1 << 40);
    }
}
