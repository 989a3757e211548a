//! Stand-ins for `core::sync::atomic`: same names, same signatures.
//!
//! Each type wraps the real atomic. Outside of explorations, and before an exploration spawns its
//! first thread, an operation is that of the real atomic, always sequentially consistent. After
//! that, the value is in the model's memory, and the address of the atomic identifies its location.
//! So an atomic must not move while threads share it, nor between its use by a thread and the end
//! of that thread. Rust enforces the former; the latter holds for all data that threads share.

pub use core::sync::atomic::{Ordering, compiler_fence};

use core::sync::atomic as real;

use super::{
    machine::{Barrier, Operation},
    thread::Handle,
};

/// A value that the model's memory can hold.
trait Value: Copy + PartialEq {
    fn to_bits(self) -> u64;
    fn from_bits(bits: u64) -> Self;
}

impl Value for bool {
    fn to_bits(self) -> u64 {
        u64::from(self)
    }

    fn from_bits(bits: u64) -> Self {
        bits != 0
    }
}

macro_rules! value {
    ($($type:ty)*) => {$(
        impl Value for $type {
            fn to_bits(self) -> u64 {
                u64::from(self)
            }

            fn from_bits(bits: u64) -> Self {
                bits as $type
            }
        }
    )*};
}

value!(u8 u16 u32 u64);

/// One operation on the value at `address`, which is `initial` if the model does not know it.
struct Access {
    handle: Handle,
    address: usize,
    initial: u64,
}

impl Access {
    fn load(&self) -> u64 {
        self.handle.step(
            |machine| Operation::Load(machine.locate(self.address, self.initial)),
            |machine, _| {
                let location = machine.locate(self.address, self.initial);
                machine.load(self.handle.thread, location)
            },
        )
    }

    fn store(&self, value: u64, order: Ordering) {
        if order == Ordering::SeqCst {
            self.modify(|_| Some(value));
        } else {
            self.handle.step(
                |_| Operation::Store,
                |machine, _| {
                    let location = machine.locate(self.address, self.initial);
                    machine.store(self.handle.thread, location, value);
                },
            );
        }
    }

    fn modify(&self, change: impl FnOnce(u64) -> Option<u64>) -> u64 {
        self.handle.step(
            |machine| Operation::Modify(machine.locate(self.address, self.initial)),
            |machine, _| {
                let location = machine.locate(self.address, self.initial);
                machine.modify(self.handle.thread, location, change)
            },
        )
    }
}

