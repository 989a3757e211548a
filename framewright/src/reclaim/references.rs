//! Checks the references to a page, and decides what happens to pages that were used.
//!
//! A page that was used once since it became inactive is kept for one more round. A page that was
//! used again, or through several mappings, becomes active. Executable pages of files become active
//! after one use, because programs wait for them. A page of a file that was used one round ago is
//! reclaimed only if it is clean; reclaim does not write it.

use super::{Reference, flags::Flags};
use crate::types::PageKind;

/// The treatment of a page after its references were checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReferenceCheck {
    /// The page is reclaimed.
    Reclaim,
    /// The page is reclaimed if it is clean.
    OnlyIfClean,
    /// The page becomes active.
    Activate,
    /// The page is kept for another round.
    Keep,
}

/// Decides the treatment of a page by its uses since the last scan, and records the uses in its
/// flags.
pub(super) fn check_reference(
    flags: &Flags,
    reference: Reference,
    kind: PageKind,
) -> ReferenceCheck {
    if reference.locked {
        return ReferenceCheck::Activate;
    }
    if reference.contended {
        return ReferenceCheck::Keep;
    }
    let was_referenced = flags.clear(Flags::REFERENCED);
    if reference.young > 0 {
        flags.set(Flags::REFERENCED);
        let is_code = reference.executable && kind == PageKind::File;
        return if was_referenced || reference.young > 1 || is_code {
            ReferenceCheck::Activate
        } else {
            ReferenceCheck::Keep
        };
    }
    if was_referenced && kind == PageKind::File {
        ReferenceCheck::OnlyIfClean
    } else {
        ReferenceCheck::Reclaim
    }
}

#[cfg(all(test, not(any(framewright_loom, framewright_tso))))]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_was_used_once_is_kept_once() {
        let flags = Flags::new();
        let used = Reference { young: 1, ..Reference::default() };
        assert_eq!(check_reference(&flags, used, PageKind::File), ReferenceCheck::Keep);
        assert_eq!(
            check_reference(&flags, Reference::default(), PageKind::File),
            ReferenceCheck::OnlyIfClean
        );
        assert_eq!(
            check_reference(&flags, Reference::default(), PageKind::File),
            ReferenceCheck::Reclaim
        );
    }

    #[test]
    fn a_page_that_is_used_again_and_again_is_activated() {
        let flags = Flags::new();
        let used = Reference { young: 1, ..Reference::default() };
        assert_eq!(check_reference(&flags, used, PageKind::Anon), ReferenceCheck::Keep);
        assert_eq!(check_reference(&flags, used, PageKind::Anon), ReferenceCheck::Activate);
        let often = Reference { young: 2, ..Reference::default() };
        assert_eq!(check_reference(&Flags::new(), often, PageKind::File), ReferenceCheck::Activate);
        let code = Reference { executable: true, ..used };
        assert_eq!(check_reference(&Flags::new(), code, PageKind::File), ReferenceCheck::Activate);
        assert_eq!(check_reference(&Flags::new(), code, PageKind::Anon), ReferenceCheck::Keep);
    }

    #[test]
    fn anonymous_pages_that_were_used_may_be_written() {
        let flags = Flags::new();
        flags.set(Flags::REFERENCED);
        assert_eq!(
            check_reference(&flags, Reference::default(), PageKind::Anon),
            ReferenceCheck::Reclaim
        );
    }
}
