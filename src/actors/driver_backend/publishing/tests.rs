use std::time::Duration;

use actix::{Actor, Handler};
use serde_json::json;

use super::*;
use crate::actors::driver_backend::messages::{
    AddProfile, Reconfigure, RefusedRemoval, RemoveProfile,
};
use crate::actors::driver_backend::profiles::{Known, Profiles};
use crate::clock::Clock;
use crate::config::{Config, Pool};
use crate::kubernetes::pod_template::TemplateError;
use crate::kubernetes::pod_template::gangs::{GangScheduler, Gangs};
use crate::model::ProfileName;
use crate::testing::{Scenario, added_profile, backend_with, store};

/// Stores the profiles that it receives, or refuses them.
#[derive(Default)]
struct Reader {
    refuses: bool,
    known: Vec<Arc<AddedProfile>>,
    /// What it was told of removals.
    removals: Vec<String>,
    /// How often it keeps a profile that is gone.
    keeps: u32,
}

impl Actor for Reader {
    type Context = Context<Self>;
}

impl Handler<ProfileAdded> for Reader {
    type Result = Result<(), TemplateError>;

    fn handle(&mut self, ProfileAdded(added): ProfileAdded, _: &mut Self::Context) -> Self::Result {
        if self.refuses {
            return Err(TemplateError::Claims {
                profile: added.name.clone(),
            });
        }
        self.known.push(added);
        Ok(())
    }
}

/// Requests the profiles of a reader.
#[derive(actix::Message)]
#[rtype(result = "Vec<Arc<AddedProfile>>")]
struct Learnt;

impl Handler<Learnt> for Reader {
    type Result = Vec<Arc<AddedProfile>>;

    fn handle(&mut self, _: Learnt, _: &mut Self::Context) -> Self::Result {
        self.known.clone()
    }
}

impl Handler<RecordProfiles> for Reader {
    type Result = ();

    fn handle(&mut self, change: RecordProfiles, _: &mut Self::Context) {
        if let RecordProfiles::Removing(name) = change {
            self.removals.push(format!("{name} is removed"));
        }
    }
}

impl Handler<ProfileGone> for Reader {
    type Result = bool;

    fn handle(&mut self, gone: ProfileGone, _: &mut Self::Context) -> bool {
        let keeps = self.keeps > 0;
        self.keeps = self.keeps.saturating_sub(1);
        let (name, described) = (gone.name, gone.described);
        self.removals
            .push(format!("{name} {described} is gone: {}", !keeps));
        !keeps
    }
}

/// Requests what a reader was told of removals.
#[derive(actix::Message)]
#[rtype(result = "Vec<String>")]
struct Removals;

impl Handler<Removals> for Reader {
    type Result = Vec<String>;

    fn handle(&mut self, _: Removals, _: &mut Self::Context) -> Self::Result {
        self.removals.clone()
    }
}

/// Two readers, the first of which may refuse, and DriverBackend, which publishes to both and knows the pool `batch`.
fn profiles(refuses: bool) -> (actix::Addr<DriverBackend>, [actix::Addr<Reader>; 2]) {
    let first = Reader {
        refuses,
        keeps: 1,
        ..Reader::default()
    };
    let readers = [first.start(), Reader::default().start()];
    let profiles = Profiles::new(
        Box::new(|name, _| Ok(added_profile(name.as_str()))),
        Box::new(|name, _| Some(format!("proof of {name}"))),
        Known {
            bounds: [("default".into(), added_profile("default").bounds)].into(),
            configured: ["default".into()].into(),
            gangs: Some(Gangs::new(GangScheduler::Volcano, 300)),
            ..Known::default()
        },
    );
    let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
    let targets = [("default", 1)];
    let store = store(Scenario::new(&targets).ledger, clock);
    let recipients = readers.clone();
    let config = Config {
        pools: [("batch".into(), Pool::default())].into(),
        ..Config::default()
    };
    let backend = backend_with(&store, clock, &targets, config, |wiring| {
        wiring.profiles = profiles;
        let to = &mut wiring.to;
        to.added = recipients.iter().map(|r| r.clone().recipient()).collect();
        to.record = recipients[0].clone().recipient();
        to.gone = recipients.iter().map(|r| r.clone().recipient()).collect();
    });
    (backend.backend, readers)
}

/// The configuration has these profiles now.
fn reconfigure(names: &[&str]) -> Reconfigure {
    Reconfigure {
        added: names.iter().map(|name| added_profile(name)).collect(),
        config: Arc::default(),
        targets: BTreeMap::new(),
    }
}

fn add(name: &str) -> AddProfile {
    AddProfile {
        name: name.into(),
        described: json!({"executors": 2}),
    }
}

