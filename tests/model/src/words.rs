//! A run as a numbered scenario, in the words of `docs/scenarios.md`.

use crate::action::Action;
use crate::rules::Rule;
use crate::search::Run;
use crate::state::{Call, Entered, Kind, Message, State, Stored};
use crate::world::World;

/// Clients and tasks have letters as in the scenarios: A, B and C are clients.
fn name(client: u8) -> char {
    char::from(b'A' + client)
}

/// An id as it is on the wire.
fn id(world: &World, client: u8, claim: u8) -> String {
    let claim = if world.has(Rule::DeadId) { claim } else { 1 };
    format!("{}:{claim}", name(client))
}

/// Returns the steps of a run, one a line, and what they break.
pub fn scenario(world: &World, run: &Run) -> String {
    let mut state = State::first(world);
    let mut lines: Vec<String> = Vec::new();
    let mut ticks = 0;
    for (i, action) in run.actions.iter().enumerate() {
        let next = world.next(&state, *action);
        // Ticks in a row are one step.
        ticks = if *action == Action::Tick { ticks + 1 } else { 0 };
        let more = run.actions.get(i + 1) == Some(&Action::Tick) && *action == Action::Tick;
        if !more {
            let text = step(world, &state, &next, *action, ticks);
            lines.push(format!("{}. {text}", lines.len() + 1));
        }
        state = next;
    }
    lines.push(format!("Broken: {}.", run.property));
    lines.join("\n")
}

fn step(world: &World, before: &State, after: &State, action: Action, ticks: usize) -> String {
    let hold = |c: u8| before.clients[usize::from(c)].hold.expect("it has a hold");
    match action {
        Action::Tick => format!("{}.{}", times(ticks, "tick passes", "ticks pass"), ends(world, after)),
        Action::SlowTick(c) => {
            format!("1 tick passes, but not on the clock of {}.{}", name(c), ends(world, after))
        }
        Action::TryAcquire(c) => {
            let claim = after.clients[usize::from(c)].begun;
            format!("{} sends an acquire, id {}.", name(c), id(world, c, claim))
        }
        Action::TryAgain(c) => {
            let claim = after.clients[usize::from(c)].begun;
            format!("{} sends the acquire {} again.", name(c), id(world, c, claim))
        }
        Action::LeaveClaim(c) => {
            let claim = id(world, c, before.clients[usize::from(c)].begun);
            let undo = if world.has(Rule::Undo) { "its undo is sent" } else { "nothing is sent" };
            format!("{} gives the acquire {claim} up; {undo}.", name(c))
        }
        Action::Renew(c) => format!("{} sends a renewal of {}.", name(c), id(world, c, hold(c).claim)),
        Action::Prove(c) => {
            format!("{} asks whether {} is still there.", name(c), id(world, c, hold(c).claim))
        }
        Action::Reenter(c, Entered::Older) => format!(
            "The owner who had {} before the hand-over finds it in the table of {} and enters it again.",
            id(world, c, hold(c).claim),
            name(c)
        ),
        Action::Reenter(c, _) => format!(
            "The owner enters {} again, with a lease of {}: {} sends that.",
            id(world, c, hold(c).claim),
            world.short,
            name(c)
        ),
        Action::LeaveInner(c) => {
            format!("{} drops the inner guard of {}.", name(c), id(world, c, hold(c).claim))
        }
        Action::LeaveHold(c) => {
            format!("{} drops its guard; the release of {} is sent.", name(c), id(world, c, hold(c).claim))
        }
        Action::LetGo(c) => {
            let release = if world.has(Rule::LostIsReleased) { "its release is sent" } else { "that is all" };
            format!("{} finds {} lost; {release}.", name(c), id(world, c, hold(c).claim))
        }
        Action::Leave(c, claim) => format!("{} sends the release of {} again.", name(c), id(world, c, claim)),
        Action::Suspect(c) => format!("{} learns that the store was restarted.", name(c)),
        Action::Die(c) => format!("{} dies.", name(c)),
        Action::Execute(i) => executed(world, before, after, before.flight.at(i)),
        Action::Answer(i) => answered(world, before, after, before.flight.at(i)),
        Action::Unanswered(i) => {
            let m = before.flight.at(i);
            let lost = if m.answer.is_some() { "the answer is lost" } else { "it is late" };
            format!("{} gets no answer to {}; {lost}.", name(m.client), what(world, m))
        }
        Action::Repeat(i) => format!("The network copies {}.", what(world, before.flight.at(i))),
        Action::Restart(true) => "The store restarts, with its memory.".into(),
        Action::Restart(false) => "The store restarts without its memory.".into(),
        Action::SetBack => "The wall clock of the store is set back.".into(),
        Action::PassOn(c) => {
            let hold = after.clients[usize::from(c)].hold.expect("it was passed on");
            let undo = if world.has(Rule::WaiterUndone) { "its undo is sent" } else { "nothing is sent" };
            format!(
                "{n} drops its guard of {}, which the waiter of {} gets: fence {}, held for {}; {undo}.",
                id(world, c, hold.claim),
                id(world, c, before.clients[usize::from(c)].begun),
                hold.fence,
                hold.valid,
                n = name(c),
            )
        }
        Action::LateDrop(c) => format!(
            "The guard of {n} that passed {id} on is released late: {n} sends the release of {id}.",
            n = name(c),
            id = id(world, c, hold(c).claim),
        ),
        Action::Name(c) => {
            format!("{} gives the id {} to somebody outside.", name(c), id(world, c, hold(c).claim))
        }
        Action::ReleaseByName(c) => {
            let (claim, _) = before.clients[usize::from(c)].named.expect("it was named");
            format!("Somebody outside sends a release of {}, whose guard is gone.", id(world, c, claim))
        }
    }
}

