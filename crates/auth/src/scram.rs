//! SCRAM, the server's side (RFC 5802, RFC 7677): a client shows that it knows the password, and so does the server, and
//! neither sends it.
//!
//! ```text
//! client-first   n,,n=user,r=c                     no channel binding, and no other name to act for
//! server-first   r=cs,s=salt,i=iterations          c: the client's nonce, s: the server's; salt in base64
//! client-final   c=biws,r=cs,p=proof               "biws" is "n,," in base64
//! server-final   v=signature
//!
//! SaltedPassword  = PBKDF2(HMAC, password, salt, iterations)
//! StoredKey       = H(HMAC(SaltedPassword, "Client Key"))      ServerKey = HMAC(SaltedPassword, "Server Key")
//! AuthMessage     = client-first without "n,,", server-first, client-final without proof, joined by commas
//! proof           = HMAC(SaltedPassword, "Client Key") xor HMAC(StoredKey, AuthMessage)
//! signature       = HMAC(ServerKey, AuthMessage)
//! ```
//! The user may be any, as there is one password. Passwords are taken as bytes: no client of Couchbase prepares them (SASLprep).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use crate::is_same;

/// Rounds of PBKDF2, as Couchbase's servers have by default.
pub const ITERATIONS: u32 = 4096;
/// Longest message of a client, bytes; what is longer is refused before it is looked at.
pub const MESSAGE_SIZE_MAX: usize = 4096;

/// Which hash is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// `SCRAM-SHA1`, which is SCRAM-SHA-1 in Couchbase's words.
    Sha1,
    /// `SCRAM-SHA256`.
    Sha256,
    /// `SCRAM-SHA512`.
    Sha512,
}

/// The client does not know the password, or its message is none of SCRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

impl Mechanism {
    /// All, the strongest first.
    pub const ALL: [Mechanism; 3] = [Mechanism::Sha512, Mechanism::Sha256, Mechanism::Sha1];

    /// As Couchbase names it.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Sha1 => "SCRAM-SHA1",
            Mechanism::Sha256 => "SCRAM-SHA256",
            Mechanism::Sha512 => "SCRAM-SHA512",
        }
    }

    /// The one with this name.
    pub fn of(name: &[u8]) -> Option<Mechanism> {
        Mechanism::ALL.into_iter().find(|mechanism| mechanism.name().as_bytes() == name)
    }

    fn hmac(self, key: &[u8], message: &[u8]) -> Vec<u8> {
        fn of<M: Mac + KeyInit>(key: &[u8], message: &[u8]) -> Vec<u8> {
            let mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any size");
            mac.chain_update(message).finalize().into_bytes().to_vec()
        }
        match self {
            Mechanism::Sha1 => of::<Hmac<Sha1>>(key, message),
            Mechanism::Sha256 => of::<Hmac<Sha256>>(key, message),
            Mechanism::Sha512 => of::<Hmac<Sha512>>(key, message),
        }
    }

    fn hash(self, message: &[u8]) -> Vec<u8> {
        match self {
            Mechanism::Sha1 => Sha1::digest(message).to_vec(),
            Mechanism::Sha256 => Sha256::digest(message).to_vec(),
            Mechanism::Sha512 => Sha512::digest(message).to_vec(),
        }
    }

    fn salted(self, password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
        let mut salted = self.hash(b"");
        match self {
            Mechanism::Sha1 => pbkdf2::pbkdf2_hmac::<Sha1>(password, salt, iterations, &mut salted),
            Mechanism::Sha256 => pbkdf2::pbkdf2_hmac::<Sha256>(password, salt, iterations, &mut salted),
            Mechanism::Sha512 => pbkdf2::pbkdf2_hmac::<Sha512>(password, salt, iterations, &mut salted),
        }
        salted
    }
}

/// What a server keeps of a password: enough to look through a client's proof, not enough to make one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verifier {
    mechanism: Mechanism,
    salt: Vec<u8>,
    iterations: u32,
    stored_key: Vec<u8>,
    server_key: Vec<u8>,
}

