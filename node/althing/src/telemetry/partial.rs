//! What a collector says that it refused, in its answer to an export (OTLP: `partial_success`, of which the answers about traces,
//! metrics and logs have the same fields). Pure.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
struct ExportAnswer {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected: i64,
}

/// How many were refused, as an answer says; none if it says of none, or is no such answer.
pub(super) fn rejected(answer: &[u8]) -> Option<u64> {
    let said = ExportAnswer::decode(answer).ok()?.partial_success?.rejected;
    u64::try_from(said).ok().filter(|count| *count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_is_read_of_an_answer_and_of_nothing_else() {
        let minus_one: Vec<u8> = [&[0x0a, 11, 0x08][..], &[0xff; 9], &[1]].concat();
        let table: [(&[u8], Option<u64>); 12] = [
            (&[], None),
            (&[0x0a, 0], None),
            (&[0x0a, 2, 0x08, 0], None),
            (&[0x0a, 3, 0x08, 0xac, 0x02], Some(300)),
            (&[0x0a, 5, 0x12, 1, b'x', 0x08, 7], Some(7)),
            // Fields that are not known, before and within.
            (&[0x10, 1, 0x1d, 0, 0, 0, 0, 0x0a, 4, 0x18, 9, 0x08, 7], Some(7)),
            (&[0x11, 0, 0, 0, 0, 0, 0, 0, 0, 0x0a, 2, 0x08, 7], Some(7)),
            // Cut, too long, or something else.
            (&[0x0a, 3, 0x08], None),
            (&[0x0a, 2, 0x08, 0x80], None),
            (&[0xff; 12], None),
            (b"{}", None),
            (&minus_one, None),
        ];
        for (answer, wanted) in table {
            assert_eq!(rejected(answer), wanted, "{answer:?}");
        }
    }
}
