//! Who is there: both sides prove that they know one secret, and neither sends it.
//!
//! ```text
//! greeting   "XLAGENTS" ‖ version u32 ‖ nonce 32 bytes             44 bytes, numbers in network order
//! proof      HMAC-SHA256(secret, role ‖ hello ‖ challenge)         32 bytes; role is "coordinator" or "agent", 16 bytes with zeros
//! key        HMAC-SHA256(secret, direction ‖ hello ‖ challenge)    one for each direction
//! ```
//! The coordinator proves first, so that somebody who only knocks at an agent's port learns nothing to guess the secret with.
//! Roles differ, so that no proof is of use when it is sent back; both nonces are in all of it, so that none is of use later.
//! An agent's proof says that it knows the secret, not which agent it is.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::{Breach, VERSION};

const MAGIC: &[u8; 8] = b"XLAGENTS";
/// Bytes of chance.
pub const NONCE_SIZE: usize = 32;
/// Of a hello and of a challenge.
pub const GREETING_SIZE: usize = MAGIC.len() + size_of::<u32>() + NONCE_SIZE;
/// Of a proof and of a key.
pub const PROOF_SIZE: usize = 32;
/// Of a secret, in bytes: what is shorter is guessed by whoever has listened once.
pub const SECRET_SIZE_MIN: usize = 16;
/// So that a wrong file is noticed.
pub const SECRET_SIZE_MAX: usize = 4096;
/// Bytes of a role.
const ROLE_SIZE: usize = 16;

const COORDINATOR: &[u8; ROLE_SIZE] = b"coordinator\0\0\0\0\0";
const AGENT: &[u8; ROLE_SIZE] = b"agent\0\0\0\0\0\0\0\0\0\0\0";
const TO_AGENT: &[u8; ROLE_SIZE] = b"key to agent\0\0\0\0";
const TO_COORDINATOR: &[u8; ROLE_SIZE] = b"key to coordin.\0";

/// Hello or challenge.
pub type Greeting = [u8; GREETING_SIZE];
/// Nobody may know it beforehand, and none is used twice.
pub type Nonce = [u8; NONCE_SIZE];

