//! Results as clients know them (`as_status.h` of the C client, `proto.h` of the server).

/// The result of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Code(pub u8);

impl Code {
    /// Done.
    pub const OK: Code = Code(0);
    /// No such record, or it has ended.
    pub const NOT_FOUND: Code = Code(2);
    /// The record has another generation.
    pub const GENERATION: Code = Code(3);
    /// The request contradicts itself, or its parts have sizes that they cannot have.
    pub const PARAMETER: Code = Code(4);
    /// There is such a record.
    pub const EXISTS: Code = Code(5);
    /// There is no memory for it.
    pub const OUT_OF_SPACE: Code = Code(8);
    /// The partition is another node's.
    pub const PARTITION_UNAVAILABLE: Code = Code(11);
    /// A bin is of another type.
    pub const BIN_TYPE: Code = Code(12);
    /// The record would be larger than records may be.
    pub const TOO_BIG: Code = Code(13);
    /// There is such a request, but not here.
    pub const UNSUPPORTED: Code = Code(16);
    /// The record was stored with another key.
    pub const KEY_MISMATCH: Code = Code(19);
    /// There is no such namespace.
    pub const NAMESPACE: Code = Code(20);
    /// A bin's name is too long.
    pub const BIN_NAME: Code = Code(21);
    /// The community edition does not do that.
    pub const ENTERPRISE_ONLY: Code = Code(25);
    /// There are no users: the client goes on without.
    pub const SECURITY_NOT_ENABLED: Code = Code(52);
    /// A security command that there is not.
    pub const INVALID_COMMAND: Code = Code(54);
    /// A security command without a field that it needs.
    pub const INVALID_FIELD: Code = Code(55);
    /// That is not the password's credential.
    pub const CREDENTIAL: Code = Code(65);
    /// The session's token is an old one.
    pub const EXPIRED_SESSION: Code = Code(66);
    /// Not before a login.
    pub const NOT_AUTHENTICATED: Code = Code(80);

    /// Its word, as the server's `proto.h` has it, for those who count errors; nothing for what is none: done, or not found.
    pub fn word(self) -> Option<&'static str> {
        Some(match self {
            Code::OK | Code::NOT_FOUND => return None,
            Code::GENERATION => "AS_ERR_GENERATION",
            Code::PARAMETER => "AS_ERR_PARAMETER",
            Code::EXISTS => "AS_ERR_RECORD_EXISTS",
            Code::OUT_OF_SPACE => "AS_ERR_OUT_OF_SPACE",
            Code::PARTITION_UNAVAILABLE => "AS_ERR_UNAVAILABLE",
            Code::BIN_TYPE => "AS_ERR_INCOMPATIBLE_TYPE",
            Code::TOO_BIG => "AS_ERR_RECORD_TOO_BIG",
            Code::UNSUPPORTED => "AS_ERR_UNSUPPORTED_FEATURE",
            Code::KEY_MISMATCH => "AS_ERR_KEY_MISMATCH",
            Code::NAMESPACE => "AS_ERR_NAMESPACE",
            Code::BIN_NAME => "AS_ERR_BIN_NAME",
            Code::ENTERPRISE_ONLY => "AS_ERR_ENTERPRISE_ONLY",
            Code::NOT_AUTHENTICATED => "AS_ERR_NOT_AUTHENTICATED",
            _ => "AS_ERR_SECURITY",
        })
    }
}
