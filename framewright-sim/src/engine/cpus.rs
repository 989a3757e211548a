//! All CPUs, and who of them runs.
//!
//! Every hook of the library asks who runs, a dozen times in a simulated allocation. So the answer is
//! kept as a pointer, instead of a number to look the CPU up by.

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
    /// So many, none of which runs.
    pub(super) fn new(cpus: u16) -> Self {
        Self { states: (0..cpus).map(CpuState::new).collect(), running: Cell::new(None) }
    }

    /// Who runs; nobody between runs and once there is a failure.
    #[inline(always)]
    pub(super) fn running(&self) -> Option<&CpuState> {
        // SAFETY: `run` stores nothing but one of `states`, which are never moved nor borrowed
        // exclusively, and live as long as `self`.
        self.running.get().map(|state| unsafe { state.as_ref() })
    }

    /// From now on CPU `number` runs.
    pub(super) fn run(&self, number: u16) {
        self.running.set(Some(NonNull::from(&self.states[usize::from(number)])));
    }

    /// Nobody runs any more.
    pub(super) fn rest(&self) {
        self.running.set(None);
    }
}

impl Deref for Cpus {
    type Target = [CpuState];

    fn deref(&self) -> &[CpuState] {
        &self.states
    }
}