/// What both sides know. It is never printed.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// From a file or a variable; space around it is no part of it.
    ///
    /// # Errors
    /// It is too short to be one, or too long.
    pub fn new(text: &str) -> Result<Secret, String> {
        let text = text.trim();
        if (SECRET_SIZE_MIN..=SECRET_SIZE_MAX).contains(&text.len()) {
            Ok(Secret(text.as_bytes().to_vec()))
        } else {
            Err(format!(
                "a secret has {SECRET_SIZE_MIN} to {SECRET_SIZE_MAX} bytes, and this one {}: make one with `openssl rand -hex 32`",
                text.len()
            ))
        }
    }

    /// Anybody may be there: for agents that only this machine can reach.
    pub fn none() -> Secret {
        Secret(Vec::new())
    }

    fn mac(&self, role: &[u8; ROLE_SIZE], hello: &Greeting, challenge: &Greeting) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(role);
        mac.update(hello);
        mac.update(challenge);
        mac
    }

    fn digest(&self, role: &[u8; ROLE_SIZE], hello: &Greeting, challenge: &Greeting) -> [u8; PROOF_SIZE] {
        self.mac(role, hello, challenge).finalize().into_bytes().into()
    }

    fn keys(&self, hello: &Greeting, challenge: &Greeting) -> Keys {
        Keys {
            to_agent: Key(self.digest(TO_AGENT, hello, challenge)),
            to_coordinator: Key(self.digest(TO_COORDINATOR, hello, challenge)),
        }
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// Of one direction of one connection.
pub struct Key(pub(super) [u8; PROOF_SIZE]);

/// Of a connection whose both ends have proved themselves.
pub struct Keys {
    /// Of what the coordinator says.
    pub to_agent: Key,
    /// Of what the agent says.
    pub to_coordinator: Key,
}

fn greeting(version: u32, nonce: &Nonce) -> Greeting {
    let mut greeting = [0; GREETING_SIZE];
    greeting[..8].copy_from_slice(MAGIC);
    greeting[8..12].copy_from_slice(&version.to_be_bytes());
    greeting[12..].copy_from_slice(nonce);
    greeting
}

/// Whether somebody who greets so can be spoken to.
fn check(greeting: &Greeting) -> Result<(), Breach> {
    if &greeting[..8] != MAGIC {
        return Err(Breach::Stranger);
    }
    let version = u32::from_be_bytes([greeting[8], greeting[9], greeting[10], greeting[11]]);
    if version == VERSION { Ok(()) } else { Err(Breach::Version(version)) }
}

/// A coordinator that has said hello.
pub struct Calling {
    secret: Secret,
    hello: Greeting,
}

impl Calling {
    /// Also the hello to be sent.
    pub fn new(secret: Secret, nonce: &Nonce) -> (Calling, Greeting) {
        let hello = greeting(VERSION, nonce);
        (Calling { secret, hello }, hello)
    }

    /// The challenge has come; also the proof to be sent.
    ///
    /// # Errors
    /// Whoever it came from is no agent of this version.
    pub fn challenged(self, challenge: &Greeting) -> Result<(Proving, [u8; PROOF_SIZE]), Breach> {
        check(challenge)?;
        if *challenge == self.hello {
            return Err(Breach::Mirror);
        }
        let proof = self.secret.digest(COORDINATOR, &self.hello, challenge);
        Ok((Proving { calling: self, challenge: *challenge }, proof))
    }
}

/// A coordinator that has proved itself and waits for the same.
pub struct Proving {
    calling: Calling,
    challenge: Greeting,
}

impl Proving {
    /// The agent's proof has come.
    ///
    /// # Errors
    /// It is none.
    pub fn proved(self, proof: &[u8; PROOF_SIZE]) -> Result<Keys, Breach> {
        let Calling { secret, hello } = &self.calling;
        secret.mac(AGENT, hello, &self.challenge).verify_slice(proof).map_err(|_| Breach::Secret)?;
        Ok(secret.keys(hello, &self.challenge))
    }
}

/// An agent that was said hello to.
pub struct Called {
    secret: Secret,
    hello: Greeting,
    challenge: Greeting,
}

impl Called {
    /// The challenge, to be sent in any case, so that somebody of another version learns of it; and how it goes on.
    pub fn new(secret: Secret, nonce: &Nonce, hello: &Greeting) -> (Greeting, Result<Called, Breach>) {
        let challenge = greeting(VERSION, nonce);
        (challenge, check(hello).map(|()| Called { secret, hello: *hello, challenge }))
    }

    /// The coordinator's proof has come; also the agent's own, to be sent.
    ///
    /// # Errors
    /// It is none.
    pub fn proved(self, proof: &[u8; PROOF_SIZE]) -> Result<(Keys, [u8; PROOF_SIZE]), Breach> {
        let Called { secret, hello, challenge } = &self;
        secret.mac(COORDINATOR, hello, challenge).verify_slice(proof).map_err(|_| Breach::Secret)?;
        Ok((secret.keys(hello, challenge), secret.digest(AGENT, hello, challenge)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text).unwrap()
    }

    const ONE: &str = "a secret of some length";
    const OTHER: &str = "a secret of some lengtH";

    /// Both sides, with their secrets; what is between them may change each thing that is sent.
    fn shake(
        coordinator: &str,
        agent: &str,
        mut between: impl FnMut(usize, &mut [u8]),
    ) -> Result<(Keys, Keys), Breach> {
        let (calling, mut hello) = Calling::new(secret(coordinator), &[1; NONCE_SIZE]);
        between(0, &mut hello);
        let (mut challenge, called) = Called::new(secret(agent), &[2; NONCE_SIZE], &hello);
        between(1, &mut challenge);
        let (proving, mut proof) = calling.challenged(&challenge)?;
        between(2, &mut proof);
        let (agents, mut proof) = called?.proved(&proof)?;
        between(3, &mut proof);
        Ok((proving.proved(&proof)?, agents))
    }

    #[test]
    fn who_knows_the_secret_is_known_and_both_have_the_same_keys() {
        let (coordinators, agents) = shake(ONE, ONE, |_, _| {}).unwrap();
        assert_eq!(coordinators.to_agent.0, agents.to_agent.0);
        assert_eq!(coordinators.to_coordinator.0, agents.to_coordinator.0);
        assert_ne!(coordinators.to_agent.0, coordinators.to_coordinator.0);
        assert_eq!(shake(ONE, OTHER, |_, _| {}).err(), Some(Breach::Secret));
    }

    /// Each byte of each message counts.
    #[test]
    fn a_change_of_any_byte_on_the_way_is_noticed() {
        for (message, size) in [(0, GREETING_SIZE), (1, GREETING_SIZE), (2, PROOF_SIZE), (3, PROOF_SIZE)] {
            for at in 0..size {
                let fate = shake(ONE, ONE, |number, bytes| {
                    if number == message {
                        bytes[at] ^= 1;
                    }
                });
                assert!(fate.is_err(), "byte {at} of message {message}");
            }
        }
    }

    #[test]
    fn another_version_is_named() {
        let newer = greeting(VERSION + 1, &[2; NONCE_SIZE]);
        let (calling, hello) = Calling::new(secret(ONE), &[1; NONCE_SIZE]);
        assert_eq!(calling.challenged(&newer).err(), Some(Breach::Version(VERSION + 1)));
        let (challenge, called) = Called::new(secret(ONE), &[2; NONCE_SIZE], &newer);
        assert_eq!((called.err(), check(&challenge)), (Some(Breach::Version(VERSION + 1)), Ok(())));
        let mut http = hello;
        http[..4].copy_from_slice(b"GET ");
        assert_eq!(Called::new(secret(ONE), &[2; NONCE_SIZE], &http).1.err(), Some(Breach::Stranger));
    }

    /// Somebody without the secret sends back what he is sent, to a coordinator and to an agent.
    #[test]
    fn a_mirror_is_no_agent() {
        let (calling, hello) = Calling::new(secret(ONE), &[1; NONCE_SIZE]);
        assert_eq!(calling.challenged(&hello).err(), Some(Breach::Mirror));
        let (calling, _) = Calling::new(secret(ONE), &[1; NONCE_SIZE]);
        let (proving, proof) = calling.challenged(&greeting(VERSION, &[7; NONCE_SIZE])).unwrap();
        assert_eq!(proving.proved(&proof).err(), Some(Breach::Secret), "its own proof is not an agent's");
    }

    /// What was heard once opens nothing later: the other side's nonce is a new one.
    #[test]
    fn a_proof_is_of_use_once() {
        let (calling, hello) = Calling::new(secret(ONE), &[1; NONCE_SIZE]);
        let (challenge, _) = Called::new(secret(ONE), &[2; NONCE_SIZE], &hello);
        let (_, proof) = calling.challenged(&challenge).unwrap();
        let (_, again) = Called::new(secret(ONE), &[3; NONCE_SIZE], &hello);
        assert_eq!(again.unwrap().proved(&proof).err(), Some(Breach::Secret));
    }

    #[test]
    fn a_secret_has_a_length_and_is_not_printed() {
        assert!(Secret::new("  short\n").is_err() && Secret::new(&"x".repeat(SECRET_SIZE_MAX + 1)).is_err());
        let same = Secret::new(&format!("\n {ONE} \n")).unwrap();
        assert_eq!(same.0, ONE.as_bytes());
        assert!(!format!("{same:?}").contains("length"));
    }
}
