//! Protected resources: a write with an older fence than the resource has seen is refused, and how many updates are lost.
//!
//! A lost update is a write that was computed from an older value than the one that it replaces. A lock cannot prevent
//! all of them: a holder may stand still between its last look at the guard and its write. So they are counted and
//! shown. They are a violation where every access came with a fence, reads included, since there the resource refuses
//! them.

use std::collections::BTreeMap;

use super::Context;
use crate::event::{Access, Action};
use crate::joined::{At, OpId};
use crate::report::{Check, Report, Violation};

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    let mut registers: BTreeMap<&str, Vec<At<'_, Access>>> = BTreeMap::new();
    for access in &context.joined.accesses {
        registers.entry(&access.2.register).or_default().push(*access);
    }
    for (register, mut accesses) in registers {
        accesses.sort_by_key(|(_, _, access)| access.seq);
        let is_fenced = accesses.iter().all(|(_, _, access)| access.fence.is_some());
        let mut highest: Option<(u64, At<'_, Access>)> = None;
        let mut last: Option<At<'_, Access>> = None;
        let mut fault = |(at, process, access): At<'_, Access>, before: At<'_, Access>, text: String| {
            let id = |process, access: &Access| access.of.map(|op| OpId { process, op });
            let ops = id(before.1, before.2).into_iter().chain(id(process, access)).collect();
            let span = (before.0.min(at), before.0.max(at));
            let name = register.to_owned();
            report.violations.push(Violation { check: Check::Register, name, span, ops, text });
        };
        for found in accesses {
            let (_, _, access) = found;
            if let (Some(fence), Some((seen, by))) = (access.fence, highest) {
                if access.accepted && fence < seen {
                    fault(found, by, format!("fence {fence} was accepted after {seen}"));
                } else if !access.accepted && fence >= seen {
                    fault(found, by, format!("fence {fence} was refused after {seen}"));
                }
            }
            if !access.accepted {
                continue;
            }
            if let Some(fence) = access.fence
                && highest.is_none_or(|(seen, _)| seen < fence)
            {
                highest = Some((fence, found));
            }
            if let Action::Write { based_on, .. } = access.action {
                if let Some(before) = last.filter(|(_, _, last)| last.seq != based_on) {
                    report.lost_updates += 1;
                    if is_fenced && before.2.fence != access.fence {
                        let text = format!("access {} was lost to access {}", before.2.seq, access.seq);
                        fault(found, before, text);
                    }
                }
                last = Some(found);
            }
        }
    }
}
