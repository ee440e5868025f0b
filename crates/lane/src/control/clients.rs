//! CLIENT: the line that shows a connection, and the filters of LIST and KILL.

use wire::reply::{self, Proto};

use crate::Settings;
use crate::acl::Users;
use crate::admin::{ClientKind, Filter, Pause, Portrait};
use crate::help;
use crate::request::Args;

/// One line of CLIENT LIST: the fields of Redis 7.0 in their order, then those of later versions, and the lane.
pub(crate) fn line(client: &Portrait, settings: &Settings, now_ns: u64) -> String {
    let seconds = |since_ns: u64| now_ns.saturating_sub(since_ns) / 1_000_000_000;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (queued_count, multi_size) =
        client.multi.map_or((-1, 0), |(count, size)| (i64::try_from(count).expect("queued commands"), size));
    format!(
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} ssub={} multi={} qbuf={} \
         qbuf-free=0 argv-mem=0 multi-mem={} rbs=0 rbp=0 obl=0 oll={} omem={} tot-mem={} events=r cmd={} \
         user={} redir={} resp={} lib-name={} lib-ver={} watch={} lane={}\n",
        client.id,
        settings.address(client.peer),
        settings.address(client.local),
        client.conn_index,
        text(&client.name),
        seconds(client.opened_ns),
        seconds(client.active_ns),
        flags(client),
        client.db,
        client.name_counts[0],
        client.name_counts[1],
        client.name_counts[2],
        queued_count,
        client.input_size,
        multi_size,
        usize::from(client.output_size > 0),
        client.output_size,
        client.total_size,
        client.last.map_or("NULL", |command| command.name),
        text(settings.users.name_of(client.user)),
        client.tracking.map_or(-1, |it| i64::try_from(it.redirect).expect("ids grow from 1")),
        if client.proto == Proto::Resp3 { 3 } else { 2 },
        text(&client.library),
        text(&client.library_version),
        client.watch_count,
        client.lane,
    )
}

/// Bytes of a command as RESP: what Redis' query buffer holds of it while it is answered.
pub(crate) fn frame_size(args: Args<'_>) -> usize {
    let head_size = |number: usize| "*\r\n".len() + number.to_string().len();
    let bulk_size = |size: usize| head_size(size) + size + "\r\n".len();
    head_size(args.len()) + (0..args.len()).map(|index| bulk_size(args.get(index).size())).sum::<usize>()
}

/// Redis' letters: `P` has subscribed, `x` in a MULTI, `t` tracks keys, `R` of that whoever it has named has gone, `B` whatever is read, `c` about to be closed, `r` reads from copies, `e` not evicted, `T` leaves no trace,
/// `U` by a unix socket, `O` sees every command, `S` is a replica, `N` none of these.
fn flags(client: &Portrait) -> String {
    let letters = [
        ('S', client.is_replica),
        ('O', client.is_monitor),
        ('P', client.is_subscribed),
        ('x', client.multi.is_some()),
        ('t', client.tracking.is_some()),
        ('R', client.tracking.is_some_and(|it| it.is_broken)),
        ('B', client.tracking.is_some_and(|it| it.is_broadcast)),
        ('c', client.is_leaving),
        ('r', client.traits.reads_copies),
        ('e', client.traits.is_kept),
        ('T', client.traits.leaves_no_trace),
        ('U', client.local == net::Address::Unix),
    ];
    let flags: String = letters.iter().filter(|(_, holds)| *holds).map(|(letter, _)| letter).collect();
    if flags.is_empty() { "N".to_owned() } else { flags }
}

/// CLIENT LIST [TYPE type] [ID id …]
pub(super) fn list_filter(args: Args<'_>, asker: &Portrait) -> Result<Filter, Vec<u8>> {
    let mut filter = Filter { asker_id: asker.id, ..Filter::default() };
    if args.len() == 2 {
        return Ok(filter);
    }
    let word = args.flat(2);
    if args.len() == 4 && word.eq_ignore_ascii_case(b"type") {
        filter.kind = Some(kind(args.flat(3))?);
    } else if args.len() > 3 && word.eq_ignore_ascii_case(b"id") {
        let numbers = (3..args.len()).map(|index| wire::number::parse_i64(args.flat(index)));
        let numbers: Option<Vec<i64>> = numbers.collect();
        let numbers = numbers.ok_or("ERR Invalid client ID")?;
        // Nobody has a negative one.
        filter.ids = Some(numbers.into_iter().filter_map(|number| u64::try_from(number).ok()).collect());
    } else {
        return Err("ERR syntax error".into());
    }
    Ok(filter)
}

