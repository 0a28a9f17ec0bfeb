//! Has a key that its owner gave up, and shows an agent of that owner's with it, granted to itself.

use std::net::IpAddr;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::faces::{Faces, show};
use super::{Loose, Target, join, own_key};
use crate::mesh::{agent, file};

pub(super) fn start(target: Target, number: u32, ip: Option<IpAddr>) -> BoxFuture<'static, Loose> {
    async move {
        let key = own_key(number);
        let (network, communication) = join(&target, &key, number, ip).await;
        let stolen = target.given_up.get(number as usize % target.given_up.len().max(1)).cloned();
        // Before anybody gave one up there is nothing to steal.
        if let Some(owner) = stolen {
            let capability = target.capabilities[0].clone();
            let file = file(&format!("stolen-{number}"), "does its thing", &capability, "do", &capability);
            let now_ms = target.clock.now_ms();
            let faces = vec![agent(&owner, &owner.key, key.public(), &file, now_ms, now_ms).verified];
            let faces = Faces { key, clock: target.clock.clone(), faces, turn: 0.into() };
            show(target, network, &communication, capability, faces);
        }
        Loose::new(communication)
    }
    .boxed()
}
