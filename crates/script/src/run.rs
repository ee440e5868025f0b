//! A script under way.

use std::rc::Rc;

use mlua::{MultiValue, Value};
use wire::Proto;
use wire::client::Reply;

use crate::answer::{Answer, Whole};
use crate::convert::{self, text, with_code};
use crate::engine::{Lists, Seat};
use crate::functions::{self, Registered};
use crate::random::Random;
use crate::sandbox::{Host, Mark, OUT_OF_MEMORY, explain, integer, words};
use crate::{Engine, Function, Library, Returned, Sha, Words, program};

/// What a script needs to go on, or what it came to.
#[derive(Debug)]
pub enum Step {
    /// `redis.call` or `redis.pcall`: answer it with the next [`Run::resume`].
    Call {
        /// The command, at least its name. Numbers are written as Redis writes them.
        words: Words,
        /// The protocol of which the reply is to be (`redis.setresp`).
        proto: Proto,
        /// An error is returned to the script instead of ending it.
        is_protected: bool,
    },
    /// `redis.log`.
    Log {
        /// 0 (debug) to 3 (warning).
        level: u8,
        /// What is to be logged.
        text: Vec<u8>,
    },
    /// The fuel is spent.
    More,
    /// The script has ended. An error has Redis' text, with the script's name and line where it failed by itself.
    Done(Reply),
    /// It has, with a list.
    Return(Returned),
}

/// What runs.
#[derive(Debug)]
pub(crate) enum Subject {
    Script(Sha),
    /// A library, until it has registered its functions, then the one at `index` of them.
    Function {
        library: Library,
        index: usize,
        is_loaded: bool,
    },
    /// A library, for nothing but what it registers.
    Load,
}

/// A script under way, or a function of a library. Dropping it ends it. There may be many in one engine, and they may be resumed in turns.
pub struct Run {
    subject: Subject,
    is_read_only: bool,
    /// Until it ends.
    seat: Option<Seat>,
    /// Until it begins.
    lists: Option<Lists>,
    has_begun: bool,
    is_waiting_for_reply: bool,
    proto: Proto,
    seeded: Option<Random>,
    /// What a library has registered so far.
    registered: Registered,
    /// It has ended with an error of a command that it has called.
    is_counted: bool,
    host: Rc<Host>,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("subject", &self.subject).finish_non_exhaustive()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.host.note_garbage();
    }
}

/// What the script's thread is told.
enum Input {
    Begin,
    /// After an interrupt, or a line of redis.log.
    GoOn,
    /// Whether it is a value or an error, and it.
    Answer(bool, Value),
}

/// What to do with what the script's thread has said.
enum Next {
    Step(Step),
    /// Answer at once.
    Answer(Input),
    /// It has ended.
    Done,
}

impl Run {
    pub(crate) fn new(
        subject: Subject,
        is_read_only: bool,
        seat: Seat,
        lists: Option<Lists>,
        host: Rc<Host>,
    ) -> Run {
        Run {
            subject,
            is_read_only,
            seat: Some(seat),
            lists,
            has_begun: false,
            is_waiting_for_reply: false,
            proto: Proto::Resp2,
            seeded: None,
            registered: Registered::default(),
            is_counted: false,
            host,
        }
    }

    /// Whether it has ended with the error of a command that it has called, which has been counted with that command.
    pub fn is_error_counted(&self) -> bool {
        self.is_counted
    }

    fn seat(&self) -> &Seat {
        self.seat.as_ref().expect("a run that has ended is not asked for more")
    }

    /// Its keys and its arguments, until it begins.
    pub(crate) fn lists(&self) -> Option<&Lists> {
        self.lists.as_ref()
    }

    /// The function that runs; none if it is a script.
    pub fn function(&self) -> Option<&Function> {
        match &self.subject {
            Subject::Function { library, index, .. } => library.functions().get(*index),
            Subject::Script(_) | Subject::Load => None,
        }
    }

    /// What a library has registered.
    pub(crate) fn registered(&mut self) -> Registered {
        std::mem::take(&mut self.registered)
    }

    fn is_loading(&self) -> bool {
        matches!(self.subject, Subject::Load | Subject::Function { is_loaded: false, .. })
    }

