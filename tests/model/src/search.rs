//! Visits all states of a world, the nearest first, so that a run that breaks a property is as short as can be.
//!
//! Why not a model checker from crates.io: `stateright` (0.31) cannot be had without its web server, and does not
//! remember which state leads to which, so it cannot say whether each state still leads to a good one: its `eventually`
//! does not see runs that end in a circle.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::{Duration, Instant};

use crate::action::Action;
use crate::property::Property;
use crate::state::{Key, State};
use crate::world::World;

/// What a search has found.
#[derive(Debug)]
pub struct Explored {
    /// The number of different states.
    pub states: usize,
    /// The number of steps between them.
    pub steps: usize,
    /// The length of the longest of the shortest runs to a state.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// A shortest run that breaks a property; `None` if there is none.
    pub broken: Option<Run>,
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { states, steps, depth, took, .. } = self;
        let seconds = took.as_secs_f64();
        write!(f, "{states} states, {steps} steps, depth {depth}, {seconds:.1} s")
    }
}

/// A run from the first state on.
#[derive(Debug)]
pub struct Run {
    /// The property that does not hold at its end.
    pub property: Property,
    /// Its steps.
    pub actions: Vec<Action>,
}

/// How a state was found: from which one, by which of its actions.
#[derive(Clone, Copy)]
struct Origin {
    from: u32,
    action: u8,
}

struct Search<'a> {
    world: &'a World,
    seen: HashMap<Key, u32, BuildHasherDefault<WordHasher>>,
    origins: Vec<Origin>,
    /// The steps that lead to an end, by the state that they start from: `progress[starts[i]..starts[i + 1]]`.
    progress: Vec<u32>,
    starts: Vec<u32>,
    is_over: Vec<bool>,
    is_served: Vec<bool>,
    steps: usize,
}

/// Visits all states of a world, or all up to the first one that breaks a property.
pub fn explore(world: &World) -> Explored {
    let begin = Instant::now();
    let mut search = Search {
        world,
        seen: HashMap::default(),
        origins: Vec::new(),
        progress: Vec::new(),
        starts: Vec::new(),
        is_over: Vec::new(),
        is_served: Vec::new(),
        steps: 0,
    };
    let (depth, broken) = search.run();
    let broken = broken.or_else(|| search.broken_for_ever());
    let broken = broken.map(|(property, at)| Run { property, actions: search.path(at) });
    Explored { states: search.origins.len(), steps: search.steps, depth, took: begin.elapsed(), broken }
}

impl Search<'_> {
    /// Returns the depth, and the first state that breaks a property.
    fn run(&mut self) -> (usize, Option<(Property, u32)>) {
        let first = State::first(self.world);
        let mut level = vec![first];
        self.visit(&first, Origin { from: 0, action: 0 });
        let (mut at, mut depth) = (0, 0);
        let mut actions = Vec::new();
        loop {
            let mut next = Vec::new();
            for state in &level {
                self.starts.push(u32::try_from(self.progress.len()).expect("fewer steps"));
                self.world.actions(state, &mut actions);
                for (i, action) in actions.iter().enumerate() {
                    let after = self.world.next(state, *action);
                    self.steps += 1;
                    let (to, new) = self.visit(&after, Origin { from: at, action: i as u8 });
                    if action.is_progress() && to != at {
                        self.progress.push(to);
                    }
                    if new {
                        if let Some(property) = after.broken(self.world) {
                            return (depth + 1, Some((property, to)));
                        }
                        next.push(after);
                    }
                }
                at += 1;
            }
            if next.is_empty() {
                return (depth, None);
            }
            level = next;
            depth += 1;
        }
    }

    /// Returns the number of a state, and whether it is new.
    fn visit(&mut self, state: &State, origin: Origin) -> (u32, bool) {
        let number = u32::try_from(self.origins.len()).expect("fewer states");
        match self.seen.entry(state.key(self.world)) {
            Entry::Occupied(known) => (*known.get(), false),
            Entry::Vacant(free) => {
                free.insert(number);
                self.origins.push(origin);
                self.is_over.push(state.is_over());
                self.is_served.push(state.is_served());
                (number, true)
            }
        }
    }

    /// Returns the first state from which a good end cannot be reached any more.
    fn broken_for_ever(&mut self) -> Option<(Property, u32)> {
        self.starts.push(u32::try_from(self.progress.len()).expect("fewer steps"));
        let before = self.reversed();
        let ends = [(Property::Ends, &self.is_over), (Property::Granted, &self.is_served)];
        ends.into_iter().find_map(|(property, good)| {
            let mut reached = good.clone();
            let mut open: Vec<u32> = (0..).zip(good).filter_map(|(i, good)| good.then_some(i)).collect();
            while let Some(state) = open.pop() {
                for from in before.of(state) {
                    if !std::mem::replace(&mut reached[*from as usize], true) {
                        open.push(*from);
                    }
                }
            }
            let lost = reached.iter().position(|reached| !reached)?;
            Some((property, lost as u32))
        })
    }

    fn reversed(&self) -> Steps {
        let mut starts = vec![0; self.origins.len() + 1];
        for to in &self.progress {
            starts[*to as usize + 1] += 1;
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let (mut places, mut steps) = (starts.clone(), vec![0; self.progress.len()]);
        for from in 0..self.origins.len() {
            for to in &self.progress[self.starts[from] as usize..self.starts[from + 1] as usize] {
                let place = &mut places[*to as usize];
                steps[*place as usize] = from as u32;
                *place += 1;
            }
        }
        Steps { starts, steps }
    }

    /// Returns the actions that lead to a state.
    fn path(&self, mut at: u32) -> Vec<Action> {
        let mut choices = Vec::new();
        while at != 0 {
            let origin = self.origins[at as usize];
            choices.push(origin.action);
            at = origin.from;
        }
        let (mut state, mut actions) = (State::first(self.world), Vec::new());
        let choose = |choice: u8| {
            self.world.actions(&state, &mut actions);
            let action = actions[usize::from(choice)];
            state = self.world.next(&state, action);
            action
        };
        choices.into_iter().rev().map(choose).collect()
    }
}

/// Steps by the state that they lead to.
struct Steps {
    starts: Vec<u32>,
    steps: Vec<u32>,
}

impl Steps {
    fn of(&self, to: u32) -> &[u32] {
        &self.steps[self.starts[to as usize] as usize..self.starts[to as usize + 1] as usize]
    }
}

/// Hashes the few words of a key. The keys are not chosen by anybody who wants them to collide.
#[derive(Default)]
struct WordHasher(u64);

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for word in bytes.chunks(8) {
            let mut eight = [0; 8];
            eight[..word.len()].copy_from_slice(word);
            self.write_u64(u64::from_ne_bytes(eight));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 32;
    }
}