impl Verifier {
    /// Made of the password with a salt that other servers do not have. It costs milliseconds.
    pub fn new(mechanism: Mechanism, password: &[u8], salt: &[u8], iterations: u32) -> Verifier {
        let salted = mechanism.salted(password, salt, iterations);
        Verifier {
            mechanism,
            salt: salt.to_vec(),
            iterations,
            stored_key: mechanism.hash(&mechanism.hmac(&salted, b"Client Key")),
            server_key: mechanism.hmac(&salted, b"Server Key"),
        }
    }

    /// Which hash it uses.
    pub fn mechanism(&self) -> Mechanism {
        self.mechanism
    }
}

/// A client has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    verifier: Verifier,
    /// Of the client and the server.
    nonce: String,
    /// The part of AuthMessage that is known: client-first and server-first.
    message: String,
}

impl Exchange {
    /// Takes client-first; gives server-first. `nonce` is the server's own: printable, without commas, and not to be guessed.
    ///
    /// # Errors
    /// Not a client-first, one that wants channel binding, or one that acts for somebody else.
    pub fn begin(
        verifier: &Verifier,
        client_first: &[u8],
        nonce: &str,
    ) -> Result<(Exchange, Vec<u8>), Refused> {
        let text = printable(client_first)?;
        // "y": the client could bind channels, and thinks that the server can't, which is so.
        let bare = text.strip_prefix("n,,").or_else(|| text.strip_prefix("y,,")).ok_or(Refused)?;
        let mut fields = bare.split(',');
        fields.next().and_then(|user| user.strip_prefix("n=")).ok_or(Refused)?;
        let theirs = fields.next().and_then(|nonce| nonce.strip_prefix("r=")).ok_or(Refused)?;
        if theirs.is_empty() {
            return Err(Refused);
        }
        let nonce = format!("{theirs}{nonce}");
        let salt = STANDARD.encode(&verifier.salt);
        let server_first = format!("r={nonce},s={salt},i={}", verifier.iterations);
        let message = format!("{bare},{server_first}");
        Ok((Exchange { verifier: verifier.clone(), nonce, message }, server_first.into_bytes()))
    }

    /// Takes client-final; gives server-final, which proves that the server knows the password too.
    ///
    /// # Errors
    /// The proof is of another password, or the message none of this exchange.
    pub fn finish(self, client_final: &[u8]) -> Result<Vec<u8>, Refused> {
        let text = printable(client_final)?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or(Refused)?;
        let mut fields = without_proof.split(',');
        // "n,," and "y,,", which is what the client has said of channels.
        fields.next().filter(|binding| matches!(*binding, "c=biws" | "c=eSws")).ok_or(Refused)?;
        let nonce = fields.next().and_then(|nonce| nonce.strip_prefix("r=")).ok_or(Refused)?;
        let proof = STANDARD.decode(proof).map_err(|_| Refused)?;
        let Verifier { mechanism, stored_key, server_key, .. } = &self.verifier;
        let message = format!("{},{without_proof}", self.message);
        let signature = mechanism.hmac(stored_key, message.as_bytes());
        let client_key: Vec<u8> =
            proof.iter().zip(&signature).map(|(proof, signature)| proof ^ signature).collect();
        let is_proved = proof.len() == signature.len() && is_same(&mechanism.hash(&client_key), stored_key);
        if !is_proved || !is_same(nonce.as_bytes(), self.nonce.as_bytes()) {
            return Err(Refused);
        }
        let signature = mechanism.hmac(server_key, message.as_bytes());
        Ok(format!("v={}", STANDARD.encode(signature)).into_bytes())
    }
}

