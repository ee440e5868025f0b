//! What INFO says, by name: lines `name:value` of all sections, and those whose value is a list `name=value,…`.

use std::collections::BTreeMap;

/// One answer to INFO.
#[derive(Clone, Debug, Default)]
pub(super) struct Info {
    fields: Fields,
    /// Lines of `# Lanes`, by the lane's number.
    pub(super) lanes: BTreeMap<u16, Fields>,
    /// Lines of `# Dialects`, by the dialect's name and the lane's number.
    pub(super) dialects: BTreeMap<(String, u16), Fields>,
    /// Lines of `# Namespaces`: function, name and fields, in the server's order.
    pub(super) namespaces: Vec<(String, String, Fields)>,
    /// Lines of `# Keyspace`: one for each database that holds something.
    pub(super) databases: Vec<Fields>,
    /// Lines of `# Histograms`, by what they count and the lane's number.
    histograms: BTreeMap<(String, u16), Histogram>,
}

/// Values by name, as text.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields(BTreeMap<String, String>);

/// How many times took up to so many nanoseconds, and longer than the number before.
pub(super) type Histogram = BTreeMap<u64, u64>;

impl Info {
    /// Of the text of INFO. A line that has another form is passed over: later versions may have such.
    pub(super) fn parse(text: &str) -> Info {
        let mut info = Info::default();
        let mut section = "";
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("# ") {
                section = name.trim();
                continue;
            }
            let Some((name, value)) = line.split_once(':') else { continue };
            match section {
                "Lanes" => {
                    if let Some(Ok(lane)) = name.strip_prefix("lane").map(str::parse) {
                        info.lanes.insert(lane, Fields::parse(value));
                    }
                }
                "Dialects" => {
                    if let Some((dialect, Ok(lane))) =
                        name.rsplit_once("_lane").map(|(dialect, lane)| (dialect, lane.parse()))
                    {
                        info.dialects.insert((dialect.to_owned(), lane), Fields::parse(value));
                    }
                }
                "Namespaces" => {
                    let named = name.strip_prefix("namespace_").and_then(|name| name.split_once('_'));
                    if let Some((function, name)) = named {
                        info.namespaces.push((function.to_owned(), name.to_owned(), Fields::parse(value)));
                    }
                }
                "Keyspace" => info.databases.push(Fields::parse(value)),
                "Histograms" => {
                    if let Some((subject, Ok(lane))) =
                        name.rsplit_once("_ns_lane").map(|(subject, lane)| (subject, lane.parse()))
                    {
                        info.histograms.insert((subject.to_owned(), lane), histogram(value));
                    }
                }
                _ => {
                    info.fields.0.insert(name.to_owned(), value.to_owned());
                }
            }
        }
        info
    }

    /// A value of a line of its own.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.fields.text(name)
    }

    /// The same as a number.
    pub(super) fn count(&self, name: &str) -> Option<u64> {
        self.fields.count(name)
    }

    /// The times of `subject` (turn, command) on a lane.
    pub(super) fn histogram(&self, subject: &str, lane: u16) -> Option<&Histogram> {
        self.histograms.get(&(subject.to_owned(), lane))
    }
}

impl Fields {
    fn parse(list: &str) -> Fields {
        let pairs = list.split(',').filter_map(|pair| pair.split_once('='));
        Fields(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// A value that the server knows.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|text| *text != "unknown")
    }

    /// The same as a list, whose parts stand between semicolons; `none` is an empty one.
    pub(super) fn list(&self, name: &str) -> Option<impl Iterator<Item = &str>> {
        Some(self.text(name)?.split(';').filter(|part| *part != "none"))
    }

    /// The same as a whole number.
    pub(super) fn count(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// The same as a number.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.text(name)?.parse().ok().filter(|number: &f64| number.is_finite())
    }
}

fn histogram(list: &str) -> Histogram {
    let pairs = list.split(',').filter_map(|pair| pair.split_once('='));
    pairs.filter_map(|(ns, count)| Some((ns.parse().ok()?, count.parse().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_told_apart() {
        let info = Info::parse(
            "# Server\r\nredis_version:7.0.15\r\nexecutable:/a:b\r\nodd\r\n\r\n# Keyspace\r\ndb0:keys=3,expires=1\r\n\
             # Lanes\r\nlane0:direct=7,us=1.5,node=unknown\r\nlane10:direct=8\r\nmonitors:1\r\n\
             # Histograms\r\nturn_ns_lane0:100=5,200=2\r\n\
             # Dialects\r\nmemcached_lane3:direct=4,errors=ERROR:2\r\nother:1\r\n\
             # Namespaces\r\nnamespace_couchbase_a_b.c:keys=6\r\nnamespaces:1\r\n",
        );
        let namespaces: Vec<_> = info.namespaces.iter().collect();
        assert!(matches!(namespaces[..], [(function, name, fields)]
                if function == "couchbase" && name == "a_b.c" && fields.count("keys") == Some(6)));
        let dialects: Vec<_> = info.dialects.iter().collect();
        assert!(
            matches!(dialects[..], [((name, 3), fields)] if name == "memcached" && fields.count("direct") == Some(4))
        );
        assert_eq!(info.text("redis_version"), Some("7.0.15"));
        assert_eq!(info.text("executable"), Some("/a:b"));
        assert_eq!(info.databases[0].count("keys"), Some(3));
        assert_eq!(info.lanes.keys().copied().collect::<Vec<_>>(), [0, 10]);
        let lane = &info.lanes[&0];
        assert_eq!((lane.count("direct"), lane.number("us"), lane.text("node")), (Some(7), Some(1.5), None));
        assert_eq!(info.histogram("turn", 0), Some(&Histogram::from([(100, 5), (200, 2)])));
        assert_eq!(info.histogram("turn", 1), None);
    }
}
