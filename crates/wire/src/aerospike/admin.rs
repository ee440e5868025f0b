//! Security requests (`as_admin.c` of the C client).
//!
//! ```text
//! scheme 0 | result | command | field count | 12 zero bytes      then fields: size u32 | id u8 | data; the size counts the id
//! ```

use super::code::Code;
use super::message::PROTO_VERSION;
use super::reply::put_field_header;
use crate::reply::Put;

/// Bytes of a field in front of its data, as in messages.
const FIELD_HEADER_SIZE: usize = 5;
/// Bytes of a security message's own header.
pub(super) const ADMIN_HEADER_SIZE: usize = 16;
/// Largest security request that is looked at. A larger one closes the connection.
pub(super) const ADMIN_SIZE_MAX: u64 = 16 * 1024;

/// What a session says of its end, seconds. Tokens do not end by time: a client that renews one gets the same again.
const SESSION_TTL_S: u32 = 86_400;

pub(super) const AUTHENTICATE: u8 = 0;
pub(super) const LOGIN: u8 = 20;

pub(super) const USER: u8 = 0;
pub(super) const CREDENTIAL: u8 = 3;
pub(super) const SESSION_TOKEN: u8 = 5;
const SESSION_TTL: u8 = 6;

/// What a security request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// A session, for the password's credential.
    Login {
        /// The password's bcrypt with Aerospike's salt.
        credential: &'a [u8],
    },
    /// To go on with a session, or with the credential itself, as older clients do.
    Authenticate {
        /// The token, or the credential.
        proof: &'a [u8],
    },
    /// Something else: to manage users, which there are not.
    Other,
    /// It has no field with a credential or a token.
    Incomplete,
}

impl<'a> Request<'a> {
    /// Reads the body of a security request: what stands behind the frame's header. Nothing if it is cut.
    pub fn parse(body: &'a [u8]) -> Option<Request<'a>> {
        let (header, mut rest) = body.split_first_chunk::<ADMIN_HEADER_SIZE>()?;
        let (mut credential, mut token) = (None, None);
        for _ in 0..header[3] {
            let (size, behind) = rest.split_first_chunk::<4>()?;
            let size = usize::try_from(u32::from_be_bytes(*size)).ok()?;
            let (field, behind) = behind.split_at_checked(size)?;
            let (&id, data) = field.split_first()?;
            match id {
                CREDENTIAL => credential = Some(data),
                SESSION_TOKEN => token = Some(data),
                _ => {}
            }
            rest = behind;
        }
        Some(match (header[2], credential, token) {
            (LOGIN, Some(credential), _) => Request::Login { credential },
            (AUTHENTICATE, _, Some(proof)) | (AUTHENTICATE, Some(proof), None) => {
                Request::Authenticate { proof }
            }
            (LOGIN | AUTHENTICATE, ..) => Request::Incomplete,
            _ => Request::Other,
        })
    }
}

/// Writes the reply to a security request: a result, and the session's token if there is one.
pub fn put(out: &mut impl Put, body: &[u8], code: Code, token: Option<&[u8]>) {
    let command = body.get(2).copied().unwrap_or_default();
    let ttl = SESSION_TTL_S.to_be_bytes();
    match token {
        None => put_message(out, code, command, &[]),
        Some(token) => put_message(out, code, command, &[(SESSION_TOKEN, token), (SESSION_TTL, &ttl)]),
    }
}

/// Writes a request with these fields.
pub(super) fn put_request(out: &mut impl Put, command: u8, fields: &[(u8, &[u8])]) {
    put_message(out, Code::OK, command, fields);
}

fn put_message(out: &mut impl Put, code: Code, command: u8, fields: &[(u8, &[u8])]) {
    let fields_size: usize = fields.iter().map(|(_, data)| FIELD_HEADER_SIZE + data.len()).sum();
    let size = u32::try_from(ADMIN_HEADER_SIZE + fields_size).expect("a token is short");
    let [a, b, c, d] = size.to_be_bytes();
    out.put(&[PROTO_VERSION, super::message::kind::ADMIN, 0, 0, a, b, c, d]);
    out.put(&[0, code.0, command, fields.len().to_le_bytes()[0]]);
    out.put(&[0; 12]);
    for (id, data) in fields {
        put_field_header(out, *id, data.len());
        out.put(data);
    }
}