macro_rules! atomic {
    (
        $(#[$doc:meta])* $name:ident, $type:ty,
        { $($method:ident: |$old:ident, $arg:ident| $new:expr;)* }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name(real::$name);

        impl $name {
            /// An atomic with this value.
            #[must_use]
            pub const fn new(value: $type) -> Self {
                Self(real::$name::new(value))
            }

            fn access(&self) -> Option<Access> {
                let handle = Handle::modelled()?;
                let initial = self.0.load(Ordering::SeqCst).to_bits();
                Some(Access { handle, address: core::ptr::from_ref(self).addr(), initial })
            }

            /// As in `core`.
            #[must_use]
            pub fn load(&self, order: Ordering) -> $type {
                let _ = order;
                match self.access() {
                    Some(access) => Value::from_bits(access.load()),
                    None => self.0.load(Ordering::SeqCst),
                }
            }

            /// As in `core`. Only a sequentially consistent store empties the buffer.
            pub fn store(&self, value: $type, order: Ordering) {
                match self.access() {
                    Some(access) => access.store(value.to_bits(), order),
                    None => self.0.store(value, Ordering::SeqCst),
                }
            }

            /// As in `core`.
            pub fn swap(&self, value: $type, order: Ordering) -> $type {
                let _ = order;
                self.change(|_| Some(value)).unwrap_or_else(|same| same)
            }

            /// As in `core`.
            ///
            /// # Errors
            ///
            /// The value that was not `old`.
            pub fn compare_exchange(
                &self,
                old: $type,
                new: $type,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$type, $type> {
                let _ = (success, failure);
                self.change(|value| (value == old).then_some(new))
            }

            /// As in `core`, but never fails spuriously.
            ///
            /// # Errors
            ///
            /// The value that was not `old`.
            pub fn compare_exchange_weak(
                &self,
                old: $type,
                new: $type,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$type, $type> {
                self.compare_exchange(old, new, success, failure)
            }

            /// As in `core`, but in one step.
            ///
            /// # Errors
            ///
            /// The value for which `change` returned `None`.
            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                change: impl FnMut($type) -> Option<$type>,
            ) -> Result<$type, $type> {
                let _ = (success, failure);
                self.change(change)
            }

            $(
                /// As in `core`.
                pub fn $method(&self, $arg: $type, order: Ordering) -> $type {
                    let _ = order;
                    self.change(|$old| Some($new)).unwrap_or_else(|same| same)
                }
            )*

            /// The value. The caller is its only user.
            pub fn get_mut(&mut self) -> &mut $type {
                self.write_back();
                self.0.get_mut()
            }

            /// The value of an atomic that is no longer needed.
            #[must_use]
            pub fn into_inner(mut self) -> $type {
                *self.get_mut()
            }

            fn change(
                &self,
                mut change: impl FnMut($type) -> Option<$type>,
            ) -> Result<$type, $type> {
                let Some(access) = self.access() else {
                    return self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, change);
                };
                let mut changed = false;
                let old = Value::from_bits(access.modify(|bits| {
                    let new = change(Value::from_bits(bits));
                    changed = new.is_some();
                    new.map(Value::to_bits)
                }));
                if changed { Ok(old) } else { Err(old) }
            }

            /// Stores the model's value back into the real atomic.
            fn write_back(&mut self) {
                let address = core::ptr::from_ref(self).addr();
                let known = Handle::current().and_then(|h| h.machine().forget(address));
                if let Some(bits) = known {
                    *self.0.get_mut() = Value::from_bits(bits);
                }
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                self.write_back();
            }
        }
    };
}

macro_rules! integers {
    ($($(#[$doc:meta])* $name:ident, $type:ty;)*) => {$(
        atomic!($(#[$doc])* $name, $type, {
            fetch_add: |old, arg| old.wrapping_add(arg);
            fetch_sub: |old, arg| old.wrapping_sub(arg);
            fetch_and: |old, arg| old & arg;
            fetch_or: |old, arg| old | arg;
            fetch_xor: |old, arg| old ^ arg;
            fetch_max: |old, arg| old.max(arg);
            fetch_min: |old, arg| old.min(arg);
        });
    )*};
}

integers! {
    /// A modelled `AtomicU8`.
    AtomicU8, u8;
    /// A modelled `AtomicU16`.
    AtomicU16, u16;
    /// A modelled `AtomicU32`.
    AtomicU32, u32;
    /// A modelled `AtomicU64`.
    AtomicU64, u64;
}

atomic!(
    /// A modelled `AtomicBool`.
    AtomicBool, bool, {
        fetch_and: |old, arg| old & arg;
        fetch_or: |old, arg| old | arg;
        fetch_xor: |old, arg| old ^ arg;
    }
);

/// A fence. In the model, only a sequentially consistent fence has an effect.
pub fn fence(order: Ordering) {
    match Handle::current() {
        Some(handle) if order == Ordering::SeqCst => {
            handle.step(|_| Operation::Fence, |machine, _| machine.fence(handle.thread));
        }
        Some(_) => {}
        None => real::fence(order),
    }
}

/// Empties the store buffers of `target` and of the caller, as `membarrier` or an interrupt does on
/// other processors. Outside of an exploration, a fence of the caller only.
pub fn remote_barrier(target: Barrier) {
    match Handle::current() {
        Some(handle) => {
            let thread = handle.thread;
            handle.step(
                |_| Operation::RemoteBarrier(target),
                |machine, _| machine.remote_barrier(thread, target),
            );
        }
        None => real::fence(Ordering::SeqCst),
    }
}
