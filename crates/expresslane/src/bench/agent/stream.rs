//! Bytes between a coordinator and an agent: a handshake with a deadline, then frames.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use load::agents::Breach;
use load::agents::frame::{ORDER_SIZE_MAX, Opener, REPORT_SIZE_MAX, Sealer};
use load::agents::handshake::{Called, Calling, GREETING_SIZE, Nonce, PROOF_SIZE, Secret};
use load::agents::message::{self};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::settings::AgentAddress;
use crate::machine;

/// How long a handshake takes at most, and one write.
const PATIENCE: Duration = Duration::from_secs(5);
/// Without a word from the other side for so long it is taken for lost. Both sides say something twice a second.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(3);
/// Bytes read at once.
const READ_SIZE: usize = 1 << 16;

/// What is said.
pub(super) struct Outgoing {
    stream: TcpStream,
    sealer: Sealer,
}

/// What is heard.
pub(super) struct Incoming {
    stream: TcpStream,
    opener: Opener,
    bytes: Vec<u8>,
}

impl Outgoing {
    /// Sends it.
    ///
    /// # Errors
    /// The other side is not there any more, or takes nothing.
    pub(super) fn send(&mut self, message: &impl Serialize) -> Result<(), String> {
        let frame = self.sealer.seal(&message::written(message)).ok_or("a message that is too large")?;
        self.stream.write_all(&frame).map_err(|error| gone(&error))
    }

    /// Ends the connection for both directions, whoever waits for it.
    pub(super) fn close(&self) {
        // It may be closed already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Incoming {
    /// The next message. It waits for [`SILENCE_MAX`].
    ///
    /// # Errors
    /// There will be none.
    pub(super) fn next<M: DeserializeOwned>(&mut self) -> Result<M, String> {
        loop {
            if let Some(body) = self.opener.next().map_err(|breach| breach.to_string())? {
                return message::read(&body).map_err(|breach| breach.to_string());
            }
            match self.stream.read(&mut self.bytes) {
                Ok(0) => return Err("it hung up".to_owned()),
                Ok(size) => self.opener.feed(&self.bytes[..size]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(gone(&error)),
            }
        }
    }
}

fn gone(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            format!("nothing was heard of it for {} s", SILENCE_MAX.as_secs())
        }
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => "it hung up".to_owned(),
        _ => error.to_string(),
    }
}

/// The coordinator's end, when both have proved themselves.
///
/// # Errors
/// Nobody is there, or somebody else.
pub(super) fn call(address: &AgentAddress, secret: Secret) -> Result<(Outgoing, Incoming), String> {
    let mut stream = connect(address)?;
    let mut shaking = Shaking::new(&mut stream)?;
    let (calling, hello) = Calling::new(secret, &nonce()?);
    shaking.write(&hello)?;
    let challenge =
        shaking.read::<GREETING_SIZE>()?.ok_or("it hung up: it has too many callers, or is no agent")?;
    let (proving, proof) = calling.challenged(&challenge).map_err(|breach| breach.to_string())?;
    shaking.write(&proof)?;
    // An agent that does not believe says nothing.
    let proof = shaking.read::<PROOF_SIZE>()?.ok_or_else(|| Breach::Secret.to_string())?;
    let keys = proving.proved(&proof).map_err(|breach| breach.to_string())?;
    ends(stream, Sealer::new(keys.to_agent), Opener::new(keys.to_coordinator, REPORT_SIZE_MAX))
}

/// The agent's end, when both have proved themselves.
///
/// # Errors
/// Whoever called is no coordinator.
pub(super) fn answer(mut stream: TcpStream, secret: Secret) -> Result<(Outgoing, Incoming), String> {
    let mut shaking = Shaking::new(&mut stream)?;
    let hello = shaking.read::<GREETING_SIZE>()?.ok_or("it hung up without a word")?;
    let (challenge, called) = Called::new(secret, &nonce()?, &hello);
    shaking.write(&challenge)?;
    let called = called.map_err(|breach| breach.to_string())?;
    let proof = shaking.read::<PROOF_SIZE>()?.ok_or("it hung up without a proof")?;
    let (keys, proof) = called.proved(&proof).map_err(|breach| breach.to_string())?;
    shaking.write(&proof)?;
    ends(stream, Sealer::new(keys.to_coordinator), Opener::new(keys.to_agent, ORDER_SIZE_MAX))
}

fn ends(stream: TcpStream, sealer: Sealer, opener: Opener) -> Result<(Outgoing, Incoming), String> {
    let set = || {
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.try_clone()
    };
    let other = set().map_err(|error| error.to_string())?;
    Ok((Outgoing { stream: other, sealer }, Incoming { stream, opener, bytes: vec![0; READ_SIZE] }))
}

fn connect(address: &AgentAddress) -> Result<TcpStream, String> {
    let wanted = if address.has_zone() { "its interface one of this machine's" } else { "its name right" };
    let unknown = |error| format!("{error}: is {wanted}?");
    let mut problem = unknown("the host has no address".to_owned());
    for address in address.host_and_port().to_socket_addrs().map_err(|error| unknown(error.to_string()))? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => problem = format!("{error}; is `expresslane bench agent` started there?"),
        }
    }
    Err(problem)
}

/// Thirty-two bytes that nobody knows, from the kernel.
fn nonce() -> Result<Nonce, String> {
    let mut nonce = Nonce::default();
    for part in nonce.chunks_exact_mut(16) {
        let words = machine::secret().map_err(|error| format!("the kernel gives no chance: {error}"))?;
        part[..8].copy_from_slice(&words[0].to_ne_bytes());
        part[8..].copy_from_slice(&words[1].to_ne_bytes());
    }
    Ok(nonce)
}

/// A connection during its handshake, which ends in time however slowly bytes trickle.
struct Shaking<'a> {
    stream: &'a mut TcpStream,
    until: Instant,
}

#[expect(clippy::disallowed_methods, reason = "a deadline of a conversation with another host")]
impl<'a> Shaking<'a> {
    fn new(stream: &'a mut TcpStream) -> Result<Shaking<'a>, String> {
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
        Ok(Shaking { stream, until: Instant::now() + PATIENCE })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stream.write_all(bytes).map_err(|error| gone(&error))
    }

    /// So many bytes. None: it hung up.
    fn read<const SIZE: usize>(&mut self) -> Result<Option<[u8; SIZE]>, String> {
        let mut bytes = [0; SIZE];
        let mut size = 0;
        while size < SIZE {
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!("it has not introduced itself in {} s", PATIENCE.as_secs()));
            }
            self.stream.set_read_timeout(Some(left)).map_err(|error| error.to_string())?;
            match self.stream.read(&mut bytes[size..]) {
                Ok(0) => return Ok(None),
                Ok(more) => size += more,
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => {}
                    ErrorKind::ConnectionReset => return Ok(None),
                    _ => return Err(error.to_string()),
                },
            }
        }
        Ok(Some(bytes))
    }
}
