//! Operations on a zone that only the methods built for comparison (feature `compare`) use.

use super::Zone;
use crate::{
    buddy::{Bundle, Refusals},
    platform::{Platform, Site},
};

impl<P: Platform> Zone<'_, P> {
    /// Frees blocks to the zone. `choose` selects them under the lock, one bundle at a time.
    pub(crate) fn give_selected(
        &self,
        platform: &P,
        mut choose: impl FnMut() -> Option<Bundle>,
    ) -> Refusals {
        platform.point(Site::BulkFree);
        self.with(platform, |buddy| {
            let mut refusals = Refusals::default();
            while let Some(bundle) = choose() {
                refusals.merge(self.give_under_lock(platform, buddy, &[bundle]));
            }
            refusals
        })
    }

    /// Whether some CPU holds the zone lock now. A hint.
    pub(crate) fn is_contended(&self, platform: &P) -> bool {
        self.guarded.is_held(platform)
    }
}
