//! The connection itself, and transactions on it.

use super::Combine::{AllOk, Coordinator};
use super::Command;
use super::Scope::{Connection, Control, Keys};
use super::Work::{Constant, Sliced};
use super::entry::entries;
use super::keys::range;

pub(super) const CONNECTION: &[Command] = entries! { Connection:
    Auth "auth" -2 since "1.0.0" [Noscript Loading Stale Fast NoAuth AllowBusy] [Connection]
        [] Connection, Constant, []
        "O(N) for N passwords of the user" "Authenticates the connection"
    Client "client" -2 since "2.4.0" [] [] [] Connection, Constant, []
        "Depends on the subcommand" "Groups commands about connections"
    ClientGetname "client|getname" 2 since "2.6.9" [Noscript Loading Stale] [Connection]
        [] Connection, Constant, []
        "O(1)" "The connection's name"
    ClientHelp "client|help" 2 since "5.0.0" [Loading Stale] [Connection] [] Connection, Constant, []
        "O(1)" "Lists the subcommands"
    ClientId "client|id" 2 since "5.0.0" [Noscript Loading Stale] [Connection] [] Connection, Constant, []
        "O(1)" "The connection's number, which grows with every connection"
    ClientInfo "client|info" 2 since "6.2.0" [Noscript Loading Stale] [Connection]
        [] Connection, Constant, ["nondeterministic_output"]
        "O(1)" "One line about this connection"
    ClientKill "client|kill" -3 since "2.4.0" [Admin Noscript Loading Stale] [Connection]
        [] Control, Sliced, []
        "O(N) for N connections" "Closes connections that match"
    ClientList "client|list" -2 since "2.4.0" [Admin Noscript Loading Stale] [Connection]
        [] Control, Sliced, ["nondeterministic_output"]
        "O(N) for N connections" "One line about each connection"
    ClientNoEvict "client|no-evict" 3 since "7.0.0" [Admin Noscript Loading Stale] [Connection]
        [] Connection, Constant, []
        "O(1)" "Keeps this connection when client memory runs out"
    ClientNoTouch "client|no-touch" 3 since "7.2.0" [Noscript Loading Stale] [Connection]
        [] Connection, Constant, []
        "O(1)" "Lets this connection read keys without refreshing them"
    ClientPause "client|pause" -3 since "2.9.50" [Admin Noscript Loading Stale] [Connection]
        [] Control, Constant, []
        "O(1)" "Holds back commands of all clients for a time"
    ClientReply "client|reply" 3 since "3.2.0" [Noscript Loading Stale] [Connection]
        [] Connection, Constant, []
        "O(1)" "Switches the replies on this connection on or off"
    ClientSetinfo "client|setinfo" 4 since "7.2.0" [Noscript Loading Stale] [Connection]
        [] Connection, Constant, []
        "O(1)" "Notes the name or version of the client's library"
    ClientSetname "client|setname" 3 since "2.6.9" [Noscript Loading Stale] [Connection]
        [] Connection, Constant, []
        "O(1)" "Names the connection"
    ClientUnpause "client|unpause" 2 since "6.2.0" [Admin Noscript Loading Stale] [Connection]
        [] Control, Constant, []
        "O(N) for N clients that wait" "Lets held back commands go on"
    Echo "echo" 2 since "1.0.0" [Loading Stale Fast] [Connection] [] Connection, Constant, []
        "O(1)" "Answers its argument"
    Hello "hello" -1 since "6.0.0" [Noscript Loading Stale Fast NoAuth AllowBusy] [Connection]
        [] Connection, Constant, []
        "O(1)" "Agrees on a protocol version, and optionally authenticates and names the connection"
    Ping "ping" -1 since "1.0.0" [Fast] [Connection]
        [] Connection, Constant, ["request_policy:all_shards", "response_policy:all_succeeded"]
        "O(1)" "Answers PONG or its argument"
    Quit "quit" -1 since "1.0.0" [Noscript Loading Stale Fast NoAuth AllowBusy] [Connection]
        [] Connection, Constant, []
        "O(1)" "Closes the connection after all replies"
    Reset "reset" 1 since "6.2.0" [Noscript Loading Stale Fast NoAuth AllowBusy] [Connection]
        [] Connection, Constant, []
        "O(1)" "Takes the connection back to how it was when it was opened"
    Select "select" 2 since "1.0.0" [Loading Stale Fast] [Connection] [] Connection, Constant, []
        "O(1)" "Chooses the connection's database"
};

pub(super) const TRANSACTIONS: &[Command] = entries! { Transactions:
    Discard "discard" 1 since "2.0.0" [Noscript Loading Stale Fast AllowBusy] [Transaction]
        [] Connection, Constant, []
        "O(N) for N queued commands" "Forgets the commands queued since MULTI"
    Exec "exec" 1 since "1.2.0" [Noscript Loading Stale SkipSlowlog] [Transaction]
        [] Keys(Coordinator), Sliced, []
        "Depends on the queued commands" "Runs the commands queued since MULTI, all or none, with no others in between"
    Multi "multi" 1 since "1.2.0" [Noscript Loading Stale Fast AllowBusy] [Transaction]
        [] Connection, Constant, []
        "O(1)" "Starts to queue commands for EXEC"
    Unwatch "unwatch" 1 since "2.2.0" [Noscript Loading Stale Fast AllowBusy] [Transaction]
        [] Keys(AllOk), Constant, []
        "O(1)" "Forgets the watched keys"
    Watch "watch" -2 since "2.2.0" [Noscript Loading Stale Fast AllowBusy] [Transaction]
        [range(1, -1, 1, "RO")] Keys(AllOk), Sliced, []
        "O(1) for each key" "Lets EXEC fail if one of the keys changes before"
};
