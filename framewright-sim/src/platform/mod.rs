//! The library's machine, simulated: [`Simulated`] implements `Platform` with the engine.
//!
//! A request or report of the library applies to the CPU whose program is running. Locks and the
//! words of the owner protocol (for per-CPU lists) are the engine's. A remote barrier is an
//! interrupt. A wait parks the CPU until one of the words that it has loaded changes. Work,
//! accesses to cache lines, and the clearing and copying of frames are charged. Outside a run, when
//! a memory is set up or inspected, the same calls work and charge nothing.
//!
//! | module  | job                                                                       |
//! |---------|---------------------------------------------------------------------------|
//! | `metadata` | [`MetadataBuffer`]: the buffer for a memory's metadata                              |
//! | `lock`  | [`SimLock`]: a lock of the engine, created at first use                     |
//! | `word`  | [`SimWord`]: a word of the engine, created at first use                     |
//! | `lines` | the engine's names of the library's lines and sections                     |
//! | `prices`| the costs of the library's work, in instructions                          |
//! | `relief`| [`LentRelief`]: a slot for the [`Relief`] (reclaim, compaction) of a memory |
//!
//! A program must get the token of *its own* CPU, and only during the run. A remote barrier
//! interrupts the CPU of a token, and must reach the program that uses the token.

#![allow(unsafe_code)]

mod lines;
mod lock;
mod metadata;
mod prices;
mod relief;
#[cfg(test)]
mod tests;
mod word;

pub use lock::SimLock;
pub use metadata::MetadataBuffer;
pub use prices::tenths;
pub use relief::LentRelief;
pub use word::SimWord;

use crate::engine::{Cpu, Engine, Event, Handler, LockId, Machine};
use crate::machine::Library;
use crate::one_thread::OneThread;
use framewright::{
    CpuId, Order, Pfn, Platform,
    observe::Corruption,
    platform::{
        Access, BarrierTarget, Cost, Line, Miss, OwnerLock, Probe, Relief, Section, Site, Wait,
    },
};
use prices::Prices;
use std::{cell::Cell, rc::Rc};

/// The contents of frames, for runs that simulate them.
pub trait Frames {
    /// Copies a frame.
    fn copy(&self, to: Pfn, from: Pfn);
    /// Fills 2^order frames with zeroes.
    fn clear(&self, _pfn: Pfn, _order: Order) {}
    /// Fills 2^order free frames with the poison pattern.
    fn poison(&self, _pfn: Pfn, _order: Order) {}
    /// The first byte of a frame that is not what [`Frames::poison`] wrote.
    fn verify_poison(&self, _pfn: Pfn) -> Option<usize> {
        None
    }
    /// The library reports corrupted frames with this call. The run ends after it. An
    /// implementation that knows the cause may end the run itself.
    fn corrupted(&self, _report: &Corruption) {}
}

/// Settings of the simulated platform.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// The costs of the library's work.
    pub prices: Library,
    /// The protocol that excludes drainers from per-CPU lists.
    pub owner_lock: OwnerLock,
    /// Remote barriers do nothing: a seeded bug that store buffers must expose.
    pub skip_barriers: bool,
}

/// A simulated machine as the library's platform.
///
/// The type is `Send` and `Sync`, as platforms must be, but its methods panic on any thread but the
/// one that made it.
///
/// # Example
///
/// ```
/// use framewright::{Config, FrameRange, Layout, Memory, MigrateType, Order, Pfn, Request};
/// use framewright_sim::{
///     engine::{Machine, Program},
///     machine::Spec,
///     platform::{MetadataBuffer, Settings, Simulated},
/// };
///
/// let spec = Spec::uniform(2)?;
/// let machine = Machine::from(&spec);
/// let settings = Settings { prices: spec.costs().library, ..Settings::default() };
/// let map = [FrameRange::new(Pfn::new(0), Pfn::new(65_536)).unwrap().into()];
/// let config = Config::new(&map, 2);
/// let mut metadata = MetadataBuffer::new(&Layout::new::<Simulated>(&config)?);
/// let memory = Memory::new(Simulated::new(&machine, settings), &config, metadata.as_mut())?;
/// let program = || -> Program<'_> {
///     Box::new(|cpu| {
///         let mut token = memory.cpu(cpu.id()).expect("one token per CPU");
///         let page = token.alloc(Request::new(Order::ZERO, MigrateType::Movable)).expect("memory");
///         token.free(page).expect("of this memory");
///         println!("CPU {} needed {} cycles", cpu.id().index(), cpu.now());
///     })
/// };
/// machine.run(vec![program(), program()])?;
/// memory.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Simulated(OneThread<Inner>);

