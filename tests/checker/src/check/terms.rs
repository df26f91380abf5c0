//! Elections: an observer never sees terms go back, unless the store may have forgotten a leader, and sees none before
//! its leader has campaigned.

use std::collections::HashMap;

use super::Context;
use crate::event::Kind;
use crate::report::{Check, Report, Violation};

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    let leaders = context.joined.entries.iter().filter(|entry| entry.kind == Kind::Leader);
    let terms: HashMap<(usize, u64), u64> =
        leaders.filter_map(|entry| Some(((entry.name, entry.fence?), entry.called))).collect();
    let mut last: HashMap<(u32, u32, &str), (u64, u64)> = HashMap::new();
    for (at, process, observer, name, term) in &context.joined.observed {
        let mut fault = |from: u64, text: String| {
            let (name, span) = ((*name).to_owned(), (from, *at));
            report.violations.push(Violation { check: Check::Term, name, span, ops: Vec::new(), text });
        };
        let before = last.insert((*process, *observer, name), (*at, *term));
        if let Some((seen, before)) = before.filter(|(_, before)| before > term)
            && !context.conditions.may_lose_fences(seen, *at)
            && !context.conditions.excuses(name, *at)
        {
            fault(seen, format!("observer {process}/{observer} sees term {term} after {before}"));
        }
        let called = context.joined.number_of(name).and_then(|name| terms.get(&(name, *term)));
        if called.is_some_and(|called| called > at) {
            fault(
                *at,
                format!("observer {process}/{observer} sees term {term} before its leader campaigned"),
            );
        }
    }
}
