//! Taking a batch block by block under one hold of the zone lock, as Linux does.

use crate::buddy::{Buddy, Bundles, Fallback, Want, Watch};

impl Buddy<'_> {
    /// As [`Buddy::take_ordinary`], but searches the lists again for every block.
    #[cold]
    #[inline(never)]
    pub(in crate::buddy) fn take_one_by_one(
        &mut self,
        want: Want,
        out: &mut Bundles,
        watch: impl Watch,
    ) -> Option<Fallback> {
        let mut fallback = None;
        while out.blocks() < want.blocks {
            let blocks = out.blocks() + 1;
            let next = Want { blocks, at_most: blocks, ..want };
            let found = self.take_ordinary(next, out, watch);
            fallback = fallback.or(found);
            if out.blocks() < blocks || found.is_some_and(|found| !found.claimed) {
                break;
            }
            out.join_last();
        }
        fallback
    }
}
