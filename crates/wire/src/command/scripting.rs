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
    Fcall "fcall" -3 since "7.0.0" [Noscript Stale SkipMonitor NoMandatoryKeys MovableKeys] [Scripting]
        [counted(2, "RW access update").notes("only the function knows what it does with them")]
        Script, Sliced, []
        "Depends on the function" "Calls a function"
        "function numkeys:integer [key ...] [arg ...]"
    FcallRo "fcall_ro" -3 since "7.0.0" [Readonly Noscript Stale SkipMonitor NoMandatoryKeys MovableKeys] [Scripting]
        [counted(2, "RO access").notes("only the function knows what it reads of them")]
        Script, Sliced, []
        "Depends on the function" "Calls a function that only reads"
        "function numkeys:integer [key ...] [arg ...]"
    Function "function" -2 since "7.0.0" [] [] [] Connection, Constant, []
        "Depends on the subcommand" "Groups commands about functions"
    FunctionDelete "function|delete" 3 since "7.0.0" [Write Noscript] [Scripting]
        [] Control, Constant, ["request_policy:all_shards", "response_policy:all_succeeded"]
        "O(1)" "Deletes a library and its functions"
        "library-name"
    FunctionDump "function|dump" 2 since "7.0.0" [Noscript] [Scripting] [] Control, Constant, []
        "O(N) for N bytes of all libraries" "All libraries, as FUNCTION RESTORE takes them"
    FunctionFlush "function|flush" -2 since "7.0.0" [Write Noscript] [Scripting]
        [] Control, Constant, ["request_policy:all_shards", "response_policy:all_succeeded"]
        "O(N) for N functions" "Deletes all functions"
        "[flush-type: ASYNC | SYNC]"
    FunctionHelp "function|help" 2 since "7.0.0" [Loading Stale] [Scripting] [] Connection, Constant, []
        "O(1)" "Lists the subcommands"
    FunctionKill "function|kill" 2 since "7.0.0" [Noscript AllowBusy] [Scripting]
        [] Control, Constant, ["request_policy:all_shards", "response_policy:one_succeeded"]
        "O(1)" "Ends functions that take too long and have not written"
    FunctionList "function|list" -2 since "7.0.0" [Noscript] [Scripting]
        [] Control, Constant, ["nondeterministic_output_order"]
        "O(N) for N functions" "The libraries and their functions"
        "[LIBRARYNAME library-name-pattern] [WITHCODE]"
    FunctionLoad "function|load" -3 since "7.0.0" [Write Denyoom Noscript] [Scripting]
        [] Control, Constant, ["request_policy:all_shards", "response_policy:all_succeeded"]
        "O(N) for N bytes of the library" "Lets the server know a library of functions"
        "[REPLACE] function-code"
    FunctionRestore "function|restore" -3 since "7.0.0" [Write Denyoom Noscript] [Scripting]
        [] Control, Constant, ["request_policy:all_shards", "response_policy:all_succeeded"]
        "O(N) for N bytes of the payload" "Lets the server know libraries that FUNCTION DUMP has answered"
        "serialized-value [policy: FLUSH | APPEND | REPLACE]"
    FunctionStats "function|stats" 2 since "7.0.0" [Noscript AllowBusy] [Scripting]
        [] Control, Constant, ["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]
        "O(1)" "The function that runs, and how many there are"
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
