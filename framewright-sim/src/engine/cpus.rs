//! All CPUs, and which of them runs.
//!
//! Every hook of the library needs the running CPU, a dozen times per simulated allocation. A
//! pointer to it saves the look-up.

#![allow(unsafe_code)]

use super::cpu::CpuState;
use std::{cell::Cell, ops::Deref, ptr::NonNull};

/// The CPUs of a machine, by number.
pub(super) struct Cpus {
    states: Vec<CpuState>,
    /// One of `states`.
    running: Cell<Option<NonNull<CpuState>>>,
}

impl Cpus {
    /// `cpus` CPUs, none of which runs.
    pub(super) fn new(cpus: u16) -> Self {
        Self { states: (0..cpus).map(CpuState::new).collect(), running: Cell::new(None) }
    }

    /// The running CPU. `None` between runs and after a failure.
    #[inline(always)]
    pub(super) fn running(&self) -> Option<&CpuState> {
        // SAFETY: `run` stores nothing but one of `states`, which are never moved nor borrowed
        // exclusively, and live as long as `self`.
        self.running.get().map(|state| unsafe { state.as_ref() })
    }

    /// Marks CPU `number` as running.
    pub(super) fn run(&self, number: u16) {
        self.running.set(Some(NonNull::from(&self.states[usize::from(number)])));
    }

    /// Marks no CPU as running, until the result is dropped.
    pub(super) fn pause(&self) -> Paused<'_> {
        Paused { cpus: self, before: self.running.take() }
    }

    /// Marks no CPU as running.
    pub(super) fn stop_running(&self) {
        self.running.set(None);
    }
}

/// Marks the same CPU as running again when it is dropped, also by a panic.
pub(super) struct Paused<'c> {
    cpus: &'c Cpus,
    before: Option<NonNull<CpuState>>,
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.cpus.running.set(self.before);
    }
}

impl Deref for Cpus {
    type Target = [CpuState];

    fn deref(&self) -> &[CpuState] {
        &self.states
    }
}
