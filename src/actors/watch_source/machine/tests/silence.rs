//! Watches in which nothing comes (spec W-3).

use super::*;

// spec: W-3
#[test]
fn without_bookmarks_silence_until_ten_seconds_after_the_timeout_is_a_dead_connection() {
    let mut driven = Driven::begun();
    let effects = driven.listed(list(10, 0));
    let Some(Effect::Watch {
        timeout_seconds, ..
    }) = effects.last()
    else {
        panic!("{effects:?}");
    };
    driven.opened();
    assert_eq!(driven.armed(), (timeout_seconds + 10) * S);
    let effects = driven.alarm();
    assert_eq!(effects[0], Effect::Cut);
    assert_eq!(driven.armed(), Duration::ZERO);
    assert_eq!(watched_from(&driven.alarm()), Some(&10.into()));
}

// spec: W-3
#[test]
fn once_a_bookmark_was_seen_150_s_without_a_line_are_and_each_line_begins_them_anew() {
    let mut driven = Driven::watching();
    driven.line(bookmark(11));
    assert_eq!(driven.armed(), 150 * S);
    driven.now = at(100);
    driven.line(Line::Garbage(Arc::from("?")));
    driven.now = at(0);
    assert_eq!(
        driven.alarm().len(),
        1,
        "it rang too early, and is armed again"
    );
    assert_eq!(driven.armed(), 100 * S);
    assert_eq!(driven.alarm()[0], Effect::Cut);
    assert_eq!(driven.now, at(250));

    driven.alarm();
    driven.opened();
    assert_eq!(driven.armed(), 150 * S, "the next watch knows it too");
}

// spec: W-3
#[test]
fn silent_twice_in_a_row_begins_with_a_new_list_and_a_line_between_them_prevents_it() {
    let mut driven = Driven::watching();
    driven.line(bookmark(11));
    driven.alarm();
    driven.alarm();
    driven.opened();
    driven.alarm();
    assert!(lists(&driven.alarm()), "a version from the future?");
    driven.listed(list(9, 0));
    driven.opened();

    driven.alarm();
    driven.alarm();
    driven.opened();
    driven.line(seen(12));
    driven.alarm();
    assert!(watched_from(&driven.alarm()).is_some());
}

// spec: W-3
#[test]
fn a_watch_without_a_line_that_the_server_ends_in_its_time_was_silent_too() {
    let mut driven = Driven::watching();
    driven.now = at(600);
    driven.ended(TroubleKind::Ended);
    assert!(watched_from(&driven.alarm()).is_some());
    driven.opened();
    driven.now = at(1_200);
    driven.ended(TroubleKind::Ended);
    assert!(lists(&driven.alarm()));
}