#[derive(Clone)]
struct Inner {
    machine: Machine,
    settings: Settings,
    prices: Prices,
    frames: Option<Rc<dyn Frames>>,
    barrier: Handler,
    relief: LentRelief,
    /// The lock that was taken last, until its holder has reported its section.
    locked: Cell<Option<LockId>>,
}

impl Simulated {
    /// The platform of `machine`. Zone n is assumed to be on node n; [`Machine::set_home_node`]
    /// changes that.
    #[must_use]
    pub fn new(machine: &Machine, settings: Settings) -> Self {
        lines::set_home_nodes(machine);
        Self(OneThread::new(Inner {
            machine: machine.clone(),
            settings,
            prices: Prices::new(settings.prices, machine.model()),
            frames: None,
            barrier: Rc::new(|_| {}),
            relief: LentRelief::default(),
            locked: Cell::default(),
        }))
    }

    /// The same platform, with contents of frames.
    ///
    /// # Panics
    ///
    /// On another thread than the one that made it.
    #[must_use]
    pub fn with_frames(self, frames: Rc<dyn Frames>) -> Self {
        let inner = self.0.get().clone();
        Self(OneThread::new(Inner { frames: Some(frames), ..inner }))
    }

    /// The same platform, with a slot for relief.
    ///
    /// # Panics
    ///
    /// On another thread than the one that made it.
    #[must_use]
    pub fn with_relief(self, relief: &LentRelief) -> Self {
        let inner = self.0.get().clone();
        Self(OneThread::new(Inner { relief: relief.clone(), ..inner }))
    }

    /// The machine.
    ///
    /// # Panics
    ///
    /// On another thread than the one that made it.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.0.get().machine
    }

    /// Notes that a lock was taken whose holder will report its section next.
    #[inline(always)]
    fn note_lock(&self, lock: LockId) {
        self.0.get().locked.set(Some(lock));
    }

    #[inline(always)]
    fn engine(&self) -> &Engine {
        self.0.get().machine.engine()
    }

    #[inline(always)]
    fn cpu(&self) -> Option<Cpu<'_>> {
        self.engine().current()
    }

    fn frames(&self) -> Option<&dyn Frames> {
        self.0.get().frames.as_deref()
    }
}

// SAFETY: locks and words are the engine's. It runs one CPU at a time, grants a lock to one CPU at
// a time, and orders words as x86 does. Outside a run, and once a run has failed, no other CPU
// runs. A remote barrier returns after every other CPU that runs a program has served an interrupt,
// before and after which its store buffer is empty; the caller's buffer is drained too. (With
// `skip_barriers` this does not hold; the engine then ends the run at the moment that a second
// CPU enters a section, before that CPU gets a reference to its data.)
unsafe impl Platform for Simulated {
    type Lock = SimLock;
    type Word = SimWord;
    type Irq = bool;

    #[inline]
    fn irq_save(&self) -> bool {
        self.cpu().is_some_and(|cpu| cpu.mask_interrupts())
    }

    #[inline]
    fn irq_restore(&self, were_masked: bool) {
        if let Some(cpu) = self.cpu() {
            cpu.restore_interrupts(were_masked);
        }
    }

    fn owner_lock(&self) -> OwnerLock {
        self.0.get().settings.owner_lock
    }

