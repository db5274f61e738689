//! A CPU-heavy HTTP service that knows its limit: weirpool between axum and the work.
//!
//! `--help` explains options and routes, the README beside it what there is to see.

mod agent;
mod answer;
mod body;
mod ending;
mod engine;
mod memory;
mod metrics;
mod options;
mod page;
mod routes;
mod sample;
mod watch;
mod work;

use std::error::Error;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use weirpool::Shutdown;

use ending::Ending;
use engine::Engine;
use options::{Command, Options};
use watch::Watch;
use work::{Album, Passwords};

/// How long accepted requests may take to end, once the server has been asked to.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the routes share.
#[derive(Clone)]
struct App {
    engine: Arc<Engine>,
    watch: Arc<Watch>,
    passwords: Arc<Passwords>,
    album: Arc<Album>,
    ending: Ending,
    /// For the body of a request.
    read_time: Duration,
}

fn main() -> ExitCode {
    match options::parse() {
        Ok(Command::Help) => {
            print!("{}", options::HELP);
            ExitCode::SUCCESS
        }
        Ok(Command::Serve(options)) => match run(&options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("weirpool-service: {error}");
                ExitCode::FAILURE
            }
        },
        Err(error) => {
            eprintln!("weirpool-service: {error}\nTry `--help`.");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(serve(options));
    // Without protection thousands of jobs may still wait, for nobody.
    runtime.shutdown_background();
    served
}

async fn serve(options: &Options) -> Result<(), Box<dyn Error>> {
    let engine = Arc::new(Engine::new(options)?);
    let app = App {
        watch: Watch::start(Arc::clone(&engine), options.target),
        engine,
        passwords: Arc::new(Passwords::new().map_err(|error| error.to_string())?),
        album: Arc::new(Album::new()?),
        ending: Ending::on_signals()?,
        read_time: options.read_time,
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await?;
    println!("listening on http://{} (see /pool)", listener.local_addr()?);
    if let Some(port) = options.agent_port {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        println!("agent checks on {}", listener.local_addr()?);
        tokio::spawn(agent::answer(listener, app.clone()));
    }

    let listener = listener.tap_io(|socket| {
        // An answer is one small write: nothing to wait for.
        let _ = socket.set_nodelay(true);
    });
    let mut ending = app.ending.clone();
    let server = axum::serve(listener, router(app.clone()))
        .with_graceful_shutdown(async move { ending.begun().await });
    let mut ending = app.ending.clone();
    tokio::select! {
        served = server => served?,
        () = async { ending.begun().await; tokio::time::sleep(PATIENCE).await } => {
            eprintln!("some clients did not let go within {PATIENCE:?}");
        }
    }
    if let Some(pool) = app.engine.pool() {
        let report = pool.shutdown_async(Shutdown::Discard, Some(PATIENCE)).await;
        println!("ended: {report:?}");
    }
    Ok(())
}

fn router(app: App) -> Router {
    let work = Router::new()
        .route("/password", post(routes::password))
        .route("/thumbnail", post(routes::make_thumbnail))
        .route("/healthz", get(routes::health))
        .layer(from_fn_with_state(app.clone(), answer::report_load));
    Router::new()
        .route("/readyz", get(routes::ready))
        .route("/metrics", get(metrics::show))
        .route("/pool", get(page::show))
        .route("/pool/events", get(page::events))
        .merge(work)
        .with_state(app)
}
