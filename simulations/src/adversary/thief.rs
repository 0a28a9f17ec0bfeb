//! Announces an agent of an owner whose retired key it has stolen, with a grant to itself.

use std::net::IpAddr;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::announcing::{Announcer, announce};
use super::{Adversary, Target, join, own_key};
use crate::mesh::{agent, file};

pub(super) fn start(target: Target, number: u32, ip: Option<IpAddr>) -> BoxFuture<'static, Adversary> {
    async move {
        let key = own_key(number);
        let (network, communication) = join(&target, &key, number, ip).await;
        let stolen = target.retired.get(number as usize % target.retired.len().max(1)).cloned();
        // Before the first rotation there is no retired key.
        if let Some(owner) = stolen {
            let capability = target.capabilities[0].clone();
            let file = file(&format!("stolen-{number}"), "does its thing", &capability, "do", &capability);
            let now_ms = target.clock.now_ms();
            let variants = vec![agent(&owner, &owner.key, key.public(), &file, now_ms, now_ms).verified];
            let announcer = Announcer { key, clock: target.clock.clone(), variants, turn: 0.into() };
            announce(target, network, &communication, capability, announcer);
        }
        Adversary::new(communication)
    }
    .boxed()
}
