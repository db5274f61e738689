//! The routes that work. Each takes a slot first, then reads the body, then has the job done.

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use crate::App;
use crate::body;
use crate::engine::{Route, Ticket};
use crate::work::thumbnail;

#[derive(Deserialize)]
struct Login {
    user: String,
    password: String,
}

/// Takes the slot, then the body; or answers in its place.
async fn admit(
    app: &App,
    route: Route,
    request: Request<Body>,
) -> Result<(Ticket, Bytes), Response> {
    let body = request.into_body();
    let bytes = body::most_bytes(&body).map_err(IntoResponse::into_response)?;
    match app.engine.reserve(route, bytes) {
        Ok(ticket) => {
            let read = body::read(body, app.read_time).await;
            Ok((ticket, read.map_err(IntoResponse::into_response)?))
        }
        Err(failure) => {
            body::discard(body).await;
            Err(failure.into_response())
        }
    }
}

pub(crate) async fn password(
    State(app): State<App>,
    request: Request<Body>,
) -> Result<Response, Response> {
    let (ticket, body) = admit(&app, Route::Password, request).await?;
    let login: Login = serde_urlencoded::from_bytes(&body)
        .map_err(|error| (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response())?;
    let passwords = app.passwords.clone();
    let is_right = ticket
        .run(move || passwords.check(&login.user, &login.password))
        .await
        .map_err(IntoResponse::into_response)?;
    Ok(match is_right {
        true => (StatusCode::OK, "welcome\n").into_response(),
        false => (StatusCode::UNAUTHORIZED, "wrong user or password\n").into_response(),
    })
}

#[derive(Deserialize)]
pub(crate) struct Choice {
    #[serde(default)]
    image: usize,
}

pub(crate) async fn make_thumbnail(
    State(app): State<App>,
    Query(choice): Query<Choice>,
    request: Request<Body>,
) -> Result<Response, Response> {
    let (ticket, body) = admit(&app, Route::Thumbnail, request).await?;
    let made_here = app.album.get(choice.image).map(Bytes::from_static);
    let picture = if body.is_empty() { made_here } else { Some(body) };
    let picture =
        picture.ok_or_else(|| (StatusCode::NOT_FOUND, "no such image\n").into_response())?;
    let jpeg =
        ticket.run(move || thumbnail(&picture)).await.map_err(IntoResponse::into_response)?;
    Ok(match jpeg {
        Ok(jpeg) => ([(CONTENT_TYPE, "image/jpeg")], jpeg).into_response(),
        Err(error) => (StatusCode::UNPROCESSABLE_ENTITY, format!("{error}\n")).into_response(),
    })
}

/// Whether the service gets anything done: through the pool, past all others.
pub(crate) async fn health(State(app): State<App>) -> Result<&'static str, Response> {
    let ticket = app.engine.reserve(Route::Health, 0).map_err(IntoResponse::into_response)?;
    ticket.run(|| "ok\n").await.map_err(IntoResponse::into_response)
}

/// Whether new requests should come here. Not a matter of load: a server that leaves the balancer
/// because it is busy leaves its share to the others, who then leave as well.
pub(crate) async fn ready(State(app): State<App>) -> (StatusCode, &'static str) {
    if app.ending.has_begun() {
        (StatusCode::SERVICE_UNAVAILABLE, "ending\n")
    } else {
        (StatusCode::OK, "ready\n")
    }
}
