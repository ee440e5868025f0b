//! Scripts and functions.

use super::Command;
use super::Scope::{Connection, Control, Script};
use super::Work::{Constant, Sliced};
use super::entry::entries;
use super::keys::counted;

pub(super) const SCRIPTING: &[Command] = entries! { Scripting:
    Eval "eval" -3 since "2.6.0" [Noscript Stale SkipMonitor NoMandatoryKeys MovableKeys] [Scripting]
        [counted(2, "RW access update").notes("only the script knows what it does with them")]
        Script, Sliced, []
        "Depends on the script" "Runs a script in Lua"
        "script numkeys:integer [key ...] [arg ...]"
    EvalRo "eval_ro" -3 since "7.0.0" [Readonly Noscript Stale SkipMonitor NoMandatoryKeys MovableKeys] [Scripting]
        [counted(2, "RO access").notes("only the script knows what it reads of them")]
        Script, Sliced, []
        "Depends on the script" "Runs a script in Lua that only reads"
        "script numkeys:integer [key ...] [arg ...]"
    Evalsha "evalsha" -3 since "2.6.0" [Noscript Stale SkipMonitor NoMandatoryKeys MovableKeys] [Scripting]
        [counted(2, "RW access update")] Script, Sliced, []
        "Depends on the script" "Runs a script that the server knows, by its SHA1 digest"
        "sha1 numkeys:integer [key ...] [arg ...]"
    EvalshaRo "evalsha_ro" -3 since "7.0.0" [Readonly Noscript Stale SkipMonitor NoMandatoryKeys MovableKeys] [Scripting]
        [counted(2, "RO access")] Script, Sliced, []
        "Depends on the script" "Runs a script that the server knows and that only reads, by its SHA1 digest"
        "sha1 numkeys:integer [key ...] [arg ...]"
    Function "function" -2 since "7.0.0" [] [] [] Connection, Constant, []
        "Depends on the subcommand" "Groups commands about functions"
    FunctionFlush "function|flush" -2 since "7.0.0" [Write Noscript] [Scripting]
        [] Control, Constant, ["request_policy:all_shards", "response_policy:all_succeeded"]
        "O(N) for N functions" "Deletes all functions"
        "[flush-type: ASYNC | SYNC]"
    FunctionHelp "function|help" 2 since "7.0.0" [Loading Stale] [Scripting] [] Connection, Constant, []
        "O(1)" "Lists the subcommands"
    Script "script" -2 since "2.6.0" [] [] [] Connection, Constant, []
        "Depends on the subcommand" "Groups commands about scripts"
    ScriptDebug "script|debug" 3 since "3.2.0" [Noscript] [Scripting] [] Connection, Constant, []
        "O(1)" "Chooses how scripts are debugged, which they cannot be here"
        "<mode: YES | SYNC | NO>"
    ScriptExists "script|exists" -3 since "2.6.0" [Noscript] [Scripting]
        [] Control, Constant, ["request_policy:all_shards", "response_policy:agg_logical_and"]
        "O(N) for N scripts" "Says which scripts the server knows"
        "sha1 ..."
    ScriptFlush "script|flush" -2 since "2.6.0" [Noscript] [Scripting]
        [] Control, Constant, ["request_policy:all_nodes", "response_policy:all_succeeded"]
        "O(N) for N scripts" "Forgets all scripts"
        "[flush-type: ASYNC | SYNC]"
        [since "6.2.0" "`ASYNC` and `SYNC`"]
    ScriptHelp "script|help" 2 since "5.0.0" [Loading Stale] [Scripting] [] Connection, Constant, []
        "O(1)" "Lists the subcommands"
    ScriptKill "script|kill" 2 since "2.6.0" [Noscript AllowBusy] [Scripting]
        [] Control, Constant, ["request_policy:all_shards", "response_policy:one_succeeded"]
        "O(1)" "Ends scripts that take too long and have not written"
    ScriptLoad "script|load" 3 since "2.6.0" [Noscript Stale] [Scripting]
        [] Control, Constant, ["request_policy:all_nodes", "response_policy:all_succeeded"]
        "O(N) for N bytes of the script" "Lets the server know a script"
        "script"
};
