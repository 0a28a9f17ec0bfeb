//! Announces two descriptions of its agent under one sequence, in turn.

use std::net::IpAddr;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::announcing::{Announcer, announce};
use super::{Adversary, Target, join, own_key};
use crate::NOW_MS;
use crate::mesh::{Owner, agent, file};

pub(super) fn start(target: Target, number: u32, ip: Option<IpAddr>) -> BoxFuture<'static, Adversary> {
    async move {
        let (key, owner) = (own_key(number), Owner::new(own_key(number + 500_000)));
        let (network, communication) = join(&target, &key, number, ip).await;
        let capability = target.capabilities[0].clone();
        let described = |about: &str| {
            let file = file(&format!("two-faced-{number}"), about, &capability, "do", &capability);
            agent(&owner, &owner.key, key.public(), &file, 1, NOW_MS).verified
        };
        let variants = vec![described("does its thing"), described("does the opposite")];
        let has = (key.public(), variants[0].agent.clone());
        let announcer = Announcer { key, clock: target.clock.clone(), variants, turn: 0.into() };
        announce(target, network, &communication, capability, announcer);
        Adversary { agents: vec![has], ..Adversary::new(communication) }
    }
    .boxed()
}
