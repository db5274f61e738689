//! The server: a slot of the pool first, then the request. Who is refused is closed later, by one
//! thread for all, so that the answer gets through and the acceptor is free at once.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;

#[cfg(unix)]
use weirpool::hold::TcpRefusal;
use weirpool::{Pool, Shutdown};

use crate::AnyError;
use crate::options::Options;
use crate::wire::{Answer, PATIENCE};

pub(crate) struct Server {
    pool: Pool,
    address: SocketAddr,
    over: Arc<AtomicBool>,
    acceptor: JoinHandle<()>,
}

impl Server {
    pub(crate) fn start(options: &Options) -> Result<Self, AnyError> {
        let pool = Pool::builder()
            .name("server")
            .workers(options.workers)
            .capacity(options.slots)
            .batch()
            .build()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let over = Arc::new(AtomicBool::new(false));
        let acceptor = thread::Builder::new().name("acceptor".to_owned()).spawn({
            let (pool, over, service) = (pool.clone(), Arc::clone(&over), options.service);
            let refusals = Refusals::new()?;
            move || {
                for connection in listener.incoming() {
                    if over.load(SeqCst) {
                        return;
                    }
                    if let Ok(connection) = connection {
                        answer(&pool, &refusals, connection, service);
                    }
                }
            }
        })?;
        Ok(Self { pool, address, over, acceptor })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn stop(self) {
        self.over.store(true, SeqCst);
        // It looks at that when somebody connects.
        drop(TcpStream::connect(self.address));
        let _ = self.acceptor.join();
        self.pool.shutdown(Shutdown::Discard, None);
    }
}

fn answer(pool: &Pool, refusals: &Refusals, mut connection: TcpStream, service: Duration) {
    // The slot comes before the request is read, so that a refusal costs next to nothing.
    let Ok(permit) = pool.try_reserve() else {
        return refusals.refuse(pool, connection);
    };
    let own = pool.clone();
    let job = move || {
        // A client that is gone gets no answer; there is nobody to tell.
        let _ = connection.set_read_timeout(Some(PATIENCE));
        let mut request = [0; 4];
        if connection.read_exact(&mut request).is_ok() {
            thread::sleep(service);
            let _ = Answer::write(true, &own.load(), &mut connection);
        }
    };
    // Refused only when the pool is closed: then nobody waits for answers any more.
    if let Ok(handle) = permit.submit(job) {
        drop(handle);
    }
}

/// Who was refused and is not closed yet.
struct Refusals {
    #[cfg(unix)]
    held: TcpRefusal,
}

impl Refusals {
    fn new() -> Result<Self, AnyError> {
        Ok(Self {
            #[cfg(unix)]
            held: TcpRefusal::builder().linger(Duration::from_secs(1)).build()?,
        })
    }

    /// Answers that there is no room.
    #[cfg(unix)]
    fn refuse(&self, pool: &Pool, connection: TcpStream) {
        self.held.refuse(connection, Answer::text(false, &pool.load()));
    }

    /// Answers that there is no room, and closes: if the client has sent more than was read, its system
    /// may drop the answer.
    #[cfg(not(unix))]
    fn refuse(&self, pool: &Pool, mut connection: TcpStream) {
        let _ = Answer::write(false, &pool.load(), &mut connection);
    }
}