fn times(n: usize, one: &str, more: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {more}") }
}

/// Says what the store has and who holds, after time has passed.
fn ends(world: &World, state: &State) -> String {
    let store = match state.store.hold {
        Some(hold) => format!("the store keeps {} for {}", id(world, hold.client, hold.claim), hold.ttl),
        None => "in the store the name is free".into(),
    };
    let mut words = vec![store];
    for (c, client) in (0..).zip(&state.clients) {
        if let Some(hold) = client.hold {
            let held = match hold.valid {
                0 => format!("{} is lost by the clock of {}", id(world, c, hold.claim), name(c)),
                valid => format!("{} holds {} for {valid}", name(c), id(world, c, hold.claim)),
            };
            words.push(held);
        }
    }
    format!(" Now {}.", words.join(", "))
}

fn what(world: &World, m: Message) -> String {
    let id = id(world, m.client, m.claim);
    let late = if m.stray && !m.copy { "late " } else { "" };
    match m.kind {
        Kind::Attempt => format!("the {late}acquire {id}"),
        Kind::Reentry => format!("the {late}re-entry of {id}"),
        Kind::Renew => format!("the {late}renewal of {id}"),
        Kind::Prove => format!("the {late}question for {id}"),
        Kind::Release => format!("the {late}release of {id}"),
    }
}

fn executed(world: &World, before: &State, after: &State, m: Message) -> String {
    let what = what(world, m);
    let copy = if m.copy { "A copy of " } else { "" };
    let begin = format!("{copy}{what} is executed");
    let begin = if copy.is_empty() { begin.replacen("the ", "The ", 1) } else { begin };
    let had = before.store.hold;
    let result = match (m.kind, had, after.store.hold) {
        (Kind::Release, Some(hold), None) => {
            format!("{} is removed, the name is free", id(world, hold.client, hold.claim))
        }
        (Kind::Release, ..) => "nothing is found".into(),
        (_, None, Some(hold)) if m.kind == Kind::Attempt => granted(world, hold),
        (_, None, Some(hold)) => format!("{} exists again", id(world, hold.client, hold.claim)),
        (_, Some(_), None) => "no time is left of it".into(),
        (Kind::Attempt, Some(hold), Some(now)) if (hold.client, now.client) == (m.client, m.client) => {
            match hold.claim == m.claim || now.claim == m.claim {
                true => format!("granted, since the id is there, for {}", now.ttl),
                false => format!("busy, {} holds", id(world, now.client, now.claim)),
            }
        }
        (Kind::Attempt, _, Some(now)) => format!("busy, {} holds", id(world, now.client, now.claim)),
        (_, _, Some(now)) if (now.client, now.claim) == (m.client, m.claim) => {
            format!("it lasts for {}", now.ttl)
        }
        _ => "it is gone".into(),
    };
    format!("{begin}: {result}.")
}

fn granted(world: &World, hold: Stored) -> String {
    match world.range - 1 {
        0 => format!("granted, fence {}", hold.fence),
        more => format!("granted, fences {} to {}", hold.fence, hold.fence + more),
    }
}

fn answered(world: &World, before: &State, after: &State, m: Message) -> String {
    let (client, was) = (&after.clients[usize::from(m.client)], &before.clients[usize::from(m.client)]);
    let (n, id) = (name(m.client), id(world, m.client, m.claim));
    match (m.kind, m.answer == Some(true)) {
        (Kind::Attempt, true) => match client.hold.filter(|hold| hold.claim == m.claim) {
            Some(hold) => format!("The answer arrives: {n} holds {id} for {}.", hold.valid),
            None => format!("The answer arrives too late; the release of {id} is sent."),
        },
        (Kind::Attempt, false) => unreachable!("it comes at once"),
        (Kind::Reentry, true) => match client.hold.map(|hold| hold.entered) {
            Some(Entered::Older) => {
                format!("The answer arrives: the owner who had {id} before is inside, too.")
            }
            Some(Entered::Own) => format!("The answer arrives: the owner is inside {id} twice."),
            _ => format!("The answer about {id} arrives too late."),
        },
        (_, true) => match (was.hold.map(|hold| hold.call), client.hold) {
            (Some(Call::Prove), Some(hold)) => {
                format!("The answer arrives: {n} holds {id} for {}.", hold.valid)
            }
            (_, Some(hold)) => {
                format!("The answer to the renewal arrives: {n} holds {id} for {}.", hold.valid)
            }
            _ => format!("The answer to the renewal arrives too late: {id} is lost and released."),
        },
        (_, false) => match client.hold {
            Some(hold) if hold.valid > 0 => {
                format!(
                    "The answer arrives, {id} is gone, but the guard that asked is not the one that holds."
                )
            }
            _ => format!("The answer arrives: {id} is gone, {n} has lost it."),
        },
    }
}
