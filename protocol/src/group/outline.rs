//! What a batch says of itself before its signature is verified: enough to refuse most of what strangers could send.

use minicbor::Decoder;
use minicbor::decode::Error;

use super::Author;
use crate::identity::PublicKey;
use crate::limits::OBJECT_BYTES_MAX;
use crate::object::{Kind, ObjectError};
use crate::sign1;

/// The numbers of the commands that begin a group, and that make a node a member.
const FOUND: u32 = 0;
const JOIN: u32 = 1;

/// A batch at a glance. Nothing of it is proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outline {
    /// The epoch for which it was signed.
    pub epoch: u64,
    /// In whose name.
    pub author: Author,
    /// By which key.
    pub signer: PublicKey,
    /// The number of its command, if it has one only.
    pub alone: Option<u32>,
}

impl Outline {
    /// Reads the beginning of a batch. At most two keys are looked at, however many its commands name.
    ///
    /// # Errors
    /// It cannot be a batch.
    pub fn read(signed: &[u8]) -> Result<Outline, ObjectError> {
        let envelope = sign1::read(signed, OBJECT_BYTES_MAX)?;
        let read = begins(envelope.payload()).map_err(|error| ObjectError::Shape(error.to_string()))?;
        let (epoch, author, alone) = read;
        Ok(Outline { epoch, author, signer: envelope.signer(), alone })
    }

    /// Whether it only founds a group, or only has its author join one.
    #[must_use]
    pub fn introduces(&self) -> bool {
        matches!(self.alone, Some(FOUND | JOIN))
    }
}

/// The epoch, the author, and the number of the only command.
fn begins(payload: &[u8]) -> Result<(u64, Author, Option<u32>), Error> {
    let mut d = Decoder::new(payload);
    let is_batch = d.map()? == Some(6) && d.u32()? == 0 && d.decode::<Kind>()? == Kind::GroupCommands;
    if !is_batch {
        return Err(Error::message("no batch of commands"));
    }
    member(&mut d, 1)?;
    let epoch = d.u64()?;
    member(&mut d, 2)?;
    let author = d.decode()?;
    for key in [3, 4] {
        member(&mut d, key)?;
        d.u64()?;
    }
    member(&mut d, 5)?;
    if d.array()? != Some(1) {
        return Ok((epoch, author, None));
    }
    d.array()?;
    Ok((epoch, author, Some(d.u32()?)))
}

fn member(d: &mut Decoder<'_>, key: u32) -> Result<(), Error> {
    if d.u32()? == key { Ok(()) } else { Err(Error::message("another member than that of a batch")) }
}

#[cfg(test)]
mod tests {
    use super::super::{Batch, Command, GroupId};
    use super::*;
    use crate::{SecretKey, object};

    fn signed(author: Author, commands: Vec<Command>, key: &SecretKey) -> Vec<u8> {
        let scope = Batch::scope(GroupId::from_digest([3; 32]));
        object::sign(Batch::new(7, author, 1, 2, commands), "test", &scope, key).expect("a batch").bytes
    }

    /// SG-14
    #[test]
    fn the_outline_of_a_batch_is_read_without_its_commands() {
        let (key, other) = (SecretKey::from_seed(&[1; 32]), SecretKey::from_seed(&[2; 32]).public());
        let author = Author::Node(other);
        let leaves = Outline::read(&signed(author, vec![Command::Leave], &key)).expect("a batch");
        assert_eq!(leaves, Outline { epoch: 7, author, signer: key.public(), alone: Some(2) });
        assert!(!leaves.introduces());
        let several = Outline::read(&signed(author, vec![Command::Leave, Command::Tick], &key)).expect("a batch");
        assert!(several.alone.is_none() && !several.introduces());
        for (number, introduces) in [(FOUND, true), (JOIN, true), (2, false)] {
            assert_eq!(Outline { alone: Some(number), ..leaves }.introduces(), introduces, "{number}");
        }
        assert!(Outline::read(b"nothing").is_err());
        let charter = crate::group::Dissolution::new(GroupId::from_digest([3; 32]), [1; 32]);
        let signed = object::sign(charter, "test", "", &key).expect("signed").bytes;
        assert!(matches!(Outline::read(&signed), Err(ObjectError::Shape(_))), "no batch");
    }
}
