//! The platform: a machine of threads and a mapping.

#![allow(unsafe_code)]

use framewright::{
    Block, CpuId, FrameRange, Order, Pfn, Platform,
    observe::Corruption,
    platform::{BarrierTarget, OwnerLock, Probe, Relief, Wait},
    sync::PlainWord,
};
use std::{
    ptr::NonNull,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use crate::{
    Contention, HostBuilder, HostError, HostLock, Mismatch, NoBarrier, RegisteredCpu, cpu::Cpus,
    frames::Frames, lock::LockWaits, membarrier::RemoteBarrier, relief::LentRelief, wait::wait,
};

/// Identifies a machine: unique within the process, also among machines that were dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MachineId(u64);

impl MachineId {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Relaxed))
    }
}

/// A machine made of this process: its threads as CPUs, a mapping as memory.
///
/// # Example
///
/// ```
/// use framewright::{Config, Layout, Memory, MigrateType, Order, Request};
/// use framewright_host::{HostMachine, Metadata};
///
/// let machine = HostMachine::builder().frames(8192).cpus(2).build()?;
/// let map = [machine.frames().into()];
/// let config = Config::new(&map, machine.cpus());
/// let mut metadata = Metadata::for_layout(&Layout::new::<HostMachine>(&config)?)?;
/// let memory = Memory::new(machine, &config, metadata.as_mut())?;
///
/// let me = memory.platform().register()?; // this thread is a CPU
/// let mut cpu = memory.cpu(me.id())?;
/// let page = cpu.alloc(Request::new(Order::ZERO, MigrateType::Movable).zeroed())?;
/// assert!(memory.platform().is_zero(&page));
/// cpu.free(page).expect("of this memory");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HostMachine {
    id: MachineId,
    frames: Frames,
    cpus: Cpus,
    barrier: RemoteBarrier,
    lock_waits: LockWaits,
    corruptions: AtomicU64,
    first_corruption: OnceLock<Corruption>,
    relief: LentRelief,
    started: Instant,
}

/// The parts that the builder made.
pub(crate) struct Parts {
    pub(crate) frames: Frames,
    pub(crate) cpus: Cpus,
    pub(crate) barrier: RemoteBarrier,
}

impl HostMachine {
    /// A builder for a machine.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    pub(crate) fn from_parts(parts: Parts) -> Self {
        Self {
            id: MachineId::next(),
            frames: parts.frames,
            cpus: parts.cpus,
            barrier: parts.barrier,
            lock_waits: LockWaits::default(),
            corruptions: AtomicU64::new(0),
            first_corruption: OnceLock::new(),
            relief: LentRelief::default(),
            started: Instant::now(),
        }
    }

    /// The number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> u16 {
        self.cpus.count()
    }

    /// Makes this thread the free CPU of the lowest number.
    ///
    /// # Errors
    ///
    /// [`HostError::NoFreeCpu`], and [`HostError::Pin`] if it cannot be pinned.
    pub fn register(&self) -> Result<RegisteredCpu<'_>, HostError> {
        self.cpus.register()
    }

    /// Makes this thread CPU `cpu`.
    ///
    /// # Errors
    ///
    /// [`HostError::NoSuchCpu`], [`HostError::CpuTaken`], and [`HostError::Pin`] if it cannot
    /// be pinned.
    pub fn register_as(&self, cpu: CpuId) -> Result<RegisteredCpu<'_>, HostError> {
        self.cpus.register_as(cpu)
    }

    /// The reason why this machine cannot run barriers on other CPUs, and therefore uses the try-lock
    /// owner lock; `None` if it can.
    #[must_use]
    pub fn no_remote_barrier(&self) -> Option<NoBarrier> {
        self.barrier.missing()
    }

    /// The frames of the machine: the memory map for [`framewright::Config::new`].
    #[must_use]
    pub fn frames(&self) -> FrameRange {
        self.frames.range()
    }

    /// Whether there is memory behind the frames.
    #[must_use]
    pub fn has_memory(&self) -> bool {
        self.frames.are_real()
    }

    /// The contents of a block: words that any thread may load and store. Empty if there is no
    /// memory behind the frames, or the machine has no frames with these numbers. The block cannot
    /// be freed while the words are borrowed.
    #[must_use]
    pub fn words<'b>(&'b self, block: &'b Block<'_>) -> &'b [AtomicU64] {
        self.frames.words(block.pfn(), block.order())
    }

    /// The contents of a frame: words that any thread may load and store. Empty if there is no memory
    /// behind the frame, or it is not of this machine.
    ///
    /// The caller need not own the frame, as on a real machine: two threads that use the same frame see each
    /// other's values. All accesses are atomic, so this is no data race.
    #[must_use]
    pub fn frame(&self, pfn: Pfn) -> &[AtomicU64] {
        self.frames.words(pfn, Order::ZERO)
    }

    /// The address of the 2^order frames from `pfn` in this process; `None` if there is no memory behind
    /// them, or some are not of this machine.
    ///
    /// Only the owner of the frames may use the pointer, and only while the machine lives. Accesses that are
    /// not atomic race with safe code that uses the same frames by frame number ([`HostMachine::frame`],
    /// [`Platform::clear`] and the like): the caller must ensure that there is no such access.
    #[must_use]
    pub fn pointer(&self, pfn: Pfn, order: Order) -> Option<NonNull<u8>> {
        self.frames.pointer(pfn, order)
    }

    /// Writes `value`, `value + 1`, … into the words of a block.
    pub fn fill(&self, block: &mut Block<'_>, value: u64) {
        self.frames.fill(block.pfn(), block.order(), value);
    }

    /// Checks that a block contains the words that [`HostMachine::fill`] wrote with the same
    /// `value`. Succeeds if there is no memory behind the frames.
    ///
    /// # Errors
    ///
    /// [`Mismatch`]: the first word that differs.
    pub fn verify(&self, block: &Block<'_>, value: u64) -> Result<(), Mismatch> {
        self.frames.verify(block.pfn(), block.order(), value)
    }

    /// Whether all words of a block are zero. `true` if there is no memory behind the frames.
    #[must_use]
    pub fn is_zero(&self, block: &Block<'_>) -> bool {
        self.words(block).iter().all(|word| word.load(Relaxed) == 0)
    }

    /// Number and duration of the waits for the library's locks so far.
    #[must_use]
    pub fn contention(&self) -> Contention {
        self.lock_waits.read()
    }

    /// The number of corruption reports so far.
    #[must_use]
    pub fn corruptions(&self) -> u64 {
        self.corruptions.load(Relaxed)
    }

    /// The first corruption report, if there was any.
    #[must_use]
    pub fn first_corruption(&self) -> Option<Corruption> {
        self.first_corruption.get().copied()
    }

    /// While `body` runs, uses `relief` for requests of all threads that are short of memory.
    ///
    /// # Panics
    ///
    /// If the machine has a `Relief` already, or one of an earlier call is still in use.
    pub fn with_relief<R>(&self, relief: &(dyn Relief + Sync), body: impl FnOnce() -> R) -> R {
        self.try_with_relief(relief, body).expect("no other relief serves this machine")
    }

    /// As [`HostMachine::with_relief`], but if that would panic, returns `None` without running `body`.
    pub(crate) fn try_with_relief<R>(
        &self,
        relief: &(dyn Relief + Sync),
        body: impl FnOnce() -> R,
    ) -> Option<R> {
        self.relief.lend(relief, body)
    }

    pub(crate) fn id(&self) -> MachineId {
        self.id
    }

    pub(crate) fn lock_waits(&self) -> &LockWaits {
        &self.lock_waits
    }
}

