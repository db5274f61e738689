//! The load of a pool in the header of each response.

use http::header::Entry;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::load::{ENDPOINT_LOAD_METRICS, LoadReport};
use crate::observe::load::Load;

#[cfg(feature = "tower")]
pub use layer::{ReportLoad, ReportLoadFuture, ReportLoadLayer};

/// Adds the header field `endpoint-load-metrics` (ORCA, as text) with this load. A field that is
/// there already stays: who wrote it may know more.
///
/// ```
/// use weirpool::service::http::report_load;
///
/// let pool = weirpool::Pool::new(1, 4)?;
/// let mut response = http::Response::new("a page");
/// report_load(response.headers_mut(), &pool.load());
/// let report = response.headers()["endpoint-load-metrics"].to_str()?;
/// assert!(report.starts_with("TEXT application_utilization=0,"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn report_load(headers: &mut HeaderMap, load: &Load) {
    let name = HeaderName::from_static(ENDPOINT_LOAD_METRICS);
    if let Entry::Vacant(entry) = headers.entry(name) {
        let text = LoadReport::from(load).to_text();
        if let Some(value) = text.and_then(|text| HeaderValue::try_from(text).ok()) {
            entry.insert(value);
        }
    }
}

#[cfg(feature = "tower")]
mod layer {
    use std::fmt;
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, ready};

    use http::Response;
    use pin_project_lite::pin_project;
    use tower_layer::Layer;
    use tower_service::Service;

    use super::report_load;
    use crate::pool::Pool;

    /// Reports the pool's load with each response, by [`report_load`]; put it outside of the layer
    /// that refuses, so that refusals carry it, too. Errors have no header. It keeps the pool open.
    ///
    /// Costs about a microsecond per response.
    ///
    /// ```
    /// use http::Response;
    /// use tower_layer::Layer;
    /// use tower_service::Service;
    /// use weirpool::service::Offload;
    /// use weirpool::service::http::ReportLoadLayer;
    ///
    /// let pool = weirpool::Pool::new(1, 4)?;
    /// let pages = Offload::new(pool.clone(), |path: &'static str| Response::new(path));
    /// let mut service = ReportLoadLayer::new(pool).layer(pages);
    /// let response = pollster::block_on(service.call("/"))?;
    /// assert!(response.headers().contains_key("endpoint-load-metrics"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[derive(Clone, Debug)]
    #[must_use = "a layer does nothing until it is applied"]
    pub struct ReportLoadLayer {
        pool: Pool,
    }

    impl ReportLoadLayer {
        /// A layer that reports the load of `pool`.
        pub fn new(pool: Pool) -> Self {
            Self { pool }
        }
    }

    impl<S> Layer<S> for ReportLoadLayer {
        type Service = ReportLoad<S>;

        fn layer(&self, inner: S) -> ReportLoad<S> {
            ReportLoad { inner, pool: self.pool.clone() }
        }
    }

    /// A service whose responses carry the load of a pool, made by a [`ReportLoadLayer`].
    #[derive(Clone, Debug)]
    pub struct ReportLoad<S> {
        inner: S,
        pool: Pool,
    }

    impl<Request, B, S> Service<Request> for ReportLoad<S>
    where
        S: Service<Request, Response = Response<B>>,
    {
        type Response = Response<B>;
        type Error = S::Error;
        type Future = ReportLoadFuture<S::Future>;

        fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
            self.inner.poll_ready(context)
        }

        fn call(&mut self, request: Request) -> Self::Future {
            ReportLoadFuture { call: self.inner.call(request), pool: self.pool.clone() }
        }
    }

    pin_project! {
        /// The response of a [`ReportLoad`] service.
        #[must_use = "futures do nothing unless polled"]
        pub struct ReportLoadFuture<F> {
            #[pin]
            call: F,
            pool: Pool,
        }
    }

    impl<F, B, E> Future for ReportLoadFuture<F>
    where
        F: Future<Output = Result<Response<B>, E>>,
    {
        type Output = F::Output;

        fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
            let this = self.project();
            let mut result = ready!(this.call.poll(context));
            if let Ok(response) = &mut result {
                report_load(response.headers_mut(), &this.pool.load());
            }
            Poll::Ready(result)
        }
    }

    impl<F> fmt::Debug for ReportLoadFuture<F> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("ReportLoadFuture").field("pool", &self.pool).finish_non_exhaustive()
        }
    }
}
