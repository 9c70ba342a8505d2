use super::{Coordinate, RecoveryPlan, TargetNo, TargetState, smallest};

/// The durable state after a recovery: where the stream restarts, and every target's state relative to that.
///
/// `next` is where the record's epoch ended, `others` are the targets that the record does not name: they moved along
/// with the stream, so they stand at `next` unless they have a place of their own.
#[must_use]
pub fn resume(
    plan: &RecoveryPlan,
    next: &Coordinate,
    others: &[(TargetNo, TargetState)],
) -> (Coordinate, Vec<(TargetNo, TargetState)>) {
    let named = plan.targets.iter().map(|t| (t.target, t.resume.clone()));
    let mut all: Vec<(TargetNo, TargetState)> = named.chain(others.iter().cloned()).collect();
    for (_, state) in &mut all {
        state.ahead.get_or_insert_with(|| next.clone());
    }
    let stream =
        smallest(all.iter().filter_map(|(_, s)| s.ahead.as_ref())).map_or_else(|| next.clone(), Coordinate::boundary);
    for (_, state) in &mut all {
        if state.ahead.as_ref() == Some(&stream) {
            state.ahead = None;
        }
    }
    (stream, all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::TargetPlan;

    fn at(n: u64) -> Coordinate {
        Coordinate::boundary(format!("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-{n}").parse().unwrap())
    }

    fn state(ahead: Option<Coordinate>) -> TargetState {
        TargetState { ahead, ..TargetState::default() }
    }

    #[test]
    fn the_stream_restarts_at_the_smallest_place_and_the_others_are_ahead_of_it() {
        let plan = RecoveryPlan {
            targets: vec![
                TargetPlan { target: TargetNo(1), actions: Vec::new(), resume: state(Some(at(3))) },
                TargetPlan { target: TargetNo(2), actions: Vec::new(), resume: state(Some(at(7))) },
            ],
        };
        let others = [(TargetNo(3), state(None)), (TargetNo(4), state(Some(at(9))))];
        let (stream, all) = resume(&plan, &at(7), &others);
        assert_eq!(stream, at(3));
        let places: Vec<_> = all.into_iter().map(|(t, s)| (t.0, s.ahead)).collect();
        assert_eq!(places, [(1, None), (2, Some(at(7))), (3, Some(at(7))), (4, Some(at(9)))]);
    }

    #[test]
    fn nothing_lost_goes_on_where_the_epoch_ended() {
        let plan = RecoveryPlan {
            targets: vec![TargetPlan { target: TargetNo(1), actions: Vec::new(), resume: state(Some(at(7))) }],
        };
        assert_eq!(resume(&plan, &at(7), &[]), (at(7), vec![(TargetNo(1), state(None))]));
        assert_eq!(resume(&RecoveryPlan { targets: Vec::new() }, &at(7), &[]).0, at(7));
    }
}
