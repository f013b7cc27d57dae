//! Summation groups among what is found: by id and session; by job, hosts of servers and classes of tensors as what they
//! have to do with.

use ringscope_api::clock::Timestamp;
use ringscope_api::{SearchHit, SearchKind, SummationGroupState as State, SummationRole as Role};
use ringscope_model::Model;
use ringscope_model::summation::Group;

use super::super::summation::key_classes;
use super::{Best, Match, count, hit, matches};

impl Best<'_> {
    pub(super) fn summations(&mut self, model: &Model, now: Timestamp) {
        for group in model.summations() {
            let Some(found) = self.match_of(group, model) else { continue };
            let state = group.state(model, now);
            let is_over = !matches!(state, State::Starting | State::Running);
            let id = group.id().to_string();
            let hit = || {
                let (n_workers, n_servers) = group.size();
                let (workers, servers) =
                    (count(n_workers as usize, "worker"), count(n_servers as usize, "server"));
                let job = group.job(model).to_owned();
                let detail = format!("job {job}, {workers}, {servers}, {}", state.label());
                SearchHit {
                    job: Some(job),
                    group: Some(id.clone()),
                    ..hit(SearchKind::Summation, title(group), detail)
                }
            };
            self.offer((found, SearchKind::Summation, is_over, id.clone()), hit);
        }
    }

    fn match_of(&self, group: &Group, model: &Model) -> Option<Match> {
        let session = format!("{:016x}", group.session());
        let names = [group.id().as_str(), &*session, &*title(group)].map(|name| matches(name, self.wanted));
        let named = names.into_iter().flatten().min();
        // What it only has to do with comes behind what is called so.
        named.or_else(|| self.concerns(group, model).then_some(Match::Inside))
    }

    fn concerns(&self, group: &Group, model: &Model) -> bool {
        let is_wanted = |text: &str| matches(text, self.wanted).is_some();
        let servers = group.services().filter(|service| service.place.0 == Role::Server);
        is_wanted(group.job(model))
            || servers.map(|server| server.host(model)).any(is_wanted)
            || key_classes(group).iter().any(|class| {
                class.push_issued_bytes > 0 && matches(&class.key_class, self.wanted) == Some(Match::Exact)
            })
    }
}

fn title(group: &Group) -> String {
    format!("summation group {}", group.id())
}

#[cfg(test)]
mod tests {
    use super::super::search;
    use super::*;
    use ringscope_samples::cluster::at;
    use ringscope_samples::summing::Summing;
    use ringscope_wire::batch::SummationState;

    fn model() -> (Model, Summing) {
        let (summing, mut model) = (Summing::new(), Model::new());
        model.apply(&summing.batch(2, 2, |_, _| ()), at(2));
        let over = Summing { session: 8, state: SummationState::Left, ..Summing::new() };
        model.apply(&over.batch(3, 3, |_, _| ()), at(3));
        (model, summing)
    }

    #[test]
    fn groups_are_found_by_what_they_are_called_and_what_they_have_to_do_with() {
        let (model, summing) = model();
        let id = summing.id().to_string();
        let both = |wanted: &str| {
            let hits = search(&model, wanted, 20, at(3));
            hits.iter().filter(|hit| hit.kind == SearchKind::Summation).count()
        };
        for (wanted, n) in [
            (&*id, 1),
            (&id[..8], 1),
            ("0000000000000007", 1),
            ("Summation Group", 2),
            ("train", 2),
            ("sum-1", 2),
            ("gradient", 2),
            ("grad", 0),
            ("parameter", 0),
            // Workers are hosts of the job, not of the service.
            ("train-3", 0),
        ] {
            assert_eq!(both(wanted), n, "{wanted}");
        }
    }

    #[test]
    fn a_group_comes_behind_its_job_and_its_hosts_and_says_how_it_is() {
        let (model, summing) = model();
        let hits = search(&model, "sum-0", 9, at(3));
        assert_eq!(
            hits.iter().map(|hit| hit.kind).collect::<Vec<_>>(),
            [SearchKind::Host, SearchKind::Summation, SearchKind::Summation]
        );
        assert_eq!(hits[1].group.as_deref(), Some(summing.id().as_str()), "what is at work first");
        assert_eq!(
            (&*hits[1].title, &*hits[1].detail),
            (&*format!("summation group {}", summing.id()), "job train, 4 workers, 2 servers, running")
        );
        assert!(hits[2].detail.ends_with(", ended"), "{}", hits[2].detail);
    }
}
