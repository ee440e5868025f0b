//! One suite for every backend: what `net::Net` promises, as a lane and its clients see it.
//!
//! A case is a function over any [`World`](worlds::World); the table at the end runs each over each.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing there has failed")]

mod cases;
mod ends;
mod input;
mod traffic;
mod worlds;

/// Why this machine does not have that world.
fn missing<W: worlds::World>() -> Option<String> {
    W::missing()
}

/// Makes a module of tests for each world, with a test for each case.
macro_rules! suite {
    ([$($world:ident: $type:ty;)*] $cases:tt) => {
        $(suite!(@world $world, $type, $cases);)*
    };
    (@world $world:ident, $type:ty, {$($module:ident::$case:ident,)*}) => {
        mod $world {
            #[expect(unused_imports, reason = "each world needs some of them")]
            use crate::worlds::{Plain, MemWorld, Noisy, Quiet, TcpWorld, UnixWorld, Wrapped};
            #[expect(unused_imports, reason = "each world needs one of them")]
            use net::{epoll::Epoll, uring::Uring};
            type World = $type;
            $(
                #[test]
                fn $case() {
                    match crate::missing::<World>() {
                        None => crate::$module::$case::<World>(),
                        Some(why) => eprintln!("left out: {why}"),
                    }
                }
            )*
        }
    };
}

suite! {
    [
        mem: MemWorld;
        mem_quiet: Wrapped<MemWorld, Quiet>;
        mem_noisy: Wrapped<MemWorld, Noisy>;
        tcp: TcpWorld<Epoll>;
        tcp_noisy: Wrapped<TcpWorld<Epoll>, Noisy>;
        unix: UnixWorld<Epoll>;
        uring_tcp: TcpWorld<Uring>;
        uring_tcp_noisy: Wrapped<TcpWorld<Uring>, Noisy>;
        uring_unix: UnixWorld<Uring>;
        uring_tcp_plain: Plain<TcpWorld<Uring>>;
        uring_tcp_plain_noisy: Wrapped<Plain<TcpWorld<Uring>>, Noisy>;
        uring_unix_plain: Plain<UnixWorld<Uring>>;
    ]
    {
        cases::a_client_is_announced_and_heard,
        input::input_is_announced_once_until_asked_for,
        input::a_rest_grows_byte_by_byte,
        input::a_budget_goes_on_with_the_rest,
        input::what_several_have_received_stays_theirs,
        input::behind_so_many_bytes_one_more_is_heard,
        input::what_is_kept_for_a_connection_is_known,
        input::what_a_closed_connection_left_is_not_kept,
        input::who_asks_without_room_is_told_again,
        input::who_makes_no_room_is_told_of_nothing,
        input::a_turn_receives_once,
        input::unconsumed_input_slows_the_sender,
        cases::a_slow_reader_is_felt_and_its_chunks_are_let_go,
        ends::close_after_flush_delivers_everything,
        ends::close_after_flush_survives_unread_input,
        ends::close_now_drops_what_is_unsent,
        ends::close_now_ends_an_idle_connection,
        cases::more_clients_than_a_turn_has_places_are_all_heard,
        cases::a_stale_handle_reaches_nobody,
        ends::replies_reach_a_client_that_has_ended,
        ends::who_was_told_much_is_answered_and_closed_as_others,
        ends::a_client_that_is_gone_is_told,
        ends::a_cut_connection_is_told,
        ends::a_cut_behind_an_end_is_told,
        ends::an_end_that_comes_with_bytes_is_told,
        ends::a_cut_that_comes_with_bytes_is_told,
        ends::a_client_that_has_ended_and_does_not_read_is_waited_for,
        cases::a_connection_moves_before_its_first_byte,
        cases::a_thousand_connections_are_served,
        cases::accepts_and_clients_of_a_turn_are_bounded,
        cases::what_a_turn_sends_is_bounded,
        cases::the_bell_ends_a_wait,
        traffic::random_traffic_is_answered_in_order,
    }
}

#[test]
fn a_turn_costs_what_it_must_over_memory() {
    cases::a_turn_costs_what_it_must::<worlds::MemWorld>();
}

#[test]
fn a_turn_costs_what_it_must_over_tcp() {
    cases::a_turn_costs_what_it_must::<worlds::TcpWorld<net::epoll::Epoll>>();
}

#[test]
fn a_turn_costs_what_it_must_over_unix() {
    cases::a_turn_costs_what_it_must::<worlds::UnixWorld<net::epoll::Epoll>>();
}

#[test]
fn a_turn_is_one_call_over_uring() {
    if missing::<worlds::TcpWorld<net::uring::Uring>>().is_none() {
        let lasting = net::uring::Uring::new(net::Limits::default()).unwrap().receives_last();
        let operations = if lasting { 50 } else { 100 };
        cases::a_turn_is_one_call::<worlds::TcpWorld<net::uring::Uring>>(operations);
        cases::a_turn_is_one_call::<worlds::UnixWorld<net::uring::Uring>>(operations);
        cases::a_turn_is_one_call::<worlds::Plain<worlds::TcpWorld<net::uring::Uring>>>(100);
    }
}
