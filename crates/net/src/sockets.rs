//! What the nets over the system's sockets have in common beyond [`Net`] and [`Wait`], for whoever chooses one.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use crate::epoll::{Epoll, TcpOptions};
use crate::uring::Uring;
use crate::{Address, Limits, ListenerId, Net, Wait};

/// A net over sockets. Each method does what the type's own of that name says.
pub trait Sockets: Net + Wait + Sized {
    /// Without listeners.
    ///
    /// # Errors
    /// The system gives none.
    fn make(limits: Limits) -> io::Result<Self>;

    /// Listens at a TCP address; see [`Epoll::listen_tcp`].
    ///
    /// # Errors
    /// As there.
    fn listen_tcp(&mut self, address: SocketAddr, options: &TcpOptions) -> io::Result<ListenerId>;

    /// Listens at a path; see [`Epoll::listen_unix`].
    ///
    /// # Errors
    /// As there.
    fn listen_unix(&mut self, path: &Path, mode: u32, backlog: u32) -> io::Result<ListenerId>;

    /// The address a listener is bound to.
    fn listener_address(&self, listener: ListenerId) -> Address;

    /// Stops listening anywhere; connections go on.
    fn stop_listening(&mut self);

    /// Lets the kernel poll the network card before a sleep; see [`Epoll::set_busy_poll`].
    ///
    /// # Errors
    /// `Unsupported` where the kernel is too old.
    fn set_busy_poll(&mut self, duration_us: u32) -> io::Result<()>;
}

/// Passes everything on to the methods of the same name.
macro_rules! pass_on {
    ($type:ty) => {
        impl Sockets for $type {
            fn make(limits: Limits) -> io::Result<Self> {
                <$type>::new(limits)
            }

            fn listen_tcp(&mut self, address: SocketAddr, options: &TcpOptions) -> io::Result<ListenerId> {
                <$type>::listen_tcp(self, address, options)
            }

            fn listen_unix(&mut self, path: &Path, mode: u32, backlog: u32) -> io::Result<ListenerId> {
                <$type>::listen_unix(self, path, mode, backlog)
            }

            fn listener_address(&self, listener: ListenerId) -> Address {
                <$type>::listener_address(self, listener)
            }

            fn stop_listening(&mut self) {
                <$type>::stop_listening(self);
            }

            fn set_busy_poll(&mut self, duration_us: u32) -> io::Result<()> {
                <$type>::set_busy_poll(self, duration_us)
            }
        }
    };
}

pass_on!(Epoll);
pass_on!(Uring);
