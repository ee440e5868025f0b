//! A lane's cpu signature: what its thread and its cpu did with their time, and where its memory lies. The machine
//! knows, the lane does not; INFO lanes shows it behind the lane's own numbers.

use std::fmt::{self, Display};

/// A part of a time, in tenths of a percent: printed as percent with one decimal. A thread that hops between cpus, or
/// clocks that disagree by a tick, may make it a little more than the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(pub u64);

impl Share {
    /// `part` of `whole`, in whatever unit both have; nothing of nothing is nothing.
    pub fn of(part: u64, whole: u64) -> Share {
        let tenths = (u128::from(part) * 1000 + u128::from(whole) / 2).checked_div(u128::from(whole));
        Share(u64::try_from(tenths.unwrap_or(0)).unwrap_or(u64::MAX))
    }
}

impl Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 10, self.0 % 10)
    }
}

/// How a cpu spent a time, whoever ran there; the columns of `top`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuShares {
    /// Programs, nice ones included.
    pub us: Share,
    /// The kernel for programs.
    pub sy: Share,
    /// Interrupts, hard and soft: on most machines the network's receiving side.
    pub si: Share,
    /// Nothing.
    pub id: Share,
    /// Nothing, while a disk was waited for.
    pub wa: Share,
}

/// How one thread spent a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadShares {
    /// On a cpu, outside the kernel.
    pub us: Share,
    /// On a cpu, in the kernel.
    pub sy: Share,
    /// Ready to run, while another thread had the cpu: what isolation is there to make zero.
    pub wait: Share,
}

/// Pages of a lane's memory by where they lie, seen from the lane's cpu.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// On the cpu's own node.
    pub local: u64,
    /// On another.
    pub remote: u64,
}

/// See the top of this file. Shares are of the time since the last look; what is `None` the machine does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// Where the lane's thread is pinned; none if it is not.
    pub cpu: Option<usize>,
    /// The memory node of that cpu.
    pub node: Option<u16>,
    /// Of that cpu.
    pub shares: Option<CpuShares>,
    /// Of the lane's thread.
    pub thread: Option<ThreadShares>,
    /// How often the thread gave its cpu up by itself, to sleep, and how often it was taken from it. Since the start.
    pub switches: Option<(u64, u64)>,
    /// Of the lane's region.
    pub pages: Option<Pages>,
}

/// What stands for a fact that the machine does not tell.
const UNKNOWN: &str = "unknown";

impl Display for Signature {
    /// `,name=value` for each fact, as it goes on after a lane's line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut put =
            |name: &str, value: Option<&dyn Display>| write!(f, ",{name}={}", value.unwrap_or(&UNKNOWN));
        put("cpu", self.cpu.as_ref().map(|it| it as _))?;
        put("node", self.node.as_ref().map(|it| it as _))?;
        let cpu = self.shares.as_ref();
        put("us", cpu.map(|it| &it.us as _))?;
        put("sy", cpu.map(|it| &it.sy as _))?;
        put("si", cpu.map(|it| &it.si as _))?;
        put("id", cpu.map(|it| &it.id as _))?;
        put("wa", cpu.map(|it| &it.wa as _))?;
        let thread = self.thread.as_ref();
        put("thread_us", thread.map(|it| &it.us as _))?;
        put("thread_sy", thread.map(|it| &it.sy as _))?;
        put("thread_wait", thread.map(|it| &it.wait as _))?;
        put("switches_voluntary", self.switches.as_ref().map(|it| &it.0 as _))?;
        put("switches_involuntary", self.switches.as_ref().map(|it| &it.1 as _))?;
        put("pages_local", self.pages.as_ref().map(|it| &it.local as _))?;
        put("pages_remote", self.pages.as_ref().map(|it| &it.remote as _))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_to_a_tenth_of_a_percent() {
        for (part, whole, want) in
            [(0, 0, "0.0"), (1, 3, "33.3"), (2, 3, "66.7"), (7, 7, "100.0"), (u64::MAX, 1, "")]
        {
            let share = Share::of(part, whole);
            assert!(want.is_empty() || share.to_string() == want, "{part}/{whole}: {share}");
        }
    }

    #[test]
    fn what_nobody_knows_is_said_to_be_unknown() {
        let known = Signature {
            cpu: Some(3),
            node: Some(1),
            shares: Some(CpuShares { us: Share(401), id: Share(599), ..CpuShares::default() }),
            thread: Some(ThreadShares { us: Share(5), sy: Share(10), wait: Share(1) }),
            switches: Some((7, 2)),
            pages: Some(Pages { local: 10, remote: 1 }),
        };
        assert_eq!(
            known.to_string(),
            ",cpu=3,node=1,us=40.1,sy=0.0,si=0.0,id=59.9,wa=0.0,thread_us=0.5,thread_sy=1.0,thread_wait=0.1,\
             switches_voluntary=7,switches_involuntary=2,pages_local=10,pages_remote=1"
        );
        let nothing = Signature::default().to_string();
        assert_eq!(nothing.matches("=unknown").count(), 14);
    }
}
