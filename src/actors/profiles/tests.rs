use serde_json::json;

use super::*;
use crate::kubernetes::pod_template::TemplateError;
use crate::kubernetes::pod_template::gangs::GangScheduler;

/// Stores the profiles that it receives, or refuses them.
#[derive(Default)]
struct Reader {
    refuses: bool,
    known: Vec<Arc<AddedProfile>>,
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

/// Two readers, the first of which may refuse, and Profiles, which publishes to both.
fn profiles(refuses: bool) -> (actix::Addr<Profiles>, [actix::Addr<Reader>; 2]) {
    let first = Reader {
        refuses,
        ..Reader::default()
    };
    let readers = [first.start(), Reader::default().start()];
    let profiles = Profiles::new(Wiring {
        read: Box::new(|_, _| Ok(understood())),
        prove: Box::new(|name, _| Some(format!("proof of {name}"))),
        names: BTreeSet::from(["default".into()]),
        added: BTreeMap::new(),
        gangs: Some(Gangs::new(GangScheduler::Volcano, 300)),
        recipients: readers.iter().map(|r| r.clone().recipient()).collect(),
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