// spec: B-26, A-82
#[actix::test]
async fn every_recipient_knows_an_added_profile_once_and_with_its_gang() {
    let (profiles, readers) = profiles(false);
    let targets = BTreeMap::from([("default".into(), 1), ("large".into(), 2)]);
    for _ in 0..2 {
        let added = profiles.send(add("large")).await.unwrap();
        assert_eq!(added, Ok(targets.clone()));
    }
    for reader in &readers {
        let known = reader.send(Learnt).await.unwrap();
        let names: Vec<&str> = known.iter().map(|added| added.name.as_str()).collect();
        assert_eq!(names, ["large"]);
        assert!(known[0].spec.gang.is_some());
    }
}

// spec: B-26
#[actix::test]
async fn a_profile_that_the_provisioner_refuses_is_unknown_to_all_and_can_be_added_later() {
    let (profiles, readers) = profiles(true);
    let refused = profiles.send(add("large")).await.unwrap();
    assert!(
        matches!(refused, Err(RefusedProfile::NoPod(_))),
        "{refused:?}"
    );
    assert!(readers[1].send(Learnt).await.unwrap().is_empty());
    let again = profiles.send(add("large")).await.unwrap();
    assert!(matches!(again, Err(RefusedProfile::NoPod(_))), "{again:?}");
}

// spec: B-26
#[actix::test]
async fn another_profile_of_a_name_that_exists_is_refused() {
    let (profiles, _) = profiles(false);
    let refused = profiles.send(add("default")).await.unwrap();
    assert_eq!(refused, Err(RefusedProfile::Exists("default".into())));
}

// spec: B-26, B-74
#[actix::test]
async fn a_profile_of_a_pools_name_is_refused() {
    let (profiles, readers) = profiles(false);
    let refused = profiles.send(add("batch")).await.unwrap();
    assert_eq!(refused, Err(RefusedProfile::IsPool("batch".into())));
    assert!(readers[0].send(Learnt).await.unwrap().is_empty());
}

// spec: O-80
#[actix::test]
async fn profiles_of_the_configuration_are_added_and_those_that_exist_stay() {
    let (profiles, readers) = profiles(false);
    profiles.send(add("large")).await.unwrap().unwrap();
    let names = ["large", "small", "tiny"];
    let configured = || reconfigure(&names);
    let known = profiles.send(configured()).await.unwrap();
    assert_eq!(known, Ok(vec!["large".into()]));
    for reader in &readers {
        let added = reader.send(Learnt).await.unwrap();
        let added = added
            .iter()
            .map(|a| (a.name.as_str(), a.kept.is_some(), a.spec.gang.is_some()));
        let expected = [
            ("large", true, true),
            ("small", false, true),
            ("tiny", false, true),
        ];
        assert_eq!(added.collect::<Vec<_>>(), expected);
    }
    let known = profiles.send(configured()).await.unwrap();
    assert_eq!(known, Ok(names.map(ProfileName::from).to_vec()));
    let refused = profiles.send(add("small")).await.unwrap();
    assert_eq!(refused, Err(RefusedProfile::Exists("small".into())));
}

// spec: B-57
#[actix::test]
async fn a_removed_profile_is_forgotten_by_one_actor_after_the_other_and_its_name_is_free_then() {
    tokio::time::pause();
    let (profiles, readers) = profiles(false);
    profiles.send(add("large")).await.unwrap().unwrap();
    let remove = |name: &str| profiles.send(RemoveProfile(name.into()));
    let left = BTreeMap::from([("default".into(), 1)]);
    assert_eq!(remove("large").await.unwrap(), Ok(left));
    let again = profiles.send(add("large")).await.unwrap();
    assert_eq!(again, Err(RefusedProfile::BeingRemoved("large".into())));
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let (is_removed, described) = ("large is removed", r#"large {"executors":2}"#);
    let [kept, forgotten] = ["false", "true"].map(|so| format!("{described} is gone: {so}"));
    let told = readers[0].send(Removals).await.unwrap();
    assert_eq!(told, [is_removed, is_removed, &kept]);
    let told = readers[1].send(Removals).await.unwrap();
    assert_eq!(told, [""; 0], "the first one keeps it");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let told = readers[1].send(Removals).await.unwrap();
    assert_eq!(told, [&forgotten[..]]);
    assert_eq!(
        remove("large").await.unwrap(),
        Err(RefusedRemoval::Unknown("large".into()))
    );
    assert!(profiles.send(add("large")).await.unwrap().is_ok());
}

// spec: B-52, O-80
#[actix::test]
async fn profiles_of_the_configuration_are_not_removed_also_if_it_got_them_by_a_reload() {
    let (profiles, readers) = profiles(false);
    profiles
        .send(reconfigure(&["small"]))
        .await
        .unwrap()
        .unwrap();
    for name in ["default", "small"] {
        let refused = profiles.send(RemoveProfile(name.into())).await.unwrap();
        assert_eq!(refused, Err(RefusedRemoval::Configured(name.into())));
    }
    assert!(readers[0].send(Removals).await.unwrap().is_empty());
}
