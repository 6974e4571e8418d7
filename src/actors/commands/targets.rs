//! Decides which targets are refused: pure (spec B-25).

use std::collections::BTreeMap;

use super::messages::RefusedTargets;
use crate::actors::profiles::messages::Bounds;
use crate::model::ProfileName;

/// Why these targets are refused; `None` if they are valid.
pub fn refused(
    profiles: &BTreeMap<ProfileName, Bounds>,
    targets: &BTreeMap<ProfileName, u32>,
) -> Option<RefusedTargets> {
    targets.iter().find_map(|(profile, target)| {
        let profile = profile.clone();
        let Some(bounds) = profiles.get(&profile) else {
            let known: Vec<&str> = profiles.keys().map(ProfileName::as_str).collect();
            let known = known.join(", ");
            return Some(RefusedTargets::UnknownProfile { profile, known });
        };
        let (target, most) = (*target, bounds.most);
        let refused = RefusedTargets::TooMany {
            profile,
            target,
            most,
        };
        (target > most).then_some(refused)
    })
}

/// The targets above what is allowed now, each lowered to that.
pub fn lowered(
    profiles: &BTreeMap<ProfileName, Bounds>,
    targets: &BTreeMap<ProfileName, u32>,
) -> BTreeMap<ProfileName, u32> {
    let most = |profile: &ProfileName| profiles.get(profile).map_or(u32::MAX, |bounds| bounds.most);
    (targets.iter())
        .filter(|(profile, target)| **target > most(profile))
        .map(|(profile, _)| (profile.clone(), most(profile)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: B-25
    #[test]
    fn a_target_of_an_unknown_profile_and_one_beyond_its_bound_are_refused() {
        let bounds = Bounds {
            slots: 1,
            least: 0,
            most: 9,
        };
        let profiles = BTreeMap::from([("default".into(), bounds)]);
        let refused = |profile: &str, target| {
            let targets = BTreeMap::from([(profile.into(), target)]);
            refused(&profiles, &targets)
        };
        assert_eq!(refused("default", 9), None);
        let profile = "default".into();
        let (target, most) = (10, 9);
        let too_many = RefusedTargets::TooMany {
            profile,
            target,
            most,
        };
        assert_eq!(refused("default", 10), Some(too_many));
        let unknown = refused("other", 1);
        assert!(matches!(
            unknown,
            Some(RefusedTargets::UnknownProfile { .. })
        ));
    }
}
