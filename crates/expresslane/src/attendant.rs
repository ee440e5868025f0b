//! The thread of the control: it sleeps until a lane asks something, answers, and wakes the lanes that it asked.
//!
//! It has no cpu of its own and no place on the data path; a busy machine delays INFO and CONFIG, never a GET.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use lane::{
    Control, ControlSetup, FileNews, FileOrder, FollowNews, FollowOrder, Identity, Machine, Now, Outgoing,
    Shutdown, Signature,
};
use net::Bell;
use signal_hook::consts::SIGTERM;

use crate::clock::Clock;
use crate::control::{self, Level};
use crate::files::Desk;
use crate::follow::Follower;
use crate::machine;
use crate::outgoing::Connections;
use crate::pin::{self, Cards};
use crate::serve::STACK_SIZE;
use crate::settings::{self, ClientsMemory, Io, OutputLimit, ServeSettings};
use crate::signature::{Berthed, Signatures};
use crate::users;

/// What the thread has to do with beside the control itself.
pub(crate) struct Surroundings {
    pub(crate) clock: Clock,
    /// The lanes' own.
    pub(crate) bells: Vec<Bell>,
    pub(crate) memory_size: u64,
    pub(crate) lanes: Vec<Berthed>,
    pub(crate) cards: Cards,
    /// Open files beside the clients'.
    pub(crate) files_beside: u64,
    pub(crate) desk: Desk,
    pub(crate) follower: Follower,
    pub(crate) ending: Arc<Ending>,
}

/// Starts the thread. The handle wakes it: `unpark` is its bell.
pub(crate) fn start(setup: ControlSetup, around: Surroundings) -> Result<Thread, String> {
    let Surroundings { clock, bells, memory_size, lanes, mut cards, files_beside, desk, follower, ending } =
        around;
    let signatures = Signatures::new(lanes, clock.now().mono_ns);
    let config = PathBuf::from(&setup.identity.config_file);
    let (links, changed) = cards.ears();
    let users = setup.config.iter().find(|(name, _)| name == "aclfile");
    let users = users.map(|(_, path)| PathBuf::from(path)).unwrap_or_default();
    let outgoing = Connections::default();
    let machine = ThisMachine {
        memory_size,
        signatures,
        config,
        users,
        cards,
        files_beside,
        desk,
        follower,
        ending,
        outgoing,
    };
    // From here on lanes pass questions on: none of the first clients is told that nobody answers.
    let control = Control::new(setup);
    let thread = thread::Builder::new()
        .name("control".to_owned())
        .stack_size(STACK_SIZE)
        .spawn(move || {
            // Before the first turn, which may begin what brings news.
            machine.desk.is_heard_by(thread::current());
            machine.follower.is_heard_by(thread::current());
            machine.ending.is_heard_by(thread::current());
            attend(control, clock, &bells, machine);
        })
        .map_err(|error| format!("the control thread can't be started: {error}"))?;
    let control = thread.thread().clone();
    Cards::listen(links, changed, control.clone())?;
    Ok(control)
}

fn attend(mut control: Control, clock: Clock, bells: &[Bell], mut machine: ThisMachine) {
    let mut is_ending = false;
    loop {
        control.turn(clock.now(), &mut machine);
        for lane in control.bells() {
            bells[usize::from(*lane)].ring();
        }
        if let Some(how) = control.shutdown()
            && !is_ending
        {
            is_ending = true;
            if !machine.ending.finish(true) {
                end(how);
            }
        }
        if control.mailbox().declare_sleep() {
            let now_ns = clock.now().mono_ns;
            match control.next_ns() {
                None => thread::park(),
                Some(next_ns) => thread::park_timeout(Duration::from_nanos(next_ns.saturating_sub(now_ns))),
            }
            control.mailbox().wake();
        }
    }
}

