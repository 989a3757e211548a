//! A slot for the relief of a memory.
//!
//! The relief borrows the memory, and the memory contains the platform, which has to call the
//! relief. So the platform has a slot, which is filled while a machine runs.

use std::{ptr::NonNull, rc::Rc};

use framewright::platform::{NoRelief, Relief, ReliefSlot};

use crate::lent::Lent;

/// A slot for the relief of a memory. Clones are handles of the same slot. While it is empty,
/// requests reclaim nothing.
#[derive(Clone)]
pub struct LentRelief(Rc<Lent<dyn Relief>>);

impl Default for LentRelief {
    fn default() -> Self {
        Self(Rc::new(Lent::new()))
    }
}

impl LentRelief {
    /// Puts `relief` into the slot while `body` runs.
    ///
    /// # Panics
    ///
    /// If the slot is not empty.
    pub fn lend<R>(&self, relief: &dyn Relief, body: impl FnOnce() -> R) -> R {
        let relief: NonNull<dyn Relief + '_> = NonNull::from(relief);
        // SAFETY: only the lifetime changes, and the pointer is used only through `lend`.
        let relief: NonNull<dyn Relief> = unsafe { std::mem::transmute(relief) };
        // SAFETY: `relief` is borrowed until `body` has returned.
        unsafe { self.0.lend(relief, body) }
    }
}

impl ReliefSlot for LentRelief {
    fn with_relief<R>(&self, body: impl FnOnce(&dyn Relief) -> R) -> R {
        self.0.with(|relief| body(relief.unwrap_or(&NoRelief)))
    }
}