/// A message as text. RFC 5802 has UTF-8 in names, which are not looked at.
fn printable(message: &[u8]) -> Result<&str, Refused> {
    if message.len() > MESSAGE_SIZE_MAX {
        return Err(Refused);
    }
    std::str::from_utf8(message).map_err(|_| Refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two messages of a client and what the server answers.
    struct Example {
        mechanism: Mechanism,
        salt: &'static str,
        client_first: &'static str,
        nonce: &'static str,
        server_first: &'static str,
        client_final: &'static str,
        server_final: &'static str,
    }

    /// Those of RFC 5802 and RFC 7677; with SHA-512 as Python's `hashlib` computes it.
    const EXAMPLES: [Example; 3] = [
        Example {
            mechanism: Mechanism::Sha1,
            salt: "QSXCR+Q6sek8bf92",
            client_first: "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
            nonce: "3rfcNHYJY1ZVvWVs7j",
            server_first: "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
            client_final: "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
            server_final: "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
        },
        Example {
            mechanism: Mechanism::Sha256,
            salt: "W22ZaJ0SNY7soEsUEjb6gQ==",
            client_first: "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
            nonce: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
            server_first: "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            client_final: "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
            server_final: "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        },
        Example {
            mechanism: Mechanism::Sha512,
            salt: "QSXCR+Q6sek8bf92",
            client_first: "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
            nonce: "3rfcNHYJY1ZVvWVs7j",
            server_first: "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
            client_final: "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=VdS8LkrURiej1tG6iX+fqCXQfUnBb//d9llXYaH+ylUbDwBUz9geyR9fC4TewskRUM2tlYSalhAT4Aay1Q5dTA==",
            server_final: "v=14PAAuavk9hxBEkgB0brDxUhvWu+N16meYk+qxVNFqchR8QPohM09Y4Z6WaTCuX4C6nqMB9KIJTDm6RpSM990g==",
        },
    ];

    impl Example {
        fn begin(&self, password: &str) -> (Exchange, Vec<u8>) {
            let salt = STANDARD.decode(self.salt).unwrap();
            let verifier = Verifier::new(self.mechanism, password.as_bytes(), &salt, ITERATIONS);
            Exchange::begin(&verifier, self.client_first.as_bytes(), self.nonce).unwrap()
        }
    }

    #[test]
    fn who_knows_the_password_is_let_in_and_told_that_the_server_knows_it() {
        for example in EXAMPLES {
            let (exchange, server_first) = example.begin("pencil");
            assert_eq!(String::from_utf8(server_first).unwrap(), example.server_first);
            let server_final = exchange.finish(example.client_final.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(server_final).unwrap(), example.server_final);
        }
    }

    #[test]
    fn whoever_does_not_is_refused() {
        for example in EXAMPLES {
            let (other, _) = example.begin("pencil ");
            assert_eq!(other.finish(example.client_final.as_bytes()), Err(Refused));
            // Any byte of the last message that is another one.
            for index in 0..example.client_final.len() {
                let mut message = example.client_final.as_bytes().to_vec();
                message[index] ^= 1;
                let (exchange, _) = example.begin("pencil");
                assert_eq!(exchange.finish(&message), Err(Refused), "byte {index}");
            }
            for end in 0..example.client_final.len() {
                let (exchange, _) = example.begin("pencil");
                assert_eq!(
                    exchange.finish(&example.client_final.as_bytes()[..end]),
                    Err(Refused),
                    "{end} bytes"
                );
            }
        }
    }

    #[test]
    fn what_is_no_client_first_is_refused() {
        let verifier = Verifier::new(Mechanism::Sha1, b"pencil", b"salt", 1);
        let long = format!("n,,n=user,r={}", "x".repeat(MESSAGE_SIZE_MAX));
        for message in [
            "",
            "n,,",
            "n,,n=user",
            "n,,n=user,r=",
            "n,,r=nonce,n=user",
            "n,a=admin,n=user,r=nonce",
            "p=tls-unique,,n=user,r=nonce",
            &long,
        ] {
            assert_eq!(Exchange::begin(&verifier, message.as_bytes(), "s").err(), Some(Refused), "{message}");
        }
        assert!(Exchange::begin(&verifier, b"n,,n=\xff,r=nonce", "s").is_err());
        assert!(Exchange::begin(&verifier, b"y,,n=user,r=nonce", "s").is_ok());
    }

    #[test]
    fn mechanisms_have_their_names() {
        for mechanism in Mechanism::ALL {
            assert_eq!(Mechanism::of(mechanism.name().as_bytes()), Some(mechanism));
        }
        assert_eq!(Mechanism::of(b"PLAIN"), None);
        assert_eq!(Verifier::new(Mechanism::Sha256, b"", b"", 1).mechanism(), Mechanism::Sha256);
    }
}
