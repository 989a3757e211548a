//! Why a CPU flushed.

/// Why a CPU flushed, with the kernel's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum FlushReason {
    /// It loaded another address space.
    TaskSwitch = 0,
    /// Another CPU asked.
    RemoteShootdown = 1,
    /// It does itself what it asks of others.
    Local = 2,
    /// The same, for one address space.
    LocalMm = 3,
    /// It asks others.
    RemoteSend = 4,
}

impl FlushReason {
    /// The kernel's words for it.
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
