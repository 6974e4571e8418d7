//! Invariants that hold for any inputs in any order.

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Register(u64, bool),
    Beat(u64, u32),
    BeatAs(u64, u64),
    Lose(u64),
    Order(u64, bool),
    Exit(u64),
    Terminate(u64),
    Gone(u64),
    List,
    Call(bool),
    Pass(u64, bool),
    Stall(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let n = 1..=6_u64;
    let c = 1..=8_u64;
    prop_oneof![
        (c.clone(), any::<bool>()).prop_map(|(c, r)| Step::Register(c, r)),
        (c.clone(), 0..4_u32).prop_map(|(c, b)| Step::Beat(c, b)),
        (n.clone(), 0..20_u64).prop_map(|(n, s)| Step::BeatAs(n, s)),
        c.prop_map(Step::Lose),
        (n.clone(), any::<bool>()).prop_map(|(n, s)| Step::Order(n, s)),
        n.clone().prop_map(Step::Exit),
        n.clone().prop_map(Step::Terminate),
        n.prop_map(Step::Gone),
        Just(Step::List),
        any::<bool>().prop_map(Step::Call),
        (1..200_u64, any::<bool>()).prop_map(|(s, beat)| Step::Pass(s, beat)),
        (1..500_u64).prop_map(Step::Stall),
    ]
}

/// A connection belongs to one executor, which may have several.
fn owner(connection: u64) -> u64 {
    connection.min(6)
}

fn take(world: &mut World, step: &Step) {
    match *step {
        Step::Register(c, by_request) => {
            let n = owner(c);
            let via = if by_request { Via::Request } else { conn(c) };
            assert!(!world.say(n, via, &registration(n)).is_empty());
        }
        Step::Beat(c, busy) => {
            let n = owner(c);
            assert!(!world.say(n, conn(c), &heartbeat(None, busy)).is_empty());
        }
        Step::BeatAs(n, s) => {
            let beat = heartbeat(Some(2 * SESSIONS + s), 0);
            assert!(!world.say(n, Via::Request, &beat).is_empty());
        }
        Step::Lose(c) => world.loses(c),
        Step::Order(n, drains) => {
            let now = world.now();
            let demand = if drains { Demand::Drain } else { Demand::Stop };
            let order = Order { demand, ..drain(5) };
            world.registry.order(id(n), order, now, &mut world.effects);
        }
        Step::Exit(n) if world.scenario.entry(n).is_some() => world.scenario.exits(n, 1),
        Step::Terminate(n) if world.scenario.entry(n).is_some() => world.scenario.terminates(n),
        Step::Gone(n) if world.scenario.entry(n).is_some() => world.scenario.goes(n),
        Step::Exit(_) | Step::Terminate(_) | Step::Gone(_) => {}
        Step::List => {
            let here = (1..=6).filter(|n| world.scenario.entry(*n).is_some_and(|e| !e.is_gone()));
            let pods = here.map(|n| world.scenario.pod(n)).collect();
            world.scenario.list(pods);
        }
        Step::Call(answered) => {
            let since = (!answered).then_some(world.now());
            world.registry.unanswered(since);
        }
        Step::Pass(seconds, beat) => {
            let beating: Vec<u64> = if beat { (1..=6).collect() } else { Vec::new() };
            world.pass(seconds, &beating);
        }
        Step::Stall(seconds) => world.scenario.pass(seconds * 1_000),
    }
    world.carry_out();
    world.round();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // spec: B-2, B-12, B-13, I-8
    #[test]
    fn only_live_executors_have_accounts_and_none_is_given_up_in_doubt_or_too_early(
        steps in prop::collection::vec(step(), 1..60), required in any::<bool>(),
    ) {
        let config = if required { super::required() } else { config() };
        let mut world = World::new(config, 6);
        for step in &steps {
            let accounts = world.registry.accounts();
            let heard: Vec<_> = accounts.map(|(id, a)| (id, a.last_sign, a.is_disabled())).collect();
            let doubted = world.registry.doubt().is_some();
            world.take();
            take(&mut world, step);
            let registry = &world.registry;
            for (id, account) in registry.accounts() {
                let entry = world.scenario.entry(id.get());
                prop_assert!(entry.is_some_and(|entry| !entry.has_ended()), "{id} has ended");
                prop_assert_eq!(account.is_going, account.due.is_none());
                if let Reach::Connected(c) = account.reach {
                    prop_assert_eq!(registry.connections.get(&c), Some(&(id, account.session)));
                }
            }
            // Each watched executor has one check, and only executors with an account are kept.
            let due: Vec<_> = registry.due.iter().map(|(_, id)| *id).collect();
            let watched = registry.accounts.values().filter(|a| a.due.is_some()).count();
            prop_assert_eq!(due.len(), watched + registry.awaited.len());
            prop_assert!(registry.connections.len() <= 8);
            prop_assert!(registry.orders.len() <= 6 + 6);
            for effect in &world.effects {
                let Effect::Retire(given_up, _) = effect else { continue };
                prop_assert!(matches!(step, Step::Pass(..)), "{given_up} at {step:?}");
                if let Some((_, sign, is_disabled)) = heard.iter().find(|(id, ..)| id == given_up) {
                    let silent = world.now().since(*sign);
                    let least = if *is_disabled { LOSS } else { TIMEOUT };
                    prop_assert!(silent >= Duration::from_millis(least), "{given_up} after {silent:?}");
                }
                let ended = world.effects.contains(&Effect::Recovered);
                prop_assert!(!doubted || ended, "{given_up} was given up in doubt");
            }
        }
    }
}
