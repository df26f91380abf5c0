//! Requests in flight, and how calls join. Calls that are waiting to be written at the same moment go as one script call
//! for up to [`MOST`] of them: most of what a short script costs the server is its start, and for the client its reply.
//!
//! Each member keeps its own completion, deadline and attempt, and has its own reply in the array that the script
//! returns. A call that waits alone is written as it is.

use std::collections::VecDeque;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::task::Waker;
use std::time::Instant;

use tenure_core::HoldId;

use super::call::{By, Call, Script};
use super::failure::Failure;
use super::wire::{Value, write_array_header, write_bulk};

/// The most calls of one script call. So many take the server about as long as ten ordinary commands.
pub(super) const MOST: usize = 32;

/// How many requests that wait to be written a call passes on its way to one that it can join.
const LOOK_BACK: usize = 4;

/// Commands that are sent together: those of one caller, or one script call for several.
#[derive(Debug)]
pub(super) struct InFlight {
    /// Its offset in all bytes ever sent; `None` until it is encoded, and others may join.
    pub(super) start: Option<u64>,
    pub(super) expected: usize,
    pub(super) got: Vec<Value>,
    pub(super) first: Member,
    pub(super) others: Vec<Member>,
}

/// A call of a request.
#[derive(Debug)]
pub(super) struct Member {
    /// What to encode, if it can join others.
    pub(super) call: Option<(Arc<Call>, By)>,
    pub(super) sent: Instant,
    pub(super) deadline: Instant,
    pub(super) attempt: Option<(HoldId, u64)>,
    /// `None` once it has timed out.
    pub(super) completion: Option<Arc<Completion>>,
}

impl Member {
    /// Whether somebody still waits for its answer.
    pub(super) fn is_awaited(&self) -> bool {
        self.completion.as_ref().is_some_and(|completion| !completion.is_abandoned())
    }
}

impl InFlight {
    pub(super) fn new(expected: usize, member: Member) -> Self {
        let got = Vec::with_capacity(expected);
        Self { start: None, expected, got, first: member, others: Vec::new() }
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &Member> {
        iter::once(&self.first).chain(&self.others)
    }

    pub(super) fn members_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        iter::once(&mut self.first).chain(&mut self.others)
    }

    pub(super) fn into_members(self) -> impl Iterator<Item = Member> {
        iter::once(self.first).chain(self.others)
    }

    /// Whether it is one script call for several.
    pub(super) fn is_joined(&self) -> bool {
        !self.others.is_empty()
    }

    /// Whether its replies are complete: those of its own, or of a script for several one for each, or one refusal.
    pub(super) fn is_answered(&self) -> bool {
        match &self.got[..] {
            _ if !self.is_joined() => self.got.len() == self.expected,
            [Value::Array(items)] => items.len() == self.others.len() + 1,
            [Value::Error(_)] => true,
            _ => false,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.others.len() + 1 >= MOST
    }

    fn is_about(&self, key: &[u8]) -> bool {
        self.members().any(|member| member.call.as_ref().is_some_and(|(call, _)| call.key() == key))
    }

    fn accepts(&self, call: &Call) -> bool {
        let Some((first, _)) = &self.first.call else { return false };
        !self.is_full() && first.joins(call)
    }

    /// Writes its commands. Nobody joins it after that.
    pub(super) fn encode(&mut self, start: u64, out: &mut Vec<u8>) {
        self.start = Some(start);
        if let Some((call, by)) = &self.first.call {
            match call.many().filter(|_| self.is_joined()) {
                Some(many) => self.encode_joined(many, call.keys, out),
                None => call.encode(out, *by),
            }
        }
        self.members_mut().for_each(|member| member.call = None);
    }

    /// Arguments that all members share are sent once.
    fn encode_joined(&self, script: &Script, keys: usize, out: &mut Vec<u8>) {
        let calls: Vec<&(Arc<Call>, By)> = self.members().filter_map(|m| m.call.as_ref()).collect();
        let words: Vec<Vec<&[u8]>> = calls.iter().map(|(call, _)| call.encoded_words()).collect();
        let by = if calls.iter().any(|(_, by)| *by == By::Text) { By::Text } else { By::Hash };
        let args = words[0].len() - keys;
        let shared: Vec<bool> =
            (keys..words[0].len()).map(|at| words[1..].iter().all(|w| w[at] == words[0][at])).collect();
        let once = shared.iter().filter(|shared| **shared).count();
        write_array_header(out, 5 + keys * calls.len() + once + (args - once) * calls.len());
        script.write(out, by);
        write_bulk(out, (keys * calls.len()).to_string().as_bytes());
        let keys_of = words.iter().flat_map(|words| &words[..keys]);
        keys_of.for_each(|key| out.extend_from_slice(key));
        write_bulk(out, keys.to_string().as_bytes());
        let shape: Vec<u8> = shared.iter().map(|shared| if *shared { b'=' } else { b'*' }).collect();
        write_bulk(out, &shape);
        let mut argument = |words: &[&[u8]], which: bool| {
            let some = words[keys..].iter().zip(&shared).filter(|(_, shared)| **shared == which);
            some.for_each(|(word, _)| out.extend_from_slice(word));
        };
        argument(&words[0], true);
        words.iter().for_each(|words| argument(words, false));
    }
}

/// The request that a call can join, among those that wait to be written. It must not pass another call about its key:
/// a release is sent after the attempt that it undoes.
pub(super) fn to_join(in_flight: &VecDeque<InFlight>, call: &Call) -> Option<usize> {
    let newest = in_flight.len().checked_sub(1)?;
    for (at, request) in in_flight.iter().enumerate().rev() {
        if request.start.is_some() || newest - at >= LOOK_BACK {
            return None;
        }
        if request.accepts(call) {
            return Some(at);
        }
        if request.is_about(call.key()) {
            return None;
        }
    }
    None
}

/// Where a call receives its answer.
#[derive(Debug, Default)]
pub(super) struct Completion {
    state: Mutex<CompletionState>,
    abandoned: AtomicBool,
}

#[derive(Debug, Default)]
struct CompletionState {
    answer: Option<Replies>,
    waker: Option<Waker>,
}

/// The replies received; if some are missing, why.
#[derive(Debug)]
pub(crate) struct Replies {
    pub(crate) values: Vec<Value>,
    pub(crate) failure: Option<Failure>,
    /// Whether the server refused the whole script call in which this call was joined with others. Nothing of it was
    /// executed, perhaps because of another one: it is to be sent alone.
    pub(crate) refused_together: bool,
}

impl Replies {
    pub(super) fn new(values: Vec<Value>, failure: Option<Failure>) -> Self {
        Self { values, failure, refused_together: false }
    }

