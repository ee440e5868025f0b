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
        "[username] password"
        [since "6.0.0" "`username`"]
    Client "client" -2 since "2.4.0" [] [] [] Connection, Constant, []
        "Depends on the subcommand" "Groups commands about connections"
    ClientCaching "client|caching" 3 since "6.0.0" [Noscript Loading Stale] [Connection]
        [] Connection, Constant, []
        "O(1)" "Says whether what the next command reads is tracked"
        "<mode: YES | NO>"
    ClientGetname "client|getname" 2 since "2.6.9" [Noscript Loading Stale] [Connection]
        [] Connection, Constant, []
        "O(1)" "The connection's name"
    ClientGetredir "client|getredir" 2 since "6.0.0" [Noscript Loading Stale] [Connection]
        [] Connection, Constant, []
        "O(1)" "The connection that gets this one's invalidations"
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
        "<filter: old-format=ip:port | <new-format: [ID client-id] | [TYPE <client-type: NORMAL | MASTER | SLAVE | REPLICA | \
         PUBSUB>] | [USER username] | [ADDR addr=ip:port] | [LADDR laddr=ip:port] | [SKIPME <skipme: YES | NO>] | \
         [MAXAGE maxage]> ...>"
        [since "2.8.12" "Options: `ID` and `TYPE`", since "3.2.0" "`MASTER`",
         since "5.0.0" "`REPLICA`, the new name of SLAVE", since "6.2.0" "`LADDR`", since "7.4.0" "`MAXAGE`"]
    ClientList "client|list" -2 since "2.4.0" [Admin Noscript Loading Stale] [Connection]
        [] Control, Sliced, ["nondeterministic_output"]
        "O(N) for N connections" "One line about each connection"
        "[TYPE <client-type: NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id ...]"
        [since "2.8.12" "Lines have `id`", since "5.0.0" "`TYPE`", since "6.0.0" "Lines have `user`",
         since "6.2.0" "`ID`; lines have `argv-mem`, `tot-mem`, `laddr` and `redir`",
         since "7.0.0" "Lines have `resp`, `multi-mem`, `rbs` and `rbp`", since "7.0.3" "Lines have `ssub`"]
    ClientNoEvict "client|no-evict" 3 since "7.0.0" [Admin Noscript Loading Stale] [Connection]
        [] Connection, Constant, []
        "O(1)" "Keeps this connection when client memory runs out"
        "<enabled: ON | OFF>"
    ClientNoTouch "client|no-touch" 3 since "7.2.0" [Noscript Loading Stale] [Connection]
        [] Connection, Constant, []
        "O(1)" "Lets this connection read keys without refreshing them"
        "<enabled: ON | OFF>"
    ClientPause "client|pause" -3 since "2.9.50" [Admin Noscript Loading Stale] [Connection]
        [] Control, Constant, []
        "O(1)" "Holds back commands of all clients for a time"
        "timeout [mode: WRITE | ALL]"
        [since "6.2.0" "`mode`"]
    ClientReply "client|reply" 3 since "3.2.0" [Noscript Loading Stale] [Connection]
        [] Connection, Constant, []
        "O(1)" "Switches the replies on this connection on or off"
        "<action: ON | OFF | SKIP>"
    ClientSetinfo "client|setinfo" 4 since "7.2.0" [Noscript Loading Stale] [Connection]
        [] Connection, Constant, []
        "O(1)" "Notes the name or version of the client's library"
        "<attr: LIB-NAME libname | LIB-VER libver>"
    ClientSetname "client|setname" 3 since "2.6.9" [Noscript Loading Stale] [Connection]
        [] Connection, Constant, []
        "O(1)" "Names the connection"
        "connection-name"
    ClientTracking "client|tracking" -3 since "6.0.0" [Noscript Loading Stale] [Connection]
        [] Control, Constant, []
        "O(1), and O(P) for P prefixes" "Begins or ends to tell the connection which keys that it has read change"
        "<status: ON | OFF> [REDIRECT client-id] [PREFIX prefix PREFIX ...] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]"
    ClientTrackinginfo "client|trackinginfo" 2 since "6.2.0" [Noscript Loading Stale] [Connection]
        [] Connection, Constant, []
        "O(1)" "How the connection is told of keys that change"
    ClientUnblock "client|unblock" -3 since "5.0.0" [Admin Noscript Loading Stale] [Connection]
        [] Control, Constant, []
        "O(N) for N connections that wait" "Ends another connection's waiting in WAIT"
        "client-id [unblock-type: TIMEOUT | ERROR]"
    ClientUnpause "client|unpause" 2 since "6.2.0" [Admin Noscript Loading Stale] [Connection]
        [] Control, Constant, []
        "O(N) for N clients that wait" "Lets held back commands go on"
    Echo "echo" 2 since "1.0.0" [Loading Stale Fast] [Connection] [] Connection, Constant, []
        "O(1)" "Answers its argument"
        "message"
    Hello "hello" -1 since "6.0.0" [Noscript Loading Stale Fast NoAuth AllowBusy] [Connection]
        [] Connection, Constant, []
        "O(1)" "Agrees on a protocol version, and optionally authenticates and names the connection"
        "[arguments: protover [AUTH <auth: username password>] [SETNAME clientname]]"
        [since "6.2.0" "Without arguments it describes the connection"]
    Ping "ping" -1 since "1.0.0" [Fast] [Connection]
        [] Connection, Constant, ["request_policy:all_shards", "response_policy:all_succeeded"]
        "O(1)" "Answers PONG or its argument"
        "[message]"
    Quit "quit" -1 since "1.0.0" deprecated "7.2.0" for "closing the connection"
        [Noscript Loading Stale Fast NoAuth AllowBusy] [Connection]
        [] Connection, Constant, []
        "O(1)" "Closes the connection after all replies"
    Reset "reset" 1 since "6.2.0" [Noscript Loading Stale Fast NoAuth AllowBusy] [Connection]
        [] Connection, Constant, []
        "O(1)" "Takes the connection back to how it was when it was opened"
    Select "select" 2 since "1.0.0" [Loading Stale Fast] [Connection] [] Connection, Constant, []
        "O(1)" "Chooses the connection's database"
        "index"
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
        "key ..."
};
