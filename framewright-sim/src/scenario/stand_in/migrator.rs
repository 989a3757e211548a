//! Stand-in for migration: puts a page into another frame.
//!
//! While it does, the entry says so, and who needs the page waits for the migrator's lock.

use std::cell::OnceCell;

use crate::{
    engine::{Cpu, LockId},
    process::{Access, FrameSource, Mapping, Process, Pte, Purpose, Token, Trouble},
    scenario::Bug,
};

/// See the module.
pub(in crate::scenario) struct Migrator<'a> {
    process: &'a Process,
    bug: Option<Bug>,
    lock: OnceCell<LockId>,
}

impl<'a> Migrator<'a> {
    pub(in crate::scenario) fn new(process: &'a Process, bug: Option<Bug>) -> Self {
        Self { process, bug, lock: OnceCell::new() }
    }

    fn locked(&self, cpu: Cpu<'_>, body: impl FnOnce()) {
        let lock = *self.lock.get_or_init(|| cpu.new_lock());
        cpu.lock(lock);
        body();
        cpu.unlock(lock);
    }

    /// A program's access, which waits for pages on the move.
    pub(in crate::scenario) fn touch(
        &self,
        cpu: Cpu<'_>,
        page: u32,
        access: Access,
        frames: &mut dyn FrameSource,
    ) -> Result<Token, Trouble> {
        loop {
            match self.process.touch(cpu, page, access, frames) {
                Err(Trouble::Elsewhere(Pte::Migrating(_))) => self.locked(cpu, || {}),
                result => return result,
            }
        }
    }

    /// Puts a page into another frame, if it is in one.
    pub(in crate::scenario) fn migrate(
        &self,
        cpu: Cpu<'_>,
        page: u32,
        frames: &mut dyn FrameSource,
    ) {
        let Ok(to) = self.process.obtain(cpu, Purpose::Page, frames) else { return };
        let mut unused = to;
        self.locked(cpu, || {
            let Some(mapping) = self.unmap(cpu, page) else { return };
            unused = mapping.frame;
            if self.bug == Some(Bug::CopyBeforeFlush) {
                self.copy(cpu, mapping.frame, to);
                self.process.space().flush(cpu, 1);
            } else {
                self.process.space().flush(cpu, 1);
                self.copy(cpu, mapping.frame, to);
            }
            let moved = Pte::Present(Mapping { frame: to, ..mapping });
            self.process.space().locked(cpu, || {
                self.process.space().replace_pte(cpu, page, moved);
            });
        });
        self.process.release(cpu, &[unused], frames);
    }

    fn unmap(&self, cpu: Cpu<'_>, page: u32) -> Option<Mapping> {
        let space = self.process.space();
        space.locked(cpu, || {
            let Mapping { frame, .. } = space.pte(cpu, page).present()?;
            space.replace_pte(cpu, page, Pte::Migrating(frame)).present()
        })
    }

    fn copy(&self, cpu: Cpu<'_>, from: u32, to: u32) {
        let oracle = self.process.space().mmu().oracle().expect("scenarios are checked");
        cpu.step();
        oracle.fill(to, oracle.contents(from));
    }
}