    /// As it was begun: commands that write are to be refused.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Goes on until something is needed, or for `fuel` interrupts: turns of loops, calls and returns. A kilobyte of new memory counts
    /// as one, too. `answer` is the reply to the last [`Step::Call`], and nothing otherwise. `cpu_ns` is what `os.clock` shows.
    ///
    /// A thousand interrupts take 20 µs of an empty loop, 70 of `pcall`s, 140 where each makes a table (one core of an AMD EPYC,
    /// profile `quick`). Not interrupted are: one call of a library's function, and what runs inside a metamethod, an error's handler or
    /// a pattern, which is ended after four million interrupts (0.1 to 0.2 s).
    ///
    /// # Panics
    /// If the engine is not the one that began the run, the run has ended, or an answer is missing, not whole, or one too many.
    pub fn resume(&mut self, engine: &mut Engine, answer: Option<Answer>, fuel: u32, cpu_ns: u64) -> Step {
        assert!(Rc::ptr_eq(&self.host, &engine.host), "a run goes on in the engine that began it");
        assert_eq!(
            self.is_waiting_for_reply,
            answer.is_some(),
            "each call gets its reply, and nothing else does"
        );
        self.is_waiting_for_reply = false;
        self.host.start(fuel, cpu_ns, self.seat().address);
        let registered = self.is_loading().then(|| self.registered());
        {
            let mut talk = self.host.talk();
            (talk.proto, talk.seeded, talk.registered) = (self.proto, self.seeded, registered);
            talk.env = Some(Rc::clone(&self.seat().env));
        }
        let step = self.go_on(engine, answer);
        {
            let mut talk = self.host.talk();
            // Through them a run that never comes to its end would keep its lists.
            (self.proto, self.seeded, talk.env) = (talk.proto, talk.seeded, None);
            if let Some(registered) = talk.registered.take() {
                self.registered = registered;
            }
        }
        step
    }

    fn go_on(&mut self, engine: &mut Engine, answer: Option<Answer>) -> Step {
        let mut input = match answer {
            None if !std::mem::replace(&mut self.has_begun, true) => Input::Begin,
            None => Input::GoOn,
            Some(answer) => match heard(engine, answer) {
                Ok(input) => input,
                Err(_) => return self.fail(engine.out_of_memory(), None),
            },
        };
        loop {
            let output = match self.tell(input) {
                Ok(output) => output.into_vec(),
                Err(error) => return self.broken(engine, &error),
            };
            if let Some(text) = self.host.meter.doom() {
                return self.fail(format!("ERR {text}"), None);
            }
            let next = match self.next(engine, &output) {
                Ok(next) => next,
                Err(error) => return self.broken(engine, &error),
            };
            match next {
                Next::Step(step) => return step,
                Next::Answer(answer) => input = answer,
                Next::Done => return self.done(engine, &output[1..]),
            }
        }
    }

    /// Goes on with its thread; what that says next.
    fn tell(&mut self, input: Input) -> mlua::Result<MultiValue> {
        let lists = if self.is_loading() { None } else { self.lists.take() };
        let Seat { thread, function, .. } = self.seat();
        match (input, lists) {
            (Input::Begin, Some((keys, args))) => thread.resume((function, keys, args)),
            (Input::Begin, None) => thread.resume(function),
            (Input::GoOn, _) => thread.resume(()),
            (Input::Answer(is_value, value), _) => thread.resume((is_value, value)),
        }
    }

    /// A library has come to its end. The run goes on with the function that is called.
    fn loaded(&mut self, engine: &mut Engine) -> Step {
        let registered = self.host.talk().registered.take().unwrap_or_default();
        let (Subject::Function { library, index, is_loaded }, Some(seat)) =
            (&mut self.subject, &mut self.seat)
        else {
            self.registered = registered;
            return Step::Done(Reply::Null);
        };
        match engine.settle(library, *index, seat, registered) {
            Some(Ok(())) => {
                (*is_loaded, self.has_begun) = (true, false);
                Step::More
            }
            Some(Err(_)) => self.fail(engine.out_of_memory(), None),
            None => self.fail("ERR the library has come to other functions than before", None),
        }
    }

    fn next(&mut self, engine: &Engine, output: &[Value]) -> mlua::Result<Next> {
        let refuse = |text: &str| {
            let error = engine.names.error(&engine.lua, format!("ERR {text}").as_bytes())?;
            Ok(Next::Answer(Input::Answer(false, error)))
        };
        let Some((mark, args)) = output.split_first() else { return Ok(Next::Step(Step::More)) };
        match Mark::of(mark) {
            Some(mark @ (Mark::Call | Mark::Pcall)) => match words(args, engine.reply_size_max()) {
                Ok(words) => {
                    self.is_waiting_for_reply = true;
                    let proto = self.host.talk().proto;
                    Ok(Next::Step(Step::Call { words, proto, is_protected: mark == Mark::Pcall }))
                }
                Err(text) => refuse(text),
            },
            Some(Mark::Log) => match log(args) {
                // It was logged when the library came; each interpreter that loads it need not say it again.
                Ok(_) if matches!(self.subject, Subject::Function { is_loaded: false, .. }) => {
                    Ok(Next::Answer(Input::GoOn))
                }
                Ok((level, text)) => Ok(Next::Step(Step::Log { level, text })),
                Err(text) => refuse(text),
            },
            Some(Mark::Done) => Ok(Next::Done),
            // The sandbox lets nothing else out.
            Some(Mark::User) | None => refuse("attempt to yield from outside a coroutine"),
        }
    }

