//! Why a request was not served, and how to find that in other errors.

use std::error::Error;
use std::fmt;
use std::io;

use crate::error::{JobError, Refusal};
use crate::sync::stat::Arc;

/// Any error, as tower's own middleware passes it on.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// No chain of causes of any use is longer; one that goes round in a circle ends here.
const LONGEST_CHAIN: usize = 64;

/// Why a request was not served, by whatever of this module.
///
/// Middleware boxes errors and wraps them in its own. [`find`](Self::find) gets this one out again,
/// so that it needn't become an answer 500:
///
/// ```
/// use weirpool::service::{BoxError, ServiceError};
///
/// # fn serve() -> Result<(), BoxError> {
/// #     let pool = weirpool::Pool::new(1, 1)?;
/// #     pool.close();
/// #     let refusal = pool.try_reserve().unwrap_err();
/// #     Err(std::io::Error::other(ServiceError::from(refusal)).into())
/// # }
/// if let Err(error) = serve() {
///     match ServiceError::find(&*error) {
///         Some(ServiceError::Refused(refusal)) => println!("busy: {}", refusal.reason()),
///         Some(other) => println!("not served: {other}"),
///         None => println!("the service itself failed: {error}"),
///     }
/// #   assert!(ServiceError::find(&*error).is_some());
/// }
/// ```
#[non_exhaustive]
#[derive(Debug)]
pub enum ServiceError {
    /// It was refused at the door; nothing was called.
    Refused(Refusal),
    /// Its job was accepted, and has no result.
    Unfinished(JobError),
}

impl ServiceError {
    /// The first such error among `error` and its causes, also where it is boxed or shared, or
    /// inside an [`io::Error`].
    pub fn find<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e Self> {
        find(error)
    }

    /// The refusal, if it was one.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused(refusal) => Some(*refusal),
            Self::Unfinished(_) => None,
        }
    }
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused(_) => "the request was refused",
            Self::Unfinished(_) => "the request's job has no result",
        })
    }
}

impl Error for ServiceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(match self {
            Self::Refused(refusal) => refusal,
            Self::Unfinished(error) => error,
        })
    }
}

impl From<Refusal> for ServiceError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<JobError> for ServiceError {
    fn from(error: JobError) -> Self {
        Self::Unfinished(error)
    }
}

/// The first error of this type among `error` and its causes.
pub(super) fn find<'e, E: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e E> {
    chain(error).find_map(|cause| {
        // A box and a shared pointer are errors of their own type, which answer for what is in them.
        let boxed = || cause.downcast_ref::<Box<E>>().map(|boxed| &**boxed);
        let shared = || cause.downcast_ref::<Arc<E>>().map(|shared| &**shared);
        cause.downcast_ref::<E>().or_else(boxed).or_else(shared)
    })
}

/// `error` and its causes, outermost first.
fn chain<'e>(
    error: &'e (dyn Error + 'static),
) -> impl Iterator<Item = &'e (dyn Error + 'static)> + 'e {
    std::iter::successors(Some(error), |&error| cause_of(error)).take(LONGEST_CHAIN)
}

/// An [`io::Error`] names as its cause the cause of what it carries, and so passes over that.
fn cause_of<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(carried) => Some(carried),
        None => error.source(),
    }
}
