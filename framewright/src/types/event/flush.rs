//! Reasons of TLB flushes.

/// The reason why a CPU flushed, with the kernel's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum FlushReason {
    /// The CPU loaded another address space.
    TaskSwitch = 0,
    /// Another CPU requested it.
    RemoteShootdown = 1,
    /// The CPU flushes its own TLB, as its part of a flush on several CPUs.
    Local = 2,
    /// The CPU flushes one address space locally.
    LocalMm = 3,
    /// The CPU sends requests to other CPUs.
    RemoteSend = 4,
}

impl FlushReason {
    /// The kernel's name of the reason.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FlushReason::TaskSwitch => "flush on task switch",
            FlushReason::RemoteShootdown => "remote shootdown",
            FlushReason::Local => "local shootdown",
            FlushReason::LocalMm => "local mm shootdown",
            FlushReason::RemoteSend => "remote ipi send",
        }
    }
}
