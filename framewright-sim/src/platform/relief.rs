//! A place for the relief of whoever owns a memory.
//!
//! Relief is made of the memory that it relieves, and the memory's platform, which has to know it, is
//! there before both. So the platform has a place for it, which is filled while a machine runs.

use std::{ptr::NonNull, rc::Rc};

use framewright::platform::{NoRelief, Relief, ReliefSlot};

use crate::lent::Lent;

/// See the module. Cheap to clone: clones are the same place. Empty, it is no relief.
#[derive(Clone)]
pub struct LentRelief(Rc<Lent<dyn Relief>>);

impl Default for LentRelief {
    fn default() -> Self {
        Self(Rc::new(Lent::new()))
    }
}

impl LentRelief {
    /// While `body` runs, this is who relieves.
    ///
    /// # Panics
    ///
    /// If somebody does already.
    pub fn lend<R>(&self, relief: &dyn Relief, body: impl FnOnce() -> R) -> R {
        let relief: NonNull<dyn Relief + '_> = NonNull::from(relief);
        // SAFETY: only the lifetime changes, of something that is not used but through `lend`.
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
