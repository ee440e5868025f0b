//! A server of a comparison: started anew for each run, pinned, asked until it answers, ended. It never outlives this program: a
//! second Ctrl-C, which ends the program at once, ends it too.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use load::connect::{Connected, Dialect, Login};

use super::plan::SetUp;
use crate::bench::watch;
use crate::machine;
use crate::stop::Stop;

/// How long a server may take until it answers, and until it has ended when it is asked to.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// One that answers.
pub(in crate::bench) struct Server<'a> {
    setup: &'a SetUp,
    child: Option<Child>,
    log: PathBuf,
    /// Its process, if it is on this machine.
    pub(in crate::bench) pid: Option<u32>,
}

impl<'a> Server<'a> {
    /// Starts it, or finds it, and waits until it answers. `letter` names its log.
    pub(in crate::bench) fn start(
        setup: &'a SetUp,
        login: &Login,
        letter: &str,
        stop: &Stop,
    ) -> Result<Server<'a>, String> {
        let endpoint = setup.address();
        let log = std::env::temp_dir().join(format!("expresslane-bench-{}-{letter}.log", std::process::id()));
        let mut server = Server { setup, child: None, log, pid: None };
        let Some(words) = &setup.start else {
            Connected::new(endpoint, login).map_err(|error| error.to_string())?;
            server.pid = watch::server_pid(endpoint, login);
            return Ok(server);
        };
        if Connected::new(endpoint, &Login { dialect: Dialect::Memcached, ..Login::default() }).is_ok() {
            return Err(format!(
                "{endpoint}: something listens there already: end it, or choose another address"
            ));
        }
        for command in &setup.before {
            shell(command)?;
        }
        match server.begin(words, login, stop) {
            Ok(()) => Ok(server),
            // What was done before it is undone.
            Err(problem) => server.end_after(Err(problem)),
        }
    }

    fn begin(&mut self, words: &[String], login: &Login, stop: &Stop) -> Result<(), String> {
        let child = self.spawn(words).map_err(|error| {
            format!("`{}` can't be started: {error}; is it installed and in PATH?", words.join(" "))
        })?;
        self.pid = Some(child.id());
        self.child = Some(child);
        self.await_answer(login, stop)
    }

    /// The child gets this thread's cpus, so it is pinned before its first instruction.
    fn spawn(&self, words: &[String]) -> io::Result<Child> {
        let log = File::create(&self.log)?;
        let words: Vec<&String> = self.setup.wrapper.iter().chain(words).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).envs(&self.setup.environment);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        machine::bind_life(&mut command);
        let cpus = self.setup.cpus().map_err(io::Error::other)?;
        if cpus.is_empty() {
            return command.spawn();
        }
        let before = machine::allowed_cpus()?;
        machine::pin_to(&cpus)?;
        let child = command.spawn();
        machine::pin_to(&before)?;
        child
    }

    fn await_answer(&mut self, login: &Login, stop: &Stop) -> Result<(), String> {
        let mut problem = String::new();
        for _ in 0..PATIENCE.as_millis() / LOOK.as_millis() {
            if let Some(status) = self.ended() {
                return Err(format!("`{}` ended at once ({status}){}", self.words(), self.last_words()));
            }
            if stop.is_set() {
                return Err("stopped by hand".to_owned());
            }
            let answer = Connected::new(self.setup.address(), login).and_then(|mut connected| {
                if login.dialect.is_redis() {
                    // Redis that loads its data answers with an error.
                    connected.ask(&[b"PING"])?;
                }
                Ok(())
            });
            match answer {
                Ok(()) => return Ok(()),
                Err(error) => problem = error.to_string(),
            }
            pause();
        }
        Err(format!(
            "`{}` does not answer within {} s: {problem}{}",
            self.words(),
            PATIENCE.as_secs(),
            self.last_words()
        ))
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.try_wait().ok().flatten()
    }

    fn words(&self) -> String {
        self.setup.start.as_deref().unwrap_or_default().join(" ")
    }

    /// What it said last.
    fn last_words(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        text.lines()
            .rfind(|line| !line.trim().is_empty())
            .map_or(String::new(), |line| format!(": {}", line.trim()))
    }

    /// Ends it, if it was started here.
    pub(in crate::bench) fn end(mut self) -> Result<(), String> {
        self.shut();
        let after = if self.setup.start.is_some() { &self.setup.after[..] } else { &[] };
        after.iter().try_for_each(|command| shell(command))
    }

    /// Ends it behind what was done with it, and says what went wrong with either.
    pub(in crate::bench) fn end_after<T>(self, done: Result<T, String>) -> Result<T, String> {
        match (done, self.end()) {
            (Ok(done), Ok(())) => Ok(done),
            (Ok(_), Err(problem)) | (Err(problem), Ok(())) => Err(problem),
            (Err(problem), Err(more)) => Err(format!("{problem}; {more}")),
        }
    }

    fn shut(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        machine::terminate(child.id());
        for _ in 0..PATIENCE.as_millis() / LOOK.as_millis() {
            if matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
                break;
            }
            pause();
        }
        // It has ended, or would not.
        let _ = child.kill();
        let _ = child.wait();
        let _ = std::fs::remove_file(&self.log);
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        self.shut();
    }
}

/// A hook of the plan.
fn shell(command: &str) -> Result<(), String> {
    let output = Command::new("sh").arg("-c").arg(command).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("`{command}`: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let said = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    Err(format!("`{command}` failed ({}): {said}", output.status))
}

#[expect(clippy::disallowed_methods, reason = "whoever waits for a process has nothing else to do")]
fn pause() {
    std::thread::sleep(LOOK);
}
