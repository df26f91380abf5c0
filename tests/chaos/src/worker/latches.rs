//! Calls on latches.

use checker::{Call, Wait};

use crate::clock::{nanos, now};
use crate::kinds::Use;
use crate::worker::answers::done;
use crate::worker::api::{Api, Turn};
use crate::worker::task::Task;

/// Makes one call.
pub(crate) async fn turn(task: &mut Task, api: &impl Api) {
    let name = Use::Latch.name(&mut task.rng);
    let turn = Turn::draw(&mut task.rng);
    let call = match turn {
        Turn::Set(to) => Call::SetCount { name: name.clone(), to },
        Turn::Down => Call::CountDown { name: name.clone() },
        Turn::Count => Call::Count { name: name.clone() },
        Turn::Delete => Call::Delete { name: name.clone() },
        Turn::Wait(limit) => Call::Wait { name: name.clone(), wait: Wait::For(nanos(limit)) },
    };
    let op = task.log.call(task.worker, call);
    let result = api.turn(&name, turn).await;
    let at = now();
    task.log.answer(op, at, done(result));
}