/// A client has said SHUTDOWN.
fn end(how: Shutdown) {
    control::log(Level::Info, "a client asked to shut down");
    match how {
        // The same way out as for a signal from outside.
        Shutdown::Drain => {
            signal_hook::low_level::raise(SIGTERM).expect("SIGTERM is taken over by this process")
        }
        Shutdown::Now => control::exit(0),
    }
}

/// How `main`, who hears signals, and the control thread agree on the end: what is to be saved is saved before.
#[derive(Default)]
pub(crate) struct Ending {
    state: Mutex<EndState>,
    changed: Condvar,
    control: OnceLock<Thread>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum EndState {
    #[default]
    Far,
    /// A signal has come.
    Wanted,
    /// The control thread sees to what is to be saved.
    Considered,
    /// The process may end.
    Due,
    /// It may not.
    Refused,
}

impl Ending {
    /// Says that the process is to end, and waits until it may. False: it can't, and goes on.
    pub(crate) fn ask(&self) -> bool {
        let mut state = self.lock();
        if *state == EndState::Due {
            return true;
        }
        *state = EndState::Wanted;
        self.wake();
        while !matches!(*state, EndState::Due | EndState::Refused) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::replace(&mut *state, EndState::Far) == EndState::Due
    }

    /// The control thread is to look what there is.
    pub(crate) fn wake(&self) {
        if let Some(control) = self.control.get() {
            control.unpark();
        }
    }

    /// Says whether the process may end; false if nobody waits for that.
    fn finish(&self, is_due: bool) -> bool {
        let mut state = self.lock();
        let is_awaited = matches!(*state, EndState::Wanted | EndState::Considered);
        *state = if is_due { EndState::Due } else { EndState::Refused };
        self.changed.notify_all();
        is_awaited
    }

    /// Whether a signal has come that was not seen yet.
    fn consider(&self) -> bool {
        let mut state = self.lock();
        let is_wanted = *state == EndState::Wanted;
        if is_wanted {
            *state = EndState::Considered;
        }
        is_wanted
    }

    fn lock(&self) -> MutexGuard<'_, EndState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_heard_by(&self, control: Thread) {
        let _ = self.control.set(control);
    }
}

/// The machine under this process.
struct ThisMachine {
    memory_size: u64,
    signatures: Signatures,
    /// The configuration file; empty without one.
    config: PathBuf,
    /// The file of users; empty without one.
    users: PathBuf,
    cards: Cards,
    /// Open files beside the clients'.
    files_beside: u64,
    desk: Desk,
    follower: Follower,
    ending: Arc<Ending>,
    outgoing: Connections,
}

