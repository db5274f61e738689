//! `TcpRefusal`: refused clients read their whole answer, and nobody lingers for longer than
//! allowed.
#![cfg(unix)]

#[path = "../common/mod.rs"]
mod common;

mod net;
mod refusals;

// The stories.
mod answers;
mod bounds;
mod ending;
mod figures;
mod lingering;
mod thread;

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use weirpool::hold::{Answer, TcpRefusal};

#[test]
fn handles_are_what_they_should_be() {
    fn check<T: Clone + Send + Sync + UnwindSafe + RefUnwindSafe + std::fmt::Debug>(_: &T) {}
    let refusal = TcpRefusal::new().unwrap();
    check(&refusal);
    assert!(format!("{refusal:?}").contains("held: 0"));
    assert!(format!("{:?}", TcpRefusal::builder()).contains("max_connections: 256"));
    let shared: Arc<[u8]> = Arc::from(&b"abc"[..]);
    let same = |answer: Answer| assert_eq!(answer.bytes(), b"abc");
    same("abc".into());
    same(b"abc".into());
    same((&b"abc"[..]).into());
    same(shared.into());
    same(vec![b'a', b'b', b'c'].into());
    same(String::from("abc").into());
}
