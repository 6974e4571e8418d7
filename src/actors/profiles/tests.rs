use serde_json::json;

use super::messages::{RefusedRemoval, RemoveProfile};
use super::*;
use crate::clock::Clock;
use crate::kubernetes::pod_template::TemplateError;
use crate::kubernetes::pod_template::gangs::GangScheduler;
use crate::testing::{Scenario, store};

/// Stores the profiles that it receives, or refuses them.
#[derive(Default)]
struct Reader {
    refuses: bool,
    known: Vec<Arc<AddedProfile>>,
    /// What it was told of removals.
    removals: Vec<String>,
    /// How often it keeps a profile that it is to forget.
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
struct Known;

impl Handler<Known> for Reader {
    type Result = Vec<Arc<AddedProfile>>;

    fn handle(&mut self, _: Known, _: &mut Self::Context) -> Self::Result {
        self.known.clone()
    }
}

impl Handler<ProfileRemoved> for Reader {
    type Result = ();

    fn handle(&mut self, ProfileRemoved(name): ProfileRemoved, _: &mut Self::Context) {
        self.removals.push(format!("{name} is removed"));
    }
}

impl Handler<ForgetProfile> for Reader {
    type Result = bool;

    fn handle(&mut self, forget: ForgetProfile, _: &mut Self::Context) -> bool {
        let keeps = self.keeps > 0;
        self.keeps = self.keeps.saturating_sub(1);
        let (name, described) = (forget.name, forget.described);
        self.removals
            .push(format!("{name} {described} is forgotten: {}", !keeps));
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

/// Two readers, the first of which may refuse, and Profiles, which publishes to both.
fn profiles(refuses: bool) -> (actix::Addr<Profiles>, [actix::Addr<Reader>; 2]) {
    let first = Reader {
        refuses,
        keeps: 1,
        ..Reader::default()
    };
    let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
    let store = store(Scenario::new(&[("default", 1)]).ledger, clock);
    let readers = [first.start(), Reader::default().start()];
    let profiles = Profiles::new(Wiring {
        read: Box::new(|_, _| Ok(understood())),
        prove: Box::new(|name, _| Some(format!("proof of {name}"))),
        names: BTreeSet::from(["default".into()]),
        configured: BTreeSet::from(["default".into()]),
        added: BTreeMap::new(),
        removing: BTreeSet::new(),
        gangs: Some(Gangs::new(GangScheduler::Volcano, 300)),
        recipients: readers.iter().map(|r| r.clone().recipient()).collect(),
        removed: readers.iter().map(|r| r.clone().recipient()).collect(),
        forget: readers.iter().map(|r| r.clone().recipient()).collect(),
        look: store.clone().recipient(),
        tell: store.recipient(),
    });
    (profiles.start(), readers)
}

fn understood() -> Understood {
    Understood {
        executors: 2,
        bounds: Bounds {
            slots: 1,
            least: 2,
            most: 9,
        },
        spec: ProfileSpec::default(),
        max_pending: None,
        min_available: None,
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
    assert_eq!(profiles.send(add("large")).await.unwrap(), Ok(()));
    assert_eq!(profiles.send(add("large")).await.unwrap(), Ok(()));
    for reader in &readers {
        let known = reader.send(Known).await.unwrap();
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
    assert!(readers[1].send(Known).await.unwrap().is_empty());
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

// spec: O-80
#[actix::test]
async fn profiles_of_the_configuration_are_added_and_those_that_exist_stay() {
    let (profiles, readers) = profiles(false);
    profiles.send(add("large")).await.unwrap().unwrap();
    let names = ["large", "small", "tiny"];
    let configured = || AddConfigured(names.map(|name| (name.into(), understood())).into());
    let known = profiles.send(configured()).await.unwrap();
    assert_eq!(known, Ok(vec!["large".into()]));
    for reader in &readers {
        let added = reader.send(Known).await.unwrap();
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
    assert_eq!(remove("large").await.unwrap(), Ok(()));
    let again = profiles.send(add("large")).await.unwrap();
    assert_eq!(again, Err(RefusedProfile::BeingRemoved("large".into())));
    tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
    let (is_removed, described) = ("large is removed", r#"large {"executors":2}"#);
    let [kept, forgotten] = ["false", "true"].map(|so| format!("{described} is forgotten: {so}"));
    let told = readers[0].send(Removals).await.unwrap();
    assert_eq!(told, [is_removed, is_removed, &kept]);
    let told = readers[1].send(Removals).await.unwrap();
    assert_eq!(told, [is_removed; 2], "the first one keeps it");
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let told = readers[1].send(Removals).await.unwrap();
    assert_eq!(told, [is_removed, is_removed, is_removed, &forgotten]);
    assert_eq!(
        remove("large").await.unwrap(),
        Err(RefusedRemoval::Unknown("large".into()))
    );
    assert_eq!(profiles.send(add("large")).await.unwrap(), Ok(()));
}

// spec: B-52, O-80
#[actix::test]
async fn profiles_of_the_configuration_are_not_removed_also_if_it_got_them_by_a_reload() {
    let (profiles, readers) = profiles(false);
    let configured = AddConfigured([("small".into(), understood())].into());
    profiles.send(configured).await.unwrap().unwrap();
    for name in ["default", "small"] {
        let refused = profiles.send(RemoveProfile(name.into())).await.unwrap();
        assert_eq!(refused, Err(RefusedRemoval::Configured(name.into())));
    }
    assert!(readers[0].send(Removals).await.unwrap().is_empty());
}