impl Machine for ThisMachine {
    fn resident_size(&mut self) -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        resident_of(&status).unwrap_or(0)
    }

    fn memory_size(&mut self) -> u64 {
        self.memory_size
    }

    fn processor_us(&mut self) -> (u64, u64) {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: `usage` is writable and of the type that the call fills.
        let result = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
        if result != 0 {
            return (0, 0);
        }
        // SAFETY: a rusage of zeroes is one, and the call has filled it.
        let usage = unsafe { usage.assume_init() };
        let us = |time: libc::timeval| {
            u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(time.tv_usec).unwrap_or(0)
        };
        (us(usage.ru_stime), us(usage.ru_utime))
    }

    fn signature(&mut self, lane: u16, resident_size: u64, now: Now) -> Signature {
        self.signatures.look(usize::from(lane), resident_size, now.mono_ns)
    }

    fn queues(&mut self) -> Result<Vec<lane::Queue>, String> {
        pin::queues()
    }

    fn links_changed(&mut self) -> bool {
        self.cards.have_changed()
    }

    fn allow_clients(&mut self, count: usize) -> Result<(), usize> {
        let wanted = u64::try_from(count).unwrap_or(u64::MAX).saturating_add(self.files_beside);
        machine::allow_files(wanted).map_err(|allowed| {
            usize::try_from(allowed.saturating_sub(self.files_beside)).unwrap_or(usize::MAX)
        })
    }

    fn outgoing(&mut self) -> Option<&mut dyn Outgoing> {
        Some(&mut self.outgoing)
    }

    fn draw(&mut self, bytes: &mut [u8]) -> Result<(), String> {
        for piece in bytes.chunks_mut(16) {
            let words = machine::secret().map_err(|error| format!("no random bytes: {error}"))?;
            let drawn = words.map(u64::to_ne_bytes);
            piece.copy_from_slice(&drawn.as_flattened()[..piece.len()]);
        }
        Ok(())
    }

    fn read_users(&mut self) -> Result<Vec<u8>, String> {
        fs::read(&self.users).map_err(|error| users::reason(&error))
    }

    fn write_users(&mut self, text: &[u8]) -> Result<(), String> {
        settings::replace(&self.users, text)
            .map_err(|error| format!("{}: {}", self.users.display(), users::reason(&error)))
    }

    fn warn(&mut self, line: &str) {
        control::log(Level::Warn, line);
    }

    fn note(&mut self, line: &str) {
        control::log(Level::Info, line);
    }

    fn write_file(&mut self, order: FileOrder) {
        self.desk.order(order);
    }

    fn file_news(&mut self) -> Option<FileNews> {
        self.desk.news()
    }

    fn follow(&mut self, order: FollowOrder) -> bool {
        self.follower.order(order)
    }

    fn follow_news(&mut self) -> Option<FollowNews> {
        self.follower.news()
    }

    fn wants_end(&mut self) -> bool {
        self.ending.consider()
    }

    fn refuse_end(&mut self) {
        self.ending.finish(false);
    }

    fn rewrite(&mut self, changed: &[(String, String)]) -> Result<(), String> {
        let rewritten = settings::rewrite(&self.config, changed)?;
        control::log(Level::Info, &format!("a client had {} rewritten", self.config.display()));
        if !rewritten.left_out.is_empty() {
            let names = rewritten.left_out.join(", ");
            control::log(Level::Warn, &format!("not written, for the file has no such keys: {names}"));
        }
        Ok(())
    }
}

/// Bytes behind `VmRSS` in a process' status.
fn resident_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Who this process is.
pub(crate) fn identity(settings: &ServeSettings) -> Identity {
    let release = fs::read_to_string(Path::new("/proc/sys/kernel/osrelease")).unwrap_or_default();
    let path = |path: Option<&Path>| path.map(|path| path.display().to_string()).unwrap_or_default();
    let config =
        settings.config.as_deref().map(|path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf()));
    Identity {
        os: format!("Linux {} {}", release.trim(), std::env::consts::ARCH),
        process_id: std::process::id(),
        executable: path(std::env::current_exe().ok().as_deref()),
        config_file: path(config.as_deref()),
        backend: if settings.io == Io::Uring { "io_uring" } else { "epoll" }.to_owned(),
        port: settings.port,
    }
}

