//! Messages to whoever listens.

use super::Command;
use super::Scope::{Connection, Control, Pubsub};
use super::Work::{Constant, Sliced};
use super::entry::entries;
use super::keys::{NOT_KEY, at, range};

pub(super) const PUBSUB: &[Command] = entries! { Pubsub:
    Psubscribe "psubscribe" -2 since "2.0.0" [Pubsub Noscript Loading Stale] [] [] Pubsub, Sliced, []
        "O(1) for each pattern" "Listens to all channels whose names match patterns"
        "pattern ..."
    Publish "publish" 3 since "2.0.0" [Pubsub Loading Stale Fast] [] [] Pubsub, Sliced, []
        "O(N + M) for N clients that get it and M patterns that somebody listens to" "Sends a message to whoever listens to a channel"
        "channel message"
    Pubsub "pubsub" -2 since "2.8.0" [] [] [] Connection, Constant, []
        "Depends on the subcommand" "Groups commands about who listens to what"
    PubsubChannels "pubsub|channels" -2 since "2.8.0" [Pubsub Loading Stale] [] [] Control, Sliced, []
        "O(N) for N channels" "The channels that somebody listens to by name"
        "[pattern]"
    PubsubHelp "pubsub|help" 2 since "6.2.0" [Loading Stale] [] [] Connection, Constant, []
        "O(1)" "Lists the subcommands"
    PubsubNumpat "pubsub|numpat" 2 since "2.8.0" [Pubsub Loading Stale] [] [] Control, Sliced, []
        "O(N) for N patterns" "The number of patterns that somebody listens to, each counted once"
    PubsubNumsub "pubsub|numsub" -2 since "2.8.0" [Pubsub Loading Stale] [] [] Control, Sliced, []
        "O(N) for N channels asked for" "The number of clients that listen to channels by name"
        "[channel ...]"
    PubsubShardchannels "pubsub|shardchannels" -2 since "7.0.0" [Pubsub Loading Stale] [] [] Control, Sliced, []
        "O(N) for N channels" "The sharded channels that somebody listens to"
        "[pattern]"
    PubsubShardnumsub "pubsub|shardnumsub" -2 since "7.0.0" [Pubsub Loading Stale] [] [] Control, Sliced, []
        "O(N) for N channels asked for" "The number of clients that listen to sharded channels"
        "[shardchannel ...]"
    Punsubscribe "punsubscribe" -1 since "2.0.0" [Pubsub Noscript Loading Stale] [] [] Pubsub, Sliced, []
        "O(1) for each pattern" "Listens no more to channels whose names match patterns"
        "[pattern ...]"
    Spublish "spublish" 3 since "7.0.0" [Pubsub Loading Stale Fast] [] [at(1, NOT_KEY)] Pubsub, Sliced, []
        "O(N) for N clients that get it" "Sends a message to whoever listens to a sharded channel"
        "shardchannel message"
    Ssubscribe "ssubscribe" -2 since "7.0.0" [Pubsub Noscript Loading Stale] []
        [range(1, -1, 1, NOT_KEY)] Pubsub, Sliced, []
        "O(1) for each channel" "Listens to sharded channels, which belong to slots as keys do"
        "shardchannel ..."
    Subscribe "subscribe" -2 since "2.0.0" [Pubsub Noscript Loading Stale] [] [] Pubsub, Sliced, []
        "O(1) for each channel" "Listens to channels"
        "channel ..."
    Sunsubscribe "sunsubscribe" -1 since "7.0.0" [Pubsub Noscript Loading Stale] []
        [range(1, -1, 1, NOT_KEY)] Pubsub, Sliced, []
        "O(1) for each channel" "Listens no more to sharded channels"
        "[shardchannel ...]"
    Unsubscribe "unsubscribe" -1 since "2.0.0" [Pubsub Noscript Loading Stale] [] [] Pubsub, Sliced, []
        "O(1) for each channel" "Listens no more to channels"
        "[channel ...]"
};
