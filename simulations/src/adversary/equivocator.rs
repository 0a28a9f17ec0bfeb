//! Has an agent, and says two things of it under one sequence: another one to each who asks, and each time.

use std::net::IpAddr;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::faces::{Faces, show};
use super::{Loose, Target, join, own_key};
use crate::NOW_MS;
use crate::mesh::{Owner, agent, file};

pub(super) fn start(target: Target, number: u32, ip: Option<IpAddr>) -> BoxFuture<'static, Loose> {
    async move {
        let (key, owner) = (own_key(number), Owner::new(own_key(number + 500_000)));
        let (network, communication) = join(&target, &key, number, ip).await;
        let capability = target.capabilities[0].clone();
        let says = |about: &str| {
            let file = file(&format!("two-faced-{number}"), about, &capability, "do", &capability);
            agent(&owner, &owner.key, key.public(), &file, 1, NOW_MS).verified
        };
        let faces = vec![says("does its thing"), says("does the opposite")];
        let has = (key.public(), faces[0].agent.clone());
        let faces = Faces { key, clock: target.clock.clone(), faces, turn: 0.into() };
        show(target, network, &communication, capability, faces);
        Loose { agents: vec![has], ..Loose::new(communication) }
    }
    .boxed()
}
