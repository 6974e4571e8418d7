//! Tests of when the driver doubts itself.

use super::*;
use crate::testing::at;

const PATIENCE: Patience = Patience {
    interval: Duration::from_secs(10),
    timeout: Duration::from_secs(120),
    mass_loss: 20,
    look: Duration::from_secs(1),
};

fn silent(silent: usize, of: usize, last_sign: u64) -> Look {
    let last_sign = Some(at(last_sign * 1000));
    Look {
        silent,
        of,
        last_sign,
    }
}

/// The changes of a doubt that is checked every second.
fn turns(
    doubt: &mut Doubt,
    seconds: std::ops::Range<u64>,
    look: impl Fn(u64) -> Look,
) -> Vec<(u64, DoubtChange)> {
    let mut turns = Vec::new();
    for second in seconds {
        let now = at(second * 1000);
        turns.extend(doubt.wake(now).map(|turn| (second, turn)));
        turns.extend(doubt.look(look(second), now).map(|turn| (second, turn)));
    }
    turns
}

// spec: B-58
#[test]
fn a_percentage_from_three_executors_on_or_more_than_half_of_the_fleet_is_a_mass_loss() {
    for (gone, of, mass) in [
        (0, 0, false),
        (1, 1, true),
        (1, 2, false),
        (2, 2, true),
        (2, 3, true),
        (2, 4, false),
        (3, 3, true),
        (3, 14, true),
        (3, 15, false),
        (20, 100, false),
        (21, 100, true),
    ] {
        let mut doubt = Doubt::new(PATIENCE);
        let turn = doubt.look(silent(gone, of, 0), at(0));
        assert_eq!(turn.is_some(), mass, "{gone} of {of}");
    }
}

// spec: B-13
#[test]
fn a_pause_longer_than_an_interval_causes_doubt_for_an_interval() {
    let mut doubt = Doubt::new(PATIENCE);
    assert_eq!(turns(&mut doubt, 0..5, |n| silent(0, 9, n)), []);
    // From 4 to 15 are 11 s, of which 1 s is usual: not a pause. From 19 to 40 is one.
    assert_eq!(turns(&mut doubt, 15..20, |n| silent(0, 9, n)), []);
    let turns = turns(&mut doubt, 40..80, |n| silent(0, 9, n));
    let paused = WhyDoubt::StoodStill(Duration::from_secs(20));
    assert_eq!(
        turns,
        [
            (40, DoubtChange::Degraded(paused)),
            (50, DoubtChange::Recovered)
        ]
    );
    assert_eq!(doubt.grace_from, at(50_000));
}

// spec: B-13
#[test]
fn an_unreachable_api_server_causes_doubt_until_it_answers() {
    let mut doubt = Doubt::new(PATIENCE);
    doubt.unanswered(Some(at(1_000)));
    let begun = turns(&mut doubt, 0..60, |n| silent(0, 9, n));
    assert_eq!(begun, [(11, DoubtChange::Degraded(WhyDoubt::NoApiServer))]);
    doubt.unanswered(None);
    let over = turns(&mut doubt, 60..200, |n| silent(0, 9, n));
    assert_eq!(over, [(60, DoubtChange::Recovered)]);
}

// spec: B-13
#[test]
fn failed_calls_among_others_cause_no_doubt() {
    let mut doubt = Doubt::new(PATIENCE);
    for second in 0..100 {
        doubt.unanswered((second % 5 == 0).then(|| at(second * 1000)));
        let turns = turns(&mut doubt, second..second + 1, |n| silent(0, 9, n));
        assert_eq!(turns, [], "{second}");
    }
}

// spec: B-59
#[test]
fn a_mass_loss_while_others_send_messages_causes_doubt_once_for_one_timeout() {
    let mut doubt = Doubt::new(PATIENCE);
    let half = turns(&mut doubt, 0..500, |n| match doubt_settled(n) {
        true => silent(0, 10, n),
        false => silent(5, 10, n),
    });
    let mass = WhyDoubt::MassLoss { silent: 5, of: 10 };
    assert_eq!(
        half,
        [
            (0, DoubtChange::Degraded(mass)),
            (120, DoubtChange::Recovered)
        ]
    );
    assert_eq!(doubt.settled, Some(at(120_000)));
}

/// Executors that were silent before a doubt was settled are not counted again.
fn doubt_settled(second: u64) -> bool {
    second > 120
}

// spec: B-59, I-12
#[test]
fn without_any_message_the_doubt_lasts() {
    let mut doubt = Doubt::new(PATIENCE);
    let all = turns(&mut doubt, 0..10_000, |_| silent(10, 10, 0));
    assert_eq!(all.len(), 1, "{all:?}");
    let back = turns(&mut doubt, 10_000..10_100, |n| silent(0, 10, n));
    assert_eq!(back, [(10_000, DoubtChange::Recovered)]);
}

// spec: B-59, I-12
#[test]
fn a_doubt_about_executors_that_have_ended_meanwhile_lasts_until_others_are_heard() {
    let mut doubt = Doubt::new(PATIENCE);
    let ended = turns(&mut doubt, 1..500, |n| match n < 20 {
        true => silent(10, 10, 0),
        false => silent(0, 0, 0),
    });
    let mass = WhyDoubt::MassLoss { silent: 10, of: 10 };
    assert_eq!(ended, [(1, DoubtChange::Degraded(mass))]);
    let heard = turns(&mut doubt, 500..510, |n| silent(0, 1, n));
    assert_eq!(heard, [(500, DoubtChange::Recovered)]);
}