/// What CONFIG GET shows of the settings that the server has started with.
pub(crate) fn config(settings: &ServeSettings) -> Vec<(String, String)> {
    let yes_no = |holds: bool| if holds { "yes" } else { "no" }.to_owned();
    let bind: Vec<String> = settings.bind.iter().map(ToString::to_string).collect();
    let clients_memory = match settings.maxmemory_clients {
        ClientsMemory::Size(size) => size.0.to_string(),
        ClientsMemory::Percent(percent) => format!("{percent}%"),
    };
    let limits = &settings.client_output_buffer_limit;
    let limits = [("normal", &limits.normal), ("slave", &limits.replica), ("pubsub", &limits.pubsub)];
    let limits: Vec<String> = limits.iter().map(|(class, limit)| limit_text(class, limit)).collect();
    let dir = settings.dir.canonicalize().unwrap_or_else(|_| settings.dir.clone()).display().to_string();
    let aclfile = settings.aclfile.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    let socket = settings.unixsocket.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    [
        ("bind", bind.join(" ")),
        ("port", settings.port.to_string()),
        ("unixsocket", socket),
        ("unixsocketperm", format!("{:o}", settings.unixsocketperm.0)),
        ("tcp-backlog", settings.tcp_backlog.to_string()),
        ("tcp-keepalive", settings.tcp_keepalive.to_string()),
        ("maxmemory", settings.maxmemory.0.to_string()),
        ("maxmemory-policy", settings.maxmemory_policy.name()),
        ("maxmemory-clients", clients_memory),
        ("requirepass", settings.requirepass.clone().unwrap_or_default()),
        ("protected-mode", yes_no(settings.protected_mode)),
        ("enable-debug-command", settings.enable_debug_command.clone()),
        ("maxclients", settings.maxclients.to_string()),
        ("timeout", settings.timeout.to_string()),
        ("databases", settings.databases.to_string()),
        ("proto-max-bulk-len", settings.proto_max_bulk_len.0.to_string()),
        ("max-item-size", settings.max_item_size.0.to_string()),
        ("tracking-table-max-keys", settings.tracking_table_max_keys.to_string()),
        ("notify-keyspace-events", settings.notify_keyspace_events.to_string()),
        ("script-memory-limit", settings.script_memory_limit.0.to_string()),
        ("rdbcompression", yes_no(settings.rdbcompression)),
        ("dir", dir),
        ("dbfilename", settings.dbfilename.clone()),
        ("save", settings.save.clone()),
        ("appendonly", yes_no(settings.appendonly)),
        ("appendfsync", settings.appendfsync.clone()),
        ("appenddirname", settings.appenddirname.clone()),
        ("appendfilename", settings.appendfilename.clone()),
        ("aof-load-truncated", yes_no(settings.aof_load_truncated)),
        ("auto-aof-rewrite-percentage", settings.auto_aof_rewrite_percentage.to_string()),
        ("auto-aof-rewrite-min-size", settings.auto_aof_rewrite_min_size.0.to_string()),
        ("max-record-size", settings.max_record_size.0.to_string()),
        ("client-query-buffer-limit", settings.client_query_buffer_limit.0.to_string()),
        ("client-output-buffer-limit", limits.join(" ")),
        ("slowlog-log-slower-than", settings.slowlog_log_slower_than.to_string()),
        ("slowlog-max-len", settings.slowlog_max_len.to_string()),
        ("aclfile", aclfile),
        ("acl-pubsub-default", settings.acl_pubsub_default.clone()),
        ("acllog-max-len", settings.acllog_max_len.to_string()),
        ("replicaof", settings.replicaof.clone()),
        ("masterauth", settings.masterauth.clone()),
        ("masteruser", settings.masteruser.clone()),
        ("replica-serve-stale-data", yes_no(settings.replica_serve_stale_data)),
        ("auto-pin", settings.auto_pin.of_lanes().name().to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

fn limit_text(class: &str, limit: &OutputLimit) -> String {
    let (hard, soft) = (limit.hard_size.unwrap_or(0), limit.soft_size.unwrap_or(0));
    format!("{class} {hard} {soft} {}", limit.soft_duration.as_secs())
}

/// A name for this run: forty hex digits of chance.
pub(crate) fn run_id(chance: [u64; 2], more: [u64; 2]) -> String {
    let digits: String = chance.iter().chain(&more).map(|word| format!("{word:016x}")).collect();
    digits[..40].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_in_bytes() {
        assert_eq!(resident_of("Name:\tx\nVmRSS:\t    1024 kB\nVmData: 1 kB\n"), Some(1 << 20));
        assert_eq!(resident_of("Name:\tx\n"), None);
    }

    #[test]
    fn a_run_has_forty_hex_digits() {
        assert_eq!(run_id([1, 2], [3 << 32, 4]), "0000000000000001000000000000000200000003");
    }
}
