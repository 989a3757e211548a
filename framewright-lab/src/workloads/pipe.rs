//! How CPUs hand blocks to one another.

/// A way from one CPU to another with room for a few things. Sender and receiver wait for each
/// other in whatever way their machine waits.
pub(crate) trait Pipe<T> {
    /// Hands `thing` over, waiting for room.
    ///
    /// # Errors
    ///
    /// The thing, if nobody will take it.
    fn send(&self, thing: T) -> Result<(), T>;

    /// Takes the next thing, waiting for one; `None` when no more will come.
    fn receive(&self) -> Option<T>;

    /// Nobody sends or receives any more. What is inside can still be received.
    fn close(&self);
}

/// A message: blocks, and what was written into them.
pub(crate) struct Message<B> {
    pub(crate) blocks: Vec<B>,
    pub(crate) value: u64,
}