// SAFETY: `HostLock` excludes and synchronises, as proved there. `owner_lock` returns Biased only
// if the process is registered for private expedited membarriers, and `remote_barrier` returns only
// after one: the kernel runs a full barrier on every running thread of the process and on the
// caller's.
unsafe impl Platform for HostMachine {
    type Lock = HostLock;
    type Word = PlainWord;
    type Irq = ();

    fn irq_save(&self) {}
    fn irq_restore(&self, (): ()) {}

    fn owner_lock(&self) -> OwnerLock {
        match self.barrier.missing() {
            None => OwnerLock::Biased,
            Some(_) => OwnerLock::Trylock,
        }
    }

    fn remote_barrier(&self, _target: BarrierTarget) {
        self.barrier.run();
    }

    fn wait(&self, why: Wait, spins: u32) {
        wait(why, spins);
    }

    unsafe fn clear(&self, pfn: Pfn, order: Order) {
        self.frames.clear(pfn, order);
    }

    unsafe fn copy(&self, to: Pfn, from: Pfn) {
        self.frames.copy(to, from);
    }

    unsafe fn poison(&self, pfn: Pfn, order: Order) {
        self.frames.poison(pfn, order);
    }

    unsafe fn verify_poison(&self, pfn: Pfn) -> Option<usize> {
        self.frames.first_damage(pfn)
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    fn relief(&self) -> &dyn Relief {
        &self.relief
    }

    fn corruption(&self, report: &Corruption) {
        self.corruptions.fetch_add(u64::from(report.count), Relaxed);
        // Only the first report is stored, so a failure to set it is no error.
        let _ = self.first_corruption.set(*report);
    }
}

impl Probe for HostMachine {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Backing;

    #[test]
    fn the_owner_lock_follows_from_what_the_kernel_can_do() {
        let without = HostMachine::builder().frames(1).membarrier(false).build().unwrap();
        assert_eq!(without.owner_lock(), OwnerLock::Trylock);
        assert_eq!(without.no_remote_barrier(), Some(NoBarrier::SwitchedOff));
        let with = HostMachine::builder().frames(1).build().unwrap();
        let biased = with.owner_lock() == OwnerLock::Biased;
        assert_eq!(biased, with.no_remote_barrier().is_none());
        if biased {
            with.remote_barrier(BarrierTarget::All);
        }
    }

    #[test]
    fn frames_that_are_numbers_only_can_be_cleared_and_copied() {
        let machine =
            HostMachine::builder().frames(512).backing(Backing::MetadataOnly).build().unwrap();
        // SAFETY: no allocator manages these frames, which belong to the test.
        unsafe {
            machine.clear(Pfn::new(0), Order::PAGEBLOCK);
            machine.copy(Pfn::new(1), Pfn::new(0));
            machine.poison(Pfn::new(0), Order::PAGEBLOCK);
            assert_eq!(machine.verify_poison(Pfn::new(1)), None);
        }
        assert!(!machine.has_memory());
        assert_eq!(machine.pointer(Pfn::new(0), Order::ZERO), None);
    }

    #[test]
    fn time_passes() {
        let machine = HostMachine::builder().frames(1).build().unwrap();
        let before = machine.now();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(machine.now() >= before + 2_000_000);
    }
}
