//! The names of all entries, as an enum to match on.

macro_rules! ids {
    ($($Id:ident)*) => {
        /// A command or subcommand; a subcommand's name starts with its container's.
        #[repr(u8)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "each is the command of its name; the table has a summary of it")]
        pub enum Id {
            $($Id,)*
        }

        impl Id {
            /// All, in order.
            pub const ALL: &'static [Id] = &[$(Id::$Id,)*];
            /// How many there are; `id as usize` is below it.
            pub const COUNT: usize = Id::ALL.len();
        }
    };
}

ids! {
    // Connection
    Auth Client ClientCaching ClientGetname ClientGetredir ClientHelp ClientId ClientInfo ClientKill ClientList
    ClientNoEvict ClientNoTouch ClientPause ClientReply ClientSetinfo ClientSetname ClientTracking
    ClientTrackinginfo ClientUnblock ClientUnpause Echo Hello Ping Quit Reset Select

    // Transactions
    Discard Exec Multi Unwatch Watch

    // String
    Append Decr Decrby Get Getdel Getex Getrange Getset Incr Incrby Incrbyfloat Lcs Mget Mset Msetnx
    Psetex Set Setex Setnx Setrange Strlen Substr

    // Bitmap
    Bitcount Bitfield BitfieldRo Bitop Bitpos Getbit Setbit

    // Generic
    Copy Del Dump Exists Expire Expireat Expiretime Keys Migrate Move Object ObjectEncoding ObjectFreq ObjectHelp
    ObjectIdletime ObjectRefcount Persist Pexpire Pexpireat Pexpiretime Pttl Randomkey Rename Renamenx
    Restore Scan Touch Ttl Type Unlink Wait

    // Server
    Acl AclCat AclDeluser AclDryrun AclGenpass AclGetuser AclHelp AclList AclLoad AclLog AclSave AclSetuser AclUsers AclWhoami
    Bgrewriteaof Bgsave Command CommandCount CommandDocs CommandGetkeys CommandGetkeysandflags CommandHelp
    CommandInfo CommandList Config ConfigGet ConfigHelp ConfigResetstat ConfigRewrite ConfigSet Dbsize
    Debug Flushall Flushdb Info Lastsave Latency LatencyDoctor LatencyGraph LatencyHelp LatencyHistogram
    LatencyHistory LatencyLatest LatencyReset Lolwut Memory MemoryDoctor MemoryHelp MemoryMallocStats
    MemoryPurge MemoryStats MemoryUsage Monitor Psync Replconf Replicaof RestoreAsking Role Save Shutdown Slaveof
    Slowlog SlowlogGet SlowlogHelp SlowlogLen SlowlogReset Swapdb Sync Time

    // Scripting
    Eval EvalRo Evalsha EvalshaRo Fcall FcallRo Function FunctionDelete FunctionDump FunctionFlush FunctionHelp
    FunctionKill FunctionList FunctionLoad FunctionRestore FunctionStats Script ScriptDebug ScriptExists ScriptFlush
    ScriptHelp ScriptKill ScriptLoad

    // Pubsub
    Psubscribe Publish Pubsub PubsubChannels PubsubHelp PubsubNumpat PubsubNumsub PubsubShardchannels
    PubsubShardnumsub Punsubscribe Spublish Ssubscribe Subscribe Sunsubscribe Unsubscribe

    // Cluster
    Asking Cluster ClusterCountkeysinslot ClusterGetkeysinslot ClusterHelp ClusterInfo ClusterKeyslot
    ClusterMyid ClusterNodes ClusterShards ClusterSlots Readonly Readwrite

    // Documents
    DocumentCount DocumentDelete DocumentEdit DocumentFlush DocumentGet DocumentLookup DocumentMutate
    DocumentNode DocumentSay DocumentSet DocumentStats DocumentTouch

    // Pages
    PageGet PageStatus

    // Records
    RecordDelete RecordGet RecordInfo RecordSay RecordScan RecordTruncate RecordWrite
}
