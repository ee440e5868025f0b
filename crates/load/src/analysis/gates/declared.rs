//! Bounds of gates that a comparison declares before its first run, in place of the table's: "steal <= 30 %".
//!
//! A noisy machine drops every pair by its nature. Whoever has no other may say beforehand what is to be borne; since it befalls
//! both sides in random order, it widens the interval and does not move it. The report says what was declared.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Colour, Gate, PRESSURE, gates};
use crate::analysis::Figures;
use crate::result::Run;

/// Gates whose bound may be declared: what the machine or the load does, never what the server answers.
const MOVABLE: [&str; 4] = ["send lag", "load cpu", "steal", PRESSURE];

/// A gate, and the share up to which it drops no pair. Its text: `steal <= 30 %`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GateBound {
    /// The gate's name.
    pub gate: String,
    /// Shares above it are red, others are not.
    pub most: f64,
}

/// Of a run, with these bounds in place of the table's.
pub fn gates_within(run: &Run, figures: &Figures, bounds: &[GateBound]) -> Vec<Gate> {
    let mut gates = gates(run, figures);
    for gate in &mut gates {
        if let Some(bound) = bounds.iter().find(|bound| bound.gate == gate.name) {
            gate.colour = match gate.colour {
                _ if gate.value > bound.most => Colour::Red,
                Colour::Red => Colour::Amber,
                colour => colour,
            };
        }
    }
    gates
}

impl FromStr for GateBound {
    type Err = String;

    fn from_str(text: &str) -> Result<GateBound, String> {
        let wrong =
            || format!("`{text}` is no bound of a gate: write `steal <= 30 %`, of {}", MOVABLE.join(", "));
        let (gate, most) = text.split_once("<=").ok_or_else(wrong)?;
        let gate = MOVABLE.into_iter().find(|known| *known == gate.trim()).ok_or_else(wrong)?;
        let percent: f64 =
            most.trim().strip_suffix('%').ok_or_else(wrong)?.trim().parse().map_err(|_| wrong())?;
        if !(percent > 0.0 && percent.is_finite()) {
            return Err(wrong());
        }
        Ok(GateBound { gate: gate.to_owned(), most: percent / 100.0 })
    }
}

impl fmt::Display for GateBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // To a millionth, so that 0.07 is 7 again.
        write!(f, "{} <= {} %", self.gate, (self.most * 1e8).round() / 1e6)
    }
}

impl TryFrom<String> for GateBound {
    type Error = String;

    fn try_from(text: String) -> Result<GateBound, String> {
        text.parse()
    }
}

impl From<GateBound> for String {
    fn from(bound: GateBound) -> String {
        bound.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::run;
    use crate::result::RunHead;

    #[test]
    fn a_bound_is_read_and_written() {
        for (text, want) in [
            ("steal <= 30 %", "steal <= 30 %"),
            ("send lag<=7%", "send lag <= 7 %"),
            ("pressure <= 62.5 %", "pressure <= 62.5 %"),
            ("load cpu <= 100 %", "load cpu <= 100 %"),
        ] {
            assert_eq!(text.parse::<GateBound>().unwrap().to_string(), want);
        }
        for text in [
            "",
            "steal",
            "steal <= 30",
            "steal < 30 %",
            "errors <= 3 %",
            "steal <= 0 %",
            "steal <= x %",
            "steal <= inf %",
        ] {
            let problem = text.parse::<GateBound>().unwrap_err();
            assert!(problem.contains(&format!("`{text}`")) && problem.contains("pressure"), "{problem}");
        }
    }

    #[test]
    fn what_was_declared_takes_the_place_of_the_table() {
        let head = RunHead { rate: Some(2000.0), warm_up_s: Some(0), ..RunHead::default() };
        let mut run = run(head, &[(1_000_000, 200), (1_000_000, 200)]);
        for second in &mut run.seconds {
            second.counters = [("cpu_steal".to_owned(), 0.4), ("cpu_idle".to_owned(), 1.6)].into();
        }
        let colour = |bounds: &[&str]| {
            let bounds: Vec<GateBound> = bounds.iter().map(|text| text.parse().unwrap()).collect();
            let gates = gates_within(&run, &Figures::of(&run), &bounds);
            gates.into_iter().find(|gate| gate.name == "steal").unwrap().colour
        };
        assert_eq!(colour(&[]), Colour::Red);
        assert_eq!(colour(&["pressure <= 90 %"]), Colour::Red, "another gate's");
        assert_eq!(colour(&["steal <= 25 %"]), Colour::Amber, "still said");
        assert_eq!(colour(&["steal <= 15 %"]), Colour::Red, "beyond that, too");
    }
}
