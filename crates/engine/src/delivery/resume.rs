use std::collections::BTreeMap;

use super::{Coordinate, TargetNo, TargetState, smallest};

/// Where the one stream restarts: at the smallest place of all targets. Their states are made relative to it.
///
/// `stream` is where the stream stood in the last state: where a target without a place of its own stands.
pub fn resume(stream: &Coordinate, targets: &mut BTreeMap<TargetNo, TargetState>) -> Coordinate {
    for state in targets.values_mut() {
        state.ahead.get_or_insert_with(|| stream.clone());
    }
    let begin = smallest(targets.values().filter_map(|s| s.ahead.as_ref()))
        .map_or_else(|| stream.clone(), Coordinate::boundary);
    for state in targets.values_mut() {
        state.ahead = state.ahead.take().filter(|place| !place.is_reached_by(&begin.passed));
    }
    begin
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(n: u64) -> Coordinate {
        Coordinate::boundary(
            format!("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-{n}").parse::<millstream_binlog::GtidSet>().unwrap(),
        )
    }

    fn resumed(places: &[Option<u64>]) -> (Coordinate, Vec<Option<Coordinate>>) {
        let state = |ahead: Option<u64>| TargetState { ahead: ahead.map(at), ..TargetState::default() };
        let mut targets = (1..).map(TargetNo).zip(places.iter().map(|p| state(*p))).collect();
        let begin = resume(&at(7), &mut targets);
        (begin, targets.into_values().map(|s| s.ahead).collect())
    }

    #[test]
    fn the_stream_restarts_at_the_smallest_place_and_the_others_are_ahead_of_it() {
        assert_eq!(
            resumed(&[Some(3), Some(7), None, Some(9)]),
            (at(3), vec![None, Some(at(7)), Some(at(7)), Some(at(9))])
        );
    }

    #[test]
    fn nothing_lost_goes_on_where_the_stream_stood() {
        assert_eq!(resumed(&[None, Some(9)]), (at(7), vec![None, Some(at(9))]));
        assert_eq!(resumed(&[]), (at(7), vec![]));
    }
}
