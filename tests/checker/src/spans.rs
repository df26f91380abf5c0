//! Sets of times, as sorted spans that do not touch.

/// A set of times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spans(Vec<(u64, u64)>);

impl Spans {
    /// The union of these spans, each from its first to its last moment.
    pub(crate) fn union(mut spans: Vec<(u64, u64)>) -> Self {
        spans.retain(|(from, to)| from <= to);
        spans.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(spans.len());
        for (from, to) in spans {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        Self(merged)
    }

    /// The times that at least `least` of these spans contain. A span is given with its member, and counts once for it.
    pub(crate) fn of_at_least(least: usize, spans: &[(u32, (u64, u64))]) -> Self {
        let mut members: Vec<u32> = spans.iter().map(|(member, _)| *member).collect();
        members.sort_unstable();
        members.dedup();
        let of = |member: u32| {
            Self::union(spans.iter().filter(|(m, _)| *m == member).map(|(_, span)| *span).collect())
        };
        let mut steps: Vec<(u64, bool)> = Vec::new();
        for (from, to) in members.into_iter().flat_map(|member| of(member).0) {
            // Both ends belong to a span: of steps at the same time, beginnings come first.
            steps.extend([(from, false), (to, true)]);
        }
        steps.sort_unstable();
        let (mut inside, mut since, mut found) = (0, 0, Vec::new());
        for (at, is_end) in steps {
            if is_end {
                if inside == least {
                    found.push((since, at));
                }
                inside -= 1;
            } else {
                inside += 1;
                if inside == least {
                    since = at;
                }
            }
        }
        Self::union(found)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().copied()
    }

    /// The spans that have something in common with the time from `from` to `to`.
    pub(crate) fn within(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let first = self.0.partition_point(|span| span.1 < from);
        self.0[first..].iter().copied().take_while(move |span| span.0 <= to)
    }

    pub(crate) fn touches(&self, from: u64, to: u64) -> bool {
        self.within(from, to).next().is_some()
    }

    /// Whether one span contains all of it.
    pub(crate) fn covers(&self, from: u64, to: u64) -> bool {
        self.within(from, to).any(|span| span.0 <= from && to <= span.1)
    }

    /// The times from `from` to `to` that are in none.
    pub(crate) fn gaps(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        let mut at = from;
        for (begin, end) in self.within(from, to) {
            if at < begin {
                gaps.push((at, begin));
            }
            at = at.max(end);
        }
        if at < to {
            gaps.push((at, to));
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_touch_become_one() {
        let spans = Spans::union(vec![(5, 9), (1, 2), (2, 3), (20, 10)]);
        assert_eq!(spans, Spans(vec![(1, 3), (5, 9)]));
        assert!(spans.touches(3, 4) && !spans.touches(4, 4) && spans.covers(6, 9) && !spans.covers(3, 5));
        assert_eq!(spans.gaps(0, 12), [(0, 1), (3, 5), (9, 12)]);
        assert_eq!(spans.gaps(6, 8), []);
    }

    #[test]
    fn a_majority_is_counted_by_members() {
        let spans = [(1, (0, 10)), (1, (5, 20)), (2, (8, 15)), (3, (12, 14))];
        assert_eq!(Spans::of_at_least(2, &spans), Spans(vec![(8, 15)]));
        assert_eq!(Spans::of_at_least(3, &spans), Spans(vec![(12, 14)]));
        assert_eq!(Spans::of_at_least(4, &spans), Spans::default());
    }
}
