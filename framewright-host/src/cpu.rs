//! Threads as CPUs.
//!
//! A thread *is* a CPU of the machine while it holds a [`RegisteredCpu`], whose number is the argument of
//! [`framewright::Memory::cpu`]. Pinning makes measurements repeatable; the library does not depend on
//! it.

use framewright::CpuId;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::{
    marker::PhantomData,
    sync::atomic::{
        AtomicBool,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use crate::HostError;

/// The CPUs of a machine: whether each is taken, and its processor if threads are pinned.
pub(crate) struct Cpus {
    taken: Box<[AtomicBool]>,
    /// Empty if threads are not pinned.
    processors: Vec<usize>,
}

impl Cpus {
    pub(crate) fn new(cpus: u16, processors: Vec<usize>) -> Self {
        Self { taken: (0..cpus).map(|_| AtomicBool::new(false)).collect(), processors }
    }

    pub(crate) fn count(&self) -> u16 {
        self.taken.len() as u16
    }

    /// Makes this thread the free CPU of the lowest number.
    pub(crate) fn register(&self) -> Result<RegisteredCpu<'_>, HostError> {
        let free = (0..self.count()).map(CpuId::new).find(|cpu| self.take(*cpu));
        self.registration(free.ok_or(HostError::NoFreeCpu { cpus: self.count() })?)
    }

    /// Makes this thread CPU `cpu`.
    pub(crate) fn register_as(&self, cpu: CpuId) -> Result<RegisteredCpu<'_>, HostError> {
        if cpu.get() >= self.count() {
            return Err(HostError::NoSuchCpu { cpu, cpus: self.count() });
        }
        if !self.take(cpu) {
            return Err(HostError::CpuTaken { cpu });
        }
        self.registration(cpu)
    }

    fn take(&self, cpu: CpuId) -> bool {
        let taken = &self.taken[cpu.index()];
        !taken.load(Relaxed) && taken.compare_exchange(false, true, Acquire, Relaxed).is_ok()
    }

    /// The registration of a CPU that was just taken.
    fn registration(&self, id: CpuId) -> Result<RegisteredCpu<'_>, HostError> {
        // From here on, dropping this value releases the CPU, also if pinning fails.
        let mut cpu = RegisteredCpu { cpus: self, id, before: None, _thread: PhantomData };
        if !self.processors.is_empty() {
            let processor = self.processors[id.index() % self.processors.len()];
            let pinned = pin(processor);
            cpu.before =
                Some(pinned.map_err(|errno| HostError::Pin { cpu: id, processor, errno })?);
        }
        Ok(cpu)
    }
}

/// This thread is a CPU of the machine until this value is dropped.
///
/// ```
/// use framewright_host::HostMachine;
///
/// let machine = HostMachine::builder().frames(512).cpus(2).build()?;
/// let me = machine.register()?;
/// println!("this thread is CPU {}", me.id().index());
/// drop(me); // another thread can be that CPU now
/// # Ok::<(), framewright_host::HostError>(())
/// ```
///
/// The value cannot leave its thread:
///
/// ```compile_fail,E0277
/// # let machine = framewright_host::HostMachine::builder().frames(512).build().unwrap();
/// std::thread::scope(|scope| {
///     let cpu = machine.register().unwrap();
///     scope.spawn(move || drop(cpu));
/// });
/// ```
#[must_use = "the thread is a CPU only while this value lives"]
pub struct RegisteredCpu<'h> {
    cpus: &'h Cpus,
    id: CpuId,
    /// The processors that the thread could run on before it was pinned.
    before: Option<CpuSet>,
    _thread: PhantomData<*const ()>,
}

impl RegisteredCpu<'_> {
    /// The number of the CPU.
    #[must_use]
    pub fn id(&self) -> CpuId {
        self.id
    }

    /// The processor that the thread is pinned to, if any.
    #[must_use]
    pub fn processor(&self) -> Option<usize> {
        let processors = &self.cpus.processors;
        self.before.as_ref().map(|_| processors[self.id.index() % processors.len()])
    }
}

impl Drop for RegisteredCpu<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // The processors may have gone offline; then the thread stays pinned.
            let _ = sched_setaffinity(None, &before);
        }
        self.cpus.taken[self.id.index()].store(false, Release);
    }
}

impl std::fmt::Debug for RegisteredCpu<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RegisteredCpu({})", self.id.get())
    }
}

/// The processors that this process may use.
pub(crate) fn processors() -> Result<Vec<usize>, HostError> {
    let allowed = sched_getaffinity(None).map_err(|errno| HostError::Affinity { errno })?;
    Ok((0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor)).collect())
}

/// Pins this thread; returns the processors that it could run on before.
fn pin(processor: usize) -> Result<CpuSet, rustix::io::Errno> {
    let before = sched_getaffinity(None)?;
    let mut only = CpuSet::new();
    only.set(processor);
    sched_setaffinity(None, &only)?;
    Ok(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cpu_is_given_once_and_comes_back() {
        let cpus = Cpus::new(2, Vec::new());
        let first = cpus.register().unwrap();
        let second = cpus.register().unwrap();
        assert_eq!((first.id().get(), second.id().get()), (0, 1));
        assert_eq!(cpus.register().unwrap_err(), HostError::NoFreeCpu { cpus: 2 });
        drop(first);
        assert_eq!(cpus.register().unwrap().id().get(), 0);
    }

    #[test]
    fn a_number_may_be_asked_for() {
        let cpus = Cpus::new(2, Vec::new());
        let one = CpuId::new(1);
        let registered = cpus.register_as(one).unwrap();
        assert_eq!(registered.processor(), None);
        assert_eq!(cpus.register_as(one).unwrap_err(), HostError::CpuTaken { cpu: one });
        let two = CpuId::new(2);
        let error = cpus.register_as(two).unwrap_err();
        assert_eq!(error, HostError::NoSuchCpu { cpu: two, cpus: 2 });
    }

    #[test]
    fn pinning_lasts_as_long_as_the_registration() {
        let processors = processors().unwrap();
        let last = *processors.last().unwrap();
        let before = sched_getaffinity(None).unwrap();
        let cpus = Cpus::new(1, vec![last]);
        let registered = cpus.register().unwrap();
        assert_eq!(registered.processor(), Some(last));
        let during = sched_getaffinity(None).unwrap();
        assert!(during.is_set(last) && during.count() == 1);
        drop(registered);
        assert!(sched_getaffinity(None).unwrap() == before);
    }

    #[test]
    fn more_cpus_than_processors_share_them() {
        let processors = processors().unwrap();
        let count = processors.len() as u16;
        let cpus = Cpus::new(count + 1, processors);
        let first = cpus.register_as(CpuId::new(0)).unwrap();
        let again = cpus.register_as(CpuId::new(count)).unwrap();
        assert_eq!(first.processor(), again.processor());
    }

    #[test]
    fn a_cpu_that_cannot_be_pinned_stays_free() {
        let cpus = Cpus::new(1, vec![CpuSet::MAX_CPU - 1]);
        assert!(matches!(cpus.register(), Err(HostError::Pin { .. })));
        assert!(!cpus.taken[0].load(Relaxed));
    }
}
