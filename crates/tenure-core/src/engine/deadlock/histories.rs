//! Random holds and waits: a cycle is found where a plain search through all of them finds one.

#![cfg(test)]

use std::time::Duration;

use super::*;
use crate::backend::{Chance, Claim, Durability, Error};
use crate::engine::acquisition::Acquisition;
use crate::engine::mailbox::Letter;
use crate::engine::terms::Terms;
use crate::{Client, Deadlocks, Memory, Settings};

const SECOND: Duration = Duration::from_secs(1);

/// A wait as the plain search sees it.
struct Waiting<'a> {
    party: Party,
    name: Name,
    kind: Kind,
    mailbox: Arc<Mailbox>,
    _seen: Seen<'a>,
}

/// Whether a wait of `party` for this would close a cycle.
fn closes_a_cycle(party: Party, name: &Name, kind: Kind, holds: &[Arc<Hold>], waits: &[Waiting<'_>]) -> bool {
    let of = |party: Party| waits.iter().enumerate().filter(move |(_, wait)| wait.party == party);
    if of(party).next().is_some() {
        return false;
    }
    let (mut next, mut passed) = (vec![(party.0, name, kind)], HashSet::new());
    while let Some((owner, name, kind)) = next.pop() {
        let shares = |hold: &Hold| match kind {
            Kind::Read { .. } => hold.claim.kind != Kind::Write,
            _ => false,
        };
        for hold in holds.iter().filter(|hold| hold.claim.name == *name && hold.is_lasting()) {
            let holder = (hold.owner.unwrap(), hold.flow);
            if holder.0 == owner || shares(hold) {
                continue;
            }
            if holder == party {
                return true;
            }
            let mut waits = of(holder);
            if let (Some((at, wait)), None) = (waits.next(), waits.next())
                && wait.mailbox.is_waiting()
                && passed.insert(at)
            {
                next.push((holder.0, &wait.name, wait.kind));
            }
        }
    }
    false
}

/// Each owner in it holds what the one before it waits for.
fn assert_is_a_circle(cycle: &[Link], party: Party, name: &Name) {
    assert_eq!((&cycle[0].owner, &cycle[0].waits_for), (&Owner::from_id(party.0), name));
    for (link, next) in cycle.iter().zip(cycle.iter().cycle().skip(1)) {
        assert_eq!(link.waits_for, next.holds, "{cycle:?}");
    }
}

/// Runs one history. Returns how many waits there were, and how many of them would have closed a cycle.
fn run(client: &Client, flows: &[Flow], seed: u64) -> (usize, usize) {
    let chance = Chance::seeded(seed);
    let below = |n: usize| chance.next().unwrap() as usize % n;
    let core = &client.engine.core;
    let (mut holds, mut waits): (Vec<Arc<Hold>>, Vec<Waiting<'_>>) = Default::default();
    let (mut began, mut closed) = (0, 0);
    for _ in 0..300 {
        let party = (below(6) as u64 + 1, flows[below(flows.len())]);
        let name = Name::new(format!("{}{}", ["l", "rw"][below(2)], below(4))).unwrap();
        let kind = match (name.as_str().starts_with('l'), below(3)) {
            (true, 0) => Kind::FairLock,
            (true, _) => Kind::Lock,
            (false, 0) => Kind::Write,
            (false, _) => Kind::Read { under_write: None },
        };
        match below(20) {
            0..7 => {
                let (renewed, max_hold) = (below(8) > 0, (below(8) == 0).then_some(SECOND));
                let (least, durability) = (Duration::ZERO, Durability::Master);
                let terms = Terms { lease: SECOND, least, renewed, max_hold, durability };
                let mut asked = Acquisition::new(&client.engine, terms, Some(party.0), None);
                asked.flow = party.1;
                let (claim, now) = (Claim::of(core.fresh_id(), name, kind), core.clock.now());
                let hold = Arc::new(Hold::new(&asked, Arc::new(claim), None, now.after(3600 * SECOND), now));
                core.waits.add_hold(&hold);
                holds.push(hold);
            }
            7..15 => {
                began += 1;
                // A party that waits twice is not stuck: that is to be rare.
                if below(8) > 0 {
                    waits.retain(|wait| wait.party != party);
                }
                let mailbox = Mailbox::new(false);
                let expected = closes_a_cycle(party, &name, kind, &holds, &waits);
                let wait = Wait {
                    owner: party.0,
                    flow: party.1,
                    name: name.clone(),
                    kind,
                    mailbox: mailbox.clone(),
                };
                match core.waits.join(core, wait) {
                    Ok(_seen) => {
                        assert!(!expected, "seed {seed}: a cycle was not found");
                        waits.push(Waiting { party, name, kind, mailbox, _seen });
                    }
                    Err(deadlock) => {
                        assert!(expected, "seed {seed}: there is no cycle {:?}", deadlock.cycle);
                        assert_is_a_circle(&deadlock.cycle, party, &name);
                        closed += 1;
                    }
                }
            }
            15..17 if !holds.is_empty() => {
                let hold = holds.swap_remove(below(holds.len()));
                core.waits.remove_hold(&hold);
            }
            17 if !waits.is_empty() => drop(waits.swap_remove(below(waits.len()))),
            18 if !waits.is_empty() => {
                let _ = waits[below(waits.len())].mailbox.deliver(Letter::Failed(Error::Closed));
            }
            19 if !holds.is_empty() => match (&holds[below(holds.len())], below(3)) {
                (hold, 0) => hold.entered_from(party.1),
                (hold, 1) => hold.suspect(core.clock.now()),
                (hold, _) => hold.put_into(&Mailbox::new(false), SECOND),
            },
            _ => {}
        }
    }
    drop(waits);
    holds.iter().for_each(|hold| core.waits.remove_hold(hold));
    assert_eq!(core.waits.len(), 0, "nothing is left of them");
    (began, closed)
}

#[tokio::test]
async fn a_cycle_is_found_where_a_plain_search_finds_one() {
    let settings = Settings { deadlocks: Deadlocks::Report, ..Settings::default() };
    let client = Client::with(Arc::new(Memory::new()), settings);
    let flow = || tokio::spawn(async { Flow::current() });
    let flows = [flow().await.unwrap(), flow().await.unwrap()];
    let (mut waits, mut cycles) = (0, 0);
    for seed in 0..200 {
        let (began, closed) = run(&client, &flows, seed);
        (waits, cycles) = (waits + began, cycles + closed);
    }
    assert!(cycles > 200 && waits > 5 * cycles, "{cycles} cycles in {waits} waits");
}
