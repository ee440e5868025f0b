//! One knob of this machine, by its path: what `kernel::live` reads and writes, by hand.
//!
//! ```text
//! knob nic/ens1/qdisc/root               prints what it has; `-` where there is nothing of the kind
//! knob nic/ens1/qdisc/root 'mq'          sets it, and prints what it has then
//! knob nic/ens1/filter/egress/49001 -    takes it away
//! ```
//! Exit codes: 0 done, 1 refused (the kind of refusal and the reason on standard error), 2 no such knob.

use std::fmt::Display;
use std::io::{Write, stderr, stdout};
use std::process::ExitCode;

use host::kernel::live::Live;
use host::{Kernel, Knob, Refusal, Setting};

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let Some(path) = words.next() else {
        return said(&"usage: knob PATH [VALUE, or - to take it away]", 2);
    };
    let knob: Knob = match path.parse() {
        Ok(knob) => knob,
        Err(problem) => return said(&problem, 2),
    };
    match turn(&knob, words.next()) {
        Ok(setting) => {
            let text = setting.map_or_else(|| "-".to_owned(), |setting| setting.to_string());
            ExitCode::from(u8::from(writeln!(stdout(), "{text}").is_err()))
        }
        Err(refusal) => said(&format!("{:?}: {refusal}", refusal.cause), 1),
    }
}

/// Sets it where a value is given; what it has then.
fn turn(knob: &Knob, value: Option<String>) -> Result<Option<Setting>, Refusal> {
    let mut live = Live::new();
    if let Some(value) = value {
        let setting = (value != "-").then(|| Setting::new(&value));
        live.write(knob, setting.as_ref())?;
    }
    live.read(knob)
}

fn said(problem: &dyn Display, code: u8) -> ExitCode {
    // Where nobody listens, the code says it.
    let _ = writeln!(stderr(), "{problem}");
    ExitCode::from(code)
}