    fn done(&mut self, engine: &mut Engine, output: &[Value]) -> Step {
        let value = output.get(1).unwrap_or(&Value::Nil);
        if output.first() != Some(&Value::Boolean(true)) {
            return self.failed(engine, value);
        }
        if self.is_loading() {
            return self.loaded(engine);
        }
        let proto = self.host.talk().proto;
        let mut budget = engine.reply_size_max();
        if let Some(seat) = self.seat.take() {
            match &self.subject {
                Subject::Script(sha) => engine.keep(sha, seat),
                Subject::Function { library, .. } => engine.keep_thread(library, seat),
                Subject::Load => {}
            }
        }
        self.is_counted = matches!(value, Value::Table(table) if engine.names.is_counted(table));
        if let Value::Table(table) = value
            && !engine.names.is_special(table)
        {
            return Step::Return(Returned::new(table.clone(), proto, budget));
        }
        match engine.names.reply(value, proto, 0, &mut budget) {
            Some(reply) => Step::Done(reply),
            None => self.fail("ERR the script's reply is larger than script-memory-limit".to_owned(), None),
        }
    }

    /// The script has failed by itself: with an error's value, and where.
    fn failed(&mut self, engine: &mut Engine, report: &Value) -> Step {
        let Value::Table(report) = report else {
            // There was no memory for the report, or the stack had no room for it.
            let text = text(report).unwrap_or_default();
            // Our own handler of errors fails for want of memory alone.
            if text == OUT_OF_MEMORY.as_bytes() || text == b"error in error handling" {
                return self.fail(engine.out_of_memory(), None);
            }
            return self.fail(format!("ERR {}", String::from_utf8_lossy(&text)), None);
        };
        let error: Value = report.raw_get(1).unwrap_or_default();
        let line = report.raw_get::<Value>(2).ok().and_then(|line| line.as_i64());
        self.is_counted = matches!(&error, Value::Table(error) if engine.names.is_counted(error));
        let text = match &error {
            Value::Table(error) => match engine.names.error_text(error) {
                Some(text) => text,
                None => b"ERR the script failed with a table that has no err".to_vec(),
            },
            Value::String(text) if text.as_bytes() == OUT_OF_MEMORY.as_bytes() => {
                engine.out_of_memory().into_bytes()
            }
            Value::Error(_) => format!("ERR {}", explain(&error)).into_bytes(),
            other => {
                let text = text(other);
                let text = text.unwrap_or_else(|| other.to_string().unwrap_or_default().into_bytes());
                [b"ERR ", &text[..]].concat()
            }
        };
        self.fail(text, line)
    }

    /// The interpreter gave up: nothing but memory is lacking.
    fn broken(&mut self, engine: &mut Engine, error: &mlua::Error) -> Step {
        // A thread that has found no memory for its stack is not to be looked at by a collector.
        self.seat = None;
        if let Some(text) = self.host.meter.doom() {
            return self.fail(format!("ERR {text}"), None);
        }
        match error {
            mlua::Error::MemoryError(_) => self.fail(engine.out_of_memory(), None),
            other => self.fail(format!("ERR {}", explain(&Value::Error(Box::new(other.clone())))), None),
        }
    }

    fn fail(&self, text: impl Into<Vec<u8>>, line: Option<i64>) -> Step {
        let mut text = wire::reply::quoted(&text.into()).to_vec();
        let tail = match (&self.subject, line) {
            _ if self.is_loading() => {
                text.splice(0..0, *b"ERR Error registering functions: ");
                return Step::Done(Reply::Error(text));
            }
            (Subject::Script(sha), Some(line)) => format!(" script: {sha}, on @{}:{line}.", program::CHUNK),
            (Subject::Function { library, index, .. }, Some(line)) => {
                let name = &library.functions()[*index].name;
                format!(" script: {name}, on @{}:{line}.", functions::CHUNK)
            }
            _ => String::new(),
        };
        text.extend_from_slice(tail.as_bytes());
        Step::Done(Reply::Error(text))
    }
}

/// A command's reply for the script.
fn heard(engine: &Engine, answer: Answer) -> mlua::Result<Input> {
    let (is_value, value) = match answer.take().expect("a run goes on with an answer that is whole") {
        Whole::Value(value) => (true, value),
        Whole::Error(text) => (false, engine.names.counted_error(&engine.lua, &with_code(&text))?),
        Whole::TooLarge => return Err(mlua::Error::MemoryError(String::new())),
    };
    Ok(Input::Answer(is_value, value))
}

/// Bytes of a line of redis.log; more is cut off (`LOG_MAX_LEN` of Redis).
const SAID_SIZE_MAX: usize = 1024;

fn log(args: &[Value]) -> Result<(u8, Vec<u8>), &'static str> {
    let (level, parts) = match args {
        [level, parts @ ..] if !parts.is_empty() => (level, parts),
        _ => return Err("redis.log() requires two arguments or more."),
    };
    let is_number = match level {
        Value::String(text) => text.to_string_lossy().trim().parse::<f64>().is_ok(),
        other => convert::number(other).is_some(),
    };
    if !is_number {
        return Err("First argument must be a number (log level).");
    }
    let level =
        u8::try_from(integer(level)).ok().filter(|level| *level <= 3).ok_or("Invalid debug level.")?;
    let mut line = Vec::new();
    for part in parts.iter().filter_map(text) {
        line.extend_from_slice(&part);
        line.push(b' ');
        if line.len() > SAID_SIZE_MAX {
            break;
        }
    }
    line.pop();
    line.truncate(SAID_SIZE_MAX);
    Ok((level, line))
}