    fn remote_barrier(&self, target: BarrierTarget) {
        let Inner { machine, settings, barrier, .. } = self.0.get();
        let Some(cpu) = self.cpu().filter(|_| !settings.skip_barriers) else { return };
        cpu.fence();
        match target {
            BarrierTarget::Cpu(id) if id == cpu.id() => {}
            BarrierTarget::Cpu(id) => cpu.interrupt([id], barrier),
            BarrierTarget::All => {
                let all = (0..machine.cpus()).map(CpuId::new);
                cpu.interrupt(all.filter(|&id| id != cpu.id()), barrier);
            }
        }
    }

    fn wait(&self, why: Wait, spins: u32) {
        let Some(cpu) = self.cpu() else {
            // No other CPU runs, so the condition can never become true.
            assert!(spins < 1000, "would wait forever outside a run: {why:?}");
            return;
        };
        match why {
            Wait::Owner | Wait::Flush => cpu.wait_for_change(),
            Wait::Lock | Wait::Memory => cpu.relax(),
        }
    }

    #[inline]
    unsafe fn clear(&self, pfn: Pfn, order: Order) {
        let inner = self.0.get();
        if let Some(cpu) = inner.machine.engine().current() {
            cpu.clear_frames(order.frames());
        }
        if let Some(frames) = &inner.frames {
            frames.clear(pfn, order);
        }
    }

    unsafe fn copy(&self, to: Pfn, from: Pfn) {
        if let Some(cpu) = self.cpu() {
            cpu.copy_frame();
        }
        if let Some(frames) = self.frames() {
            frames.copy(to, from);
        }
    }

    unsafe fn poison(&self, pfn: Pfn, order: Order) {
        if let Some(frames) = self.frames() {
            frames.poison(pfn, order);
        }
    }

    unsafe fn verify_poison(&self, pfn: Pfn) -> Option<usize> {
        self.frames().and_then(|frames| frames.verify_poison(pfn))
    }

    fn now(&self) -> u64 {
        self.cpu().map_or(0, |cpu| cpu.model().nanos_of_cycles(cpu.now()))
    }

    fn relief(&self) -> &dyn Relief {
        &self.0.get().relief
    }

    /// Ends the run: correct programs cause no such report.
    fn corruption(&self, report: &Corruption) {
        if let Some(frames) = self.frames() {
            frames.corrupted(report);
        }
        match self.cpu() {
            Some(cpu) => cpu.fail(report.to_string()),
            // The program is being unwound: its failure is reported already.
            None if std::thread::panicking() => {}
            None => panic!("{report}"),
        }
    }
}

impl Probe for Simulated {
    const LISTENING: bool = true;

    #[inline(always)]
    fn cost(&self, cost: Cost, count: u32) {
        let inner = self.0.get();
        if let Some(cpu) = inner.machine.engine().current() {
            cpu.work(inner.prices.of(cost, count, cpu.model()));
        }
    }

    #[inline(always)]
    fn touch(&self, line: Line, access: Access, miss: Miss) {
        if let Some(cpu) = self.cpu() {
            cpu.touch(lines::line(line, cpu.model().cpus()), access, miss);
        }
    }

    #[inline(always)]
    fn enter(&self, section: Section) {
        let inner = self.0.get();
        if let Some(cpu) = inner.machine.engine().current() {
            if let Some(lock) = inner.locked.get() {
                inner.locked.set(None);
                let (class, zone) = lines::lock_class(section);
                inner.machine.classify_lock(lock, class, zone);
                cpu.report(Event::Protects(lock, section));
            }
            cpu.enter(|| lines::section(section, cpu.model().cpus()));
        }
    }

    #[inline(always)]
    fn leave(&self, section: Section) {
        if let Some(cpu) = self.cpu() {
            cpu.leave(|| lines::section(section, cpu.model().cpus()));
        }
    }

    #[inline(always)]
    fn point(&self, site: Site) {
        let Some(cpu) = self.cpu() else { return };
        if cpu.ignores_clocks() {
            cpu.report(Event::Point(site));
        }
        match site {
            // Other CPUs wait for flush requests, so these must not become visible early.
            Site::Flush => cpu.step(),
            _ => cpu.step_if_due(),
        }
    }

    #[inline]
    fn force(&self, site: Site) -> bool {
        self.cpu().is_some_and(|cpu| cpu.forces(site))
    }
}