    pub(crate) fn all(self) -> Result<Vec<Value>, Failure> {
        match self.failure {
            None => Ok(self.values),
            Some(failure) => Err(failure),
        }
    }
}

impl Completion {
    fn lock(&self) -> MutexGuard<'_, CompletionState> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Takes the answer; if there is none, the waker, so that the task being polled is not woken.
    pub(super) fn take_or_waker(&self) -> Result<Replies, Option<Waker>> {
        let mut inner = self.lock();
        inner.answer.take().ok_or_else(|| inner.waker.take())
    }

    pub(super) fn set_waker(&self, waker: Waker) {
        self.lock().waker = Some(waker);
    }

    pub(super) fn complete(&self, answer: Replies, wake: &mut Vec<Waker>) {
        let mut inner = self.lock();
        inner.answer = Some(answer);
        wake.extend(inner.waker.take());
    }

    pub(super) fn is_answered(&self) -> bool {
        self.lock().answer.is_some()
    }

    /// Nobody waits for it any more.
    pub(super) fn abandon(&self) {
        self.abandoned.store(true, Relaxed);
    }

    fn is_abandoned(&self) -> bool {
        self.abandoned.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenure_core::{ClientId, HoldId};

    use super::super::call::Order;
    use super::*;

    static MANY: Script = Script::new("many");
    static ONE: Script = Script::joined_by("one", &MANY);
    static OTHER: Script = Script::joined_by("other", &MANY);
    static ALONE: Script = Script::new("alone");

    fn member(call: &Call) -> Member {
        let attempt = Some((HoldId { client: ClientId::new(), n: 1 }, 1));
        let (sent, call) = (Instant::now(), Some((Arc::new(call.clone()), By::Hash)));
        Member { call, sent, deadline: sent + Duration::from_secs(1), attempt, completion: None }
    }

    fn call(script: &'static Script, key: &str) -> Call {
        Call::new(script, &[key], &["same", key, ""], Order::Unordered)
    }

    /// Adds a call as a connection does. Returns the place of its request.
    fn add(in_flight: &mut VecDeque<InFlight>, call: Call) -> usize {
        match to_join(in_flight, &call) {
            Some(at) => {
                in_flight[at].others.push(member(&call));
                at
            }
            None => {
                in_flight.push_back(InFlight::new(1, member(&call)));
                in_flight.len() - 1
            }
        }
    }

    #[test]
    fn calls_join_those_of_their_script_and_pass_none_of_their_key() {
        let mut queue = VecDeque::new();
        assert_eq!(add(&mut queue, call(&ONE, "a")), 0);
        assert_eq!(add(&mut queue, call(&OTHER, "b")), 1);
        assert_eq!(add(&mut queue, call(&ONE, "c")), 0, "it may pass that of another key");
        assert_eq!(add(&mut queue, call(&OTHER, "a")), 1);
        assert_eq!(add(&mut queue, call(&ONE, "b")), 2, "not that of its own");
        assert_eq!(add(&mut queue, call(&ONE, "c")), 2);
        assert_eq!(add(&mut queue, call(&ALONE, "d")), 3);
        assert_eq!(add(&mut queue, call(&ALONE, "e")), 4, "nor those that never join");
        let mut elsewhere = call(&ONE, "f");
        elsewhere.slot = 7;
        assert_eq!(add(&mut queue, elsewhere), 5, "nor one of another slot");
    }

    #[test]
    fn a_request_that_is_full_or_encoded_is_left_alone() {
        let mut queue = VecDeque::new();
        for i in 0..2 * MOST {
            assert_eq!(add(&mut queue, call(&ONE, &format!("k{i}"))), i / MOST);
        }
        let mut out = Vec::new();
        add(&mut queue, call(&ONE, "last"));
        for request in &mut queue {
            request.encode(0, &mut out);
        }
        assert_eq!(add(&mut queue, call(&ONE, "late")), 3);
    }

    #[test]
    fn one_alone_is_sent_as_it_is_and_several_share_what_is_equal() {
        let mut out = Vec::new();
        let mut alone = InFlight::new(1, member(&call(&ONE, "a")));
        alone.encode(0, &mut out);
        let mut expected = Vec::new();
        call(&ONE, "a").encode(&mut expected, By::Hash);
        assert_eq!(out, expected);

        let mut joined = InFlight::new(1, member(&call(&ONE, "a")));
        joined.others.push(member(&call(&ONE, "bc")));
        let (mut out, mut expected) = (Vec::new(), Vec::new());
        joined.encode(0, &mut out);
        let words = ["EVALSHA", MANY.sha(), "2", "a", "bc", "1", "=*=", "same", "", "a", "bc"];
        super::super::wire::write_command(&mut expected, &words.map(str::as_bytes));
        assert_eq!(String::from_utf8(out), String::from_utf8(expected));
    }
}