/// CLIENT KILL address | option value …. True: the old form, whose reply says whether there was such a client.
pub(super) fn kill_filter(
    args: Args<'_>,
    asker: &Portrait,
    users: &Users,
) -> Result<(Filter, bool), Vec<u8>> {
    let mut filter = Filter { asker_id: asker.id, ..Filter::default() };
    if args.len() == 3 {
        filter.peer = Some(String::from_utf8_lossy(args.flat(2)).into_owned());
        return Ok((filter, true));
    }
    if !args.len().is_multiple_of(2) {
        return Err("ERR syntax error".into());
    }
    let mut skips_asker = true;
    for index in (2..args.len()).step_by(2) {
        let (option, value) = (args.flat(index), args.flat(index + 1));
        let text = || String::from_utf8_lossy(value).into_owned();
        match option.to_ascii_lowercase().as_slice() {
            b"id" => {
                let id = id(value).ok_or("ERR client-id should be greater than 0")?;
                filter.ids = Some(vec![id]);
            }
            b"type" => filter.kind = Some(kind(value)?),
            b"addr" => filter.peer = Some(text()),
            b"laddr" => filter.local = Some(text()),
            b"user" => {
                let user = users.named(value);
                let user =
                    user.ok_or_else(|| [b"ERR No such user '", reply::quoted(value), b"'"].concat())?;
                filter.user = Some(user.id());
            }
            b"skipme" if value.eq_ignore_ascii_case(b"yes") => skips_asker = true,
            b"skipme" if value.eq_ignore_ascii_case(b"no") => skips_asker = false,
            b"maxage" => {
                let age = wire::number::parse_i64(value).and_then(|age| u64::try_from(age).ok());
                filter.age_s_min = Some(age.ok_or("ERR value is not an integer or out of range")?);
            }
            _ => return Err("ERR syntax error".into()),
        }
    }
    filter.skipped_id = skips_asker.then_some(asker.id);
    Ok((filter, false))
}

/// CLIENT PAUSE milliseconds [WRITE|ALL]
pub(super) fn pause(args: Args<'_>, now_ns: u64) -> Result<Pause, Vec<u8>> {
    let is_for_all = match args.len() {
        3 => true,
        4 if args.flat(3).eq_ignore_ascii_case(b"all") => true,
        4 if args.flat(3).eq_ignore_ascii_case(b"write") => false,
        4 => return Err("ERR CLIENT PAUSE mode must be WRITE or ALL".into()),
        _ => return Err(help::unknown_shape("CLIENT", args)),
    };
    let ms = wire::number::parse_i64(args.flat(2)).ok_or("ERR timeout is not an integer or out of range")?;
    let ms = u64::try_from(ms).map_err(|_| "ERR timeout is negative")?;
    // A pause without an end could hold back UNPAUSE for ever. Redis 7.0 lets it pass and has no pause; these are the words of 7.2.
    let until_ns = ms.checked_mul(1_000_000).and_then(|ns| now_ns.checked_add(ns));
    Ok(Pause { until_ns: until_ns.ok_or("ERR timeout is out of range")?, is_for_all })
}

fn id(text: &[u8]) -> Option<u64> {
    wire::number::parse_i64(text).and_then(|id| u64::try_from(id).ok()).filter(|&id| id > 0)
}

fn kind(word: &[u8]) -> Result<ClientKind, Vec<u8>> {
    match word.to_ascii_lowercase().as_slice() {
        b"normal" => Ok(ClientKind::Normal),
        b"pubsub" => Ok(ClientKind::Pubsub),
        b"master" => Ok(ClientKind::Master),
        b"replica" | b"slave" => Ok(ClientKind::Replica),
        _ => Err([b"ERR Unknown client type '", reply::quoted(word), b"'"].concat()),
    }
}
