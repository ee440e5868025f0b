//! One client and a model of what it should see.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sim::World;
use wire::aerospike::head::{info1, info2, info3};
use wire::aerospike::op::{kind, particle};

use crate::check::{Dice, faults_of};
use crate::records::talk::{Ask, ask, batch, exchange, settings, show, sum};

/// What a client should see: each record's bins in their order, and its generation.
#[derive(Default)]
struct Model {
    records: BTreeMap<u16, (Vec<(String, Value)>, u16)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Number(i64),
    Text(String),
}

impl Model {
    fn show(bins: &[(String, Value)]) -> String {
        let show = |(name, value): &(String, Value)| match value {
            Value::Number(number) => format!("{name}=i{number}"),
            Value::Text(text) if text.len() > 60 => {
                format!("{name}=({} bytes, {})", text.len(), sum(text.as_bytes()))
            }
            Value::Text(text) => format!("{name}={text}"),
        };
        let all: Vec<String> = bins.iter().map(show).collect();
        if all.is_empty() { String::new() } else { format!(" {}", all.join(",")) }
    }

    /// A random request and what it answers, without what stands behind the code of a row.
    fn step(&mut self, dice: &mut Dice) -> (Ask, u8, String) {
        let number = u16::try_from(dice.below(10)).unwrap();
        let held = self.records.get(&number).cloned();
        match dice.below(8) {
            0..3 => {
                // Many are looked up otherwise than few.
                let count = if dice.below(6) == 0 { 9 + dice.below(8) } else { dice.below(3) };
                let names: Vec<String> = (0..count).map(|_| format!("b{}", dice.below(4))).collect();
                let Some((bins, generation)) = held else {
                    return (Model::reading(number, &names), 2, " g0".to_owned());
                };
                let found: Vec<(String, Value)> = if names.is_empty() {
                    bins
                } else {
                    let find = |name: &String| bins.iter().find(|(other, _)| other == name).cloned();
                    names.iter().filter_map(find).collect()
                };
                (Model::reading(number, &names), 0, format!(" g{generation}{}", Model::show(&found)))
            }
            3 => {
                self.records.remove(&number);
                let code = if held.is_some() { 0 } else { 2 };
                (ask(number, 0, info2::WRITE | info2::DELETE, 0), code, " g0".to_owned())
            }
            _ => {
                let (mut bins, generation) = held.clone().unwrap_or_default();
                let policy = dice.below(6);
                let (info2, info3) = match policy {
                    0 => (info2::CREATE_ONLY, 0),
                    1 => (0, info3::UPDATE_ONLY),
                    2 => (info2::GENERATION_EQUAL, 0),
                    _ => (0, 0),
                };
                let mut asked = ask(number, info1::READ, info2 | info2::WRITE, info3);
                asked.message.generation = u32::from(generation) + u32::from(dice.below(3) == 0);
                let (mut answers, mut is_wrong) = (Vec::new(), false);
                let op_count = if dice.below(6) == 0 { 9 + dice.below(8) } else { 1 + dice.below(4) };
                for _ in 0..op_count {
                    let name = format!("b{}", dice.below(4));
                    let place = bins.iter().position(|(other, _)| *other == name);
                    let size = if dice.below(6) == 0 { dice.below(60_000) } else { dice.below(12) };
                    let text =
                        char::from(b'a' + u8::try_from(dice.below(26)).unwrap()).to_string().repeat(size);
                    let held = place.map(|place| bins[place].1.clone());
                    let mut set = |value: Value| match place {
                        Some(place) => bins[place].1 = value,
                        None => bins.push((name.clone(), value)),
                    };
                    match dice.below(6) {
                        0 => {
                            let number = i64::try_from(dice.below(100)).unwrap();
                            set(Value::Number(number));
                            asked = asked.number(&name, number);
                        }
                        1 => {
                            asked = asked.text(&name, &text);
                            set(Value::Text(text));
                        }
                        2 => {
                            asked = asked.incr(&name, 5);
                            match held {
                                None => set(Value::Number(5)),
                                Some(Value::Number(old)) => set(Value::Number(old + 5)),
                                Some(Value::Text(_)) => is_wrong = true,
                            }
                        }
                        3 => {
                            asked = asked.op(kind::APPEND, particle::STRING, &name, text.as_bytes());
                            match held {
                                None => set(Value::Text(text)),
                                Some(Value::Text(old)) => set(Value::Text(old + &text)),
                                Some(Value::Number(_)) => is_wrong = true,
                            }
                        }
                        4 => {
                            asked = asked.nil(&name);
                            if let Some(place) = place {
                                bins.remove(place);
                            }
                        }
                        _ => {
                            asked = asked.read(&name);
                            answers.extend(place.map(|place| bins[place].clone()));
                        }
                    }
                }
                let code = match (&held, policy) {
                    (Some(_), 0) => 5,
                    (None, 1) => 2,
                    (_, 2) if asked.message.generation != u32::from(generation) => 3,
                    _ if is_wrong => 12,
                    (None, _) if bins.is_empty() => 2,
                    _ => 0,
                };
                if code != 0 {
                    return (asked, code, " g0".to_owned());
                }
                if bins.is_empty() {
                    self.records.remove(&number);
                    return (asked, 0, format!(" g0{}", Model::show(&answers)));
                }
                self.records.insert(number, (bins, generation + 1));
                (asked, 0, format!(" g{}{}", generation + 1, Model::show(&answers)))
            }
        }
    }

    fn reading(number: u16, names: &[String]) -> Ask {
        let all = if names.is_empty() { info1::GET_ALL } else { 0 };
        names.iter().fold(ask(number, info1::READ | all, 0, 0), |ask, name| ask.read(name))
    }
}

/// Random requests of one client over several lanes, alone and in batches, whose bytes are cut, delayed and sent in bursts.
#[test]
fn a_client_sees_what_the_model_says() {
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let lane_count = 1 + u16::try_from(dice.below(4)).unwrap();
        let mut world = World::new(lane_count, &settings(), seed, faults_of(seed));
        let mut client = world.connect(0);
        let mut model = Model::default();
        for _ in 0..10 {
            let (mut bytes, mut want) = (Vec::new(), String::new());
            for _ in 0..1 + dice.below(10) {
                if dice.below(2) == 0 {
                    let (ask, code, rest) = model.step(&mut dice);
                    bytes.extend(ask.bytes());
                    let _ = write!(want, "{code}{rest}|");
                    continue;
                }
                let mut rows = Vec::new();
                for row in 1..2 + dice.below(6) {
                    let (ask, code, rest) = model.step(&mut dice);
                    rows.push(ask);
                    let (generation, bins) =
                        rest.split_at(rest[1..].find(' ').map_or(rest.len(), |at| at + 1));
                    let _ = write!(want, "{code}{generation} #{row}{bins}|");
                }
                bytes.extend(batch(&rows));
                want += "0 g0 last|";
            }
            let got = exchange(&mut world, &mut client, &bytes, want.matches('|').count());
            let got = show(&got, world.now.unix_ms);
            assert!(
                got == want,
                "seed {seed}:\n{}\n{}",
                &got[..got.len().min(2000)],
                &want[..want.len().min(2000)]
            );
        }
    }
}
