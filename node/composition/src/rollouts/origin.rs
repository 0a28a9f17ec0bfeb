//! How conversations begin.

use althing_calls::NewCall;

/// Between the group and its channel in a row: neither has it.
const MARK: char = '/';
/// Behind all else in a row of what a stranger began: neither has it.
const STRANGER: char = '!';

/// How a conversation began: what decides its version for as long as it goes on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Origin {
    /// When, Unix milliseconds.
    pub at_ms: u64,
    /// The id of the group whose work its first call was.
    pub group: Option<String>,
    /// The channel of that group by which it came.
    pub channel: Option<String>,
    /// Whether somebody else than the owner of the node began it.
    pub is_stranger: bool,
}

impl Origin {
    /// What a call begins now, whose time is not known yet.
    pub fn of(call: &NewCall<'_>, is_stranger: bool) -> Origin {
        let (group, channel) = (call.group.map(str::to_owned), call.channel.map(str::to_owned));
        Origin { at_ms: 0, group, channel, is_stranger }
    }

    /// What a share of channels is a share of: a channel of one group is not that of another one, whatever both are called.
    pub fn channel_of_group(&self) -> Option<String> {
        Some(format!("{}{MARK}{}", self.group.as_ref()?, self.channel.as_ref()?))
    }

    /// As it is on disk: the time, and then the group, with the channel behind it, and a mark of strangers.
    pub fn row(&self) -> Vec<u8> {
        let mut work = self.channel_of_group().or_else(|| self.group.clone()).unwrap_or_default();
        work.extend(self.is_stranger.then_some(STRANGER));
        [self.at_ms.to_be_bytes().as_slice(), work.as_bytes()].concat()
    }

    /// Reads what [`Origin::row`] gives; none where it is shorter than the time.
    pub fn of_row(row: &[u8]) -> Option<Origin> {
        let (at_ms, work) = row.split_first_chunk::<8>()?;
        let text = String::from_utf8_lossy(work);
        let (work, is_stranger) = text.strip_suffix(STRANGER).map_or((&*text, false), |work| (work, true));
        let (group, channel) = work.split_once(MARK).unwrap_or((work, ""));
        let named = |name: &str| (!name.is_empty()).then(|| name.to_owned());
        let at_ms = u64::from_be_bytes(*at_ms);
        Some(Origin { at_ms, group: named(group), channel: named(channel), is_stranger })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_it_was_written_also_by_a_build_that_knew_no_channels() {
        let of = |group: Option<&str>, channel: Option<&str>| {
            let owned = |name: Option<&str>| name.map(str::to_owned);
            let (group, channel) = (owned(group), owned(channel));
            Origin { at_ms: 1_800_000_000_000, group, channel, is_stranger: false }
        };
        let id = "urn:althing:zQmNznVXGMPfTm7xjEhKQagWEyGa5FRZ2CeXsoDbSoQSVd7";
        let group = Some(id);
        for origin in [of(None, None), of(group, None), of(group, Some("web"))] {
            let by_stranger = Origin { is_stranger: true, ..origin.clone() };
            assert_eq!(Origin::of_row(&by_stranger.row()), Some(by_stranger));
            assert_eq!(Origin::of_row(&origin.row()), Some(origin));
        }
        let before = [1_800_000_000_000_u64.to_be_bytes().as_slice(), id.as_bytes()].concat();
        assert_eq!(Origin::of_row(&before), Some(of(group, None)));
        assert_eq!(Origin::of_row(&before[..7]), None);
    }
}
