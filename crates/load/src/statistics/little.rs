//! Do the figures fit together? Little's law: requests in flight = rate × mean time in the system.
//!
//! A closed loop of C connections with P requests each keeps C·P in flight. Where rate × mean time gives clearly less, the
//! rest of each cycle was spent outside the measured time: the client was the limit, or its clock did not see its own
//! queue. Where it gives more, the figures belong to different sets of requests. (Little, "A proof for the queuing formula
//! L = λW", Operations Research 1961.)

use serde::{Deserialize, Serialize};

/// Below this share of what is offered, a run is amber.
const AMBER_BELOW: f64 = 0.95;
/// And below this, red.
const RED_BELOW: f64 = 0.90;
/// Above this, amber: no more can be in flight than was offered, but a run's edges blur it.
const AMBER_ABOVE: f64 = 1.02;
/// And above this, red.
const RED_ABOVE: f64 = 1.10;

/// How far a figure may be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Light {
    /// As it should be.
    Green,
    /// Shown, and marked.
    Amber,
    /// Repeated, then left out with the reason.
    Red,
}

/// Requests in flight, by the law and as offered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Little {
    /// Rate × mean time.
    pub in_flight: f64,
    /// Connections × requests that each keeps in flight.
    pub offered: f64,
    /// The one by the other: 1 where everything is accounted for.
    pub ratio: f64,
    /// What the ratio means for the run.
    pub light: Light,
}

impl Little {
    /// Of a closed loop. `offered` is connections × pipeline, above zero.
    pub fn of(requests_per_second: f64, mean_ns: f64, offered: f64) -> Little {
        assert!(offered > 0.0, "a closed loop offers something");
        let in_flight = requests_per_second * mean_ns / 1e9;
        let ratio = in_flight / offered;
        let light = match ratio {
            ratio if !(RED_BELOW..=RED_ABOVE).contains(&ratio) => Light::Red,
            ratio if !(AMBER_BELOW..=AMBER_ABOVE).contains(&ratio) => Light::Amber,
            _ => Light::Green,
        };
        Little { in_flight, offered, ratio, light }
    }

    /// The share of each request's cycle that lies outside its measured time; below zero where more was in flight than can
    /// have been.
    pub fn outside_share(&self) -> f64 {
        1.0 - self.ratio
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lights_of_ratios() {
        for (in_flight, want) in [
            (100.0, Light::Green),
            (95.5, Light::Green),
            (101.5, Light::Green),
            (94.5, Light::Amber),
            (103.0, Light::Amber),
            (89.5, Light::Red),
            (111.0, Light::Red),
            (f64::NAN, Light::Red),
        ] {
            // A mean of one millisecond: a thousand a second are one in flight.
            let little = Little::of(in_flight * 1_000.0, 1e6, 100.0);
            assert_eq!(little.light, want, "{in_flight} of 100");
        }
        assert!((Little::of(1_000.0, 1e6, 4.0).outside_share() - 0.75).abs() < 1e-12);
    }
}