// spec: B-59, I-12
#[test]
fn a_doubt_about_a_fleet_lasts_although_only_a_few_of_it_are_left() {
    let mut doubt = Doubt::new(PATIENCE);
    let all = turns(&mut doubt, 0..10_000, |n| match n < 20 {
        true => silent(10, 10, 0),
        false => silent(2, 2, 0),
    });
    let mass = WhyDoubt::MassLoss { silent: 10, of: 10 };
    assert_eq!(all, [(0, DoubtChange::Degraded(mass))]);
}

// spec: B-59
#[test]
fn an_outage_whose_doubt_timed_out_causes_none_until_the_server_has_answered() {
    let mut doubt = Doubt::new(PATIENCE);
    doubt.unanswered(Some(at(0)));
    let outage = turns(&mut doubt, 0..1_000, |n| silent(0, 9, n));
    let begun = (10, DoubtChange::Degraded(WhyDoubt::NoApiServer));
    assert_eq!(outage, [begun, (130, DoubtChange::Recovered)]);
    doubt.unanswered(None);
    doubt.unanswered(Some(at(1_001_000)));
    assert_eq!(
        turns(&mut doubt, 1_000..1_050, |n| silent(0, 9, n)).len(),
        1
    );
}

// spec: B-59, A-52
#[test]
fn while_tokens_cannot_be_verified_the_doubt_lasts_although_others_are_heard() {
    let mut doubt = Doubt::new(PATIENCE);
    doubt.tokens(Some(NoKeys::Unanswered));
    let begun = turns(&mut doubt, 0..5_000, |n| silent(0, 9, n));
    let unanswered = WhyDoubt::NoKeys(NoKeys::Unanswered);
    assert_eq!(begun, [(0, DoubtChange::Degraded(unanswered))]);
    // The newest reason is shown, without another beginning.
    doubt.tokens(Some(NoKeys::Refused(406)));
    assert_eq!(turns(&mut doubt, 5_000..9_000, |n| silent(0, 9, n)), []);
    let refused = WhyDoubt::NoKeys(NoKeys::Refused(406));
    assert_eq!(doubt.current(), Some((refused, at(0))));
    assert_eq!(
        refused.to_string(),
        "executors' tokens cannot be verified: the request for the cluster's keys is answered with 406"
    );
    doubt.tokens(None);
    let over = turns(&mut doubt, 9_000..9_100, |n| silent(0, 9, n));
    assert_eq!(over, [(9_000, DoubtChange::Recovered)]);
    assert_eq!(doubt.grace_from, at(9_000_000));
}

// spec: B-13
#[test]
fn a_doubt_for_another_reason_goes_over_into_that_about_tokens() {
    let refused = WhyDoubt::NoKeys(NoKeys::Refused(403));
    let mut outage = Doubt::new(PATIENCE);
    outage.unanswered(Some(at(0)));
    outage.tokens(Some(NoKeys::Refused(403)));
    // The API server's absence explains more, once it is certain.
    assert_eq!(
        turns(&mut outage, 0..1, |n| silent(0, 9, n)),
        [(0, DoubtChange::Degraded(refused))]
    );
    let mut lost = Doubt::new(PATIENCE);
    let all = WhyDoubt::MassLoss { silent: 9, of: 9 };
    let begun = turns(&mut lost, 1..50, |_| silent(9, 9, 0));
    assert_eq!(begun, [(1, DoubtChange::Degraded(all))]);
    lost.tokens(Some(NoKeys::Refused(403)));
    let turned = turns(&mut lost, 50..500, |_| silent(9, 9, 0));
    assert_eq!(turned, [(50, DoubtChange::Degraded(refused))]);
    lost.tokens(None);
    let over = turns(&mut lost, 500..501, |_| silent(9, 9, 0));
    assert_eq!(over, [(500, DoubtChange::Recovered)]);
}

// spec: B-13
#[test]
fn after_an_outage_the_doubt_lasts_until_the_keys_were_read() {
    let mut doubt = Doubt::new(PATIENCE);
    doubt.unanswered(Some(at(0)));
    let begun = turns(&mut doubt, 0..20, |n| silent(0, 9, n));
    assert_eq!(begun, [(10, DoubtChange::Degraded(WhyDoubt::NoApiServer))]);
    doubt.tokens(Some(NoKeys::Unanswered));
    doubt.unanswered(None);
    let unanswered = WhyDoubt::NoKeys(NoKeys::Unanswered);
    let turned = turns(&mut doubt, 20..25, |n| silent(0, 9, n));
    assert_eq!(turned, [(20, DoubtChange::Degraded(unanswered))]);
    doubt.tokens(None);
    let over = turns(&mut doubt, 25..26, |n| silent(0, 9, n));
    assert_eq!(over, [(25, DoubtChange::Recovered)]);
}

// spec: B-13
#[test]
fn each_reason_has_its_word() {
    for (why, word) in [
        (WhyDoubt::StoodStill(Duration::ZERO), "paused"),
        (WhyDoubt::NoApiServer, "api-server"),
        (WhyDoubt::NoKeys(NoKeys::Unusable), "keys"),
        (WhyDoubt::MassLoss { silent: 1, of: 1 }, "mass-loss"),
    ] {
        assert_eq!(why.word(), word);
        assert!(WhyDoubt::WORDS.contains(&word));
    }
}
