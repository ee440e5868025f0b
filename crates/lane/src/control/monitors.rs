//! MONITOR: who looks, and who shows. Lanes are told to show their commands while a client looks that sees them.

use std::sync::Arc;

use super::{Asker, Begun, Control};
use crate::admin::Order;
use crate::client::Port;
use crate::monitor::line_count;
use crate::peers::{ControlHead, ControlKind, Parcel};

/// A client that monitors.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Monitor {
    lane: u16,
    client: u64,
    /// On a lane's own port it sees that lane alone.
    port: Port,
}

impl Monitor {
    fn sees(&self, lane: u16) -> bool {
        self.port == Port::Shared || self.lane == lane
    }
}

impl Control {
    /// A client wants to look. It may be here already, when word of its RESET is still on its way.
    pub(super) fn begin_monitor(&mut self, asker: Asker, port: Port) -> Begun {
        // What lanes show before all of them do waits behind the client's reply.
        self.monitors.push(Monitor { lane: asker.lane, client: asker.client, port });
        Begun::InSight(Order::Monitor { lane: asker.lane, client: asker.client })
    }

    /// A client looks no more; lanes that nobody looks at need not show anything.
    pub(super) fn end_monitor(&mut self, lane: u16, client: u64) {
        let Some(at) = self.monitors.iter().position(|it| it.lane == lane && it.client == client) else {
            return;
        };
        let gone = self.monitors.swap_remove(at);
        for lane in 0..self.lane_count {
            if gone.sees(lane) && !self.monitors.iter().any(|monitor| monitor.sees(lane)) {
                self.give(lane..lane + 1, &Order::EndMonitor, None);
            }
        }
    }

    /// Hands a lane's lines to those who see it. Where there is no room they are dropped, and counted.
    pub(super) fn pass_lines(&mut self, lane: u16, lines: &Arc<Vec<u8>>) {
        let seers: Vec<Monitor> =
            self.monitors.iter().copied().filter(|monitor| monitor.sees(lane)).collect();
        for monitor in seers {
            let head = ControlHead { target: monitor.client, round: 0, kind: ControlKind::Lines };
            let mut parcel = Some(Parcel::Lines(Arc::clone(lines)));
            if !self.peer(monitor.lane).try_tell(head, &mut parcel) {
                self.lines_dropped += line_count(lines);
            }
        }
    }
}
