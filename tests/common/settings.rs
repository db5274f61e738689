//! Settings that can't be met.

use weirpool::BuildError;

/// A stack of more than there is address space for, so that no thread can be created.
pub(crate) const IMPOSSIBLE_STACK: usize = isize::MAX as usize / 2;

/// Fails unless the error names a setting and its value, as expected.
#[track_caller]
pub(crate) fn check_refused(error: BuildError, expected: &str) {
    assert!(error.to_string().starts_with(expected), "{error} instead of {expected}");
    assert!(matches!(error, BuildError::Invalid { .. }));
}
