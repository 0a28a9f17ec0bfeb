//! What a collector says that it refused, in its answer to an export (OTLP: `partial_success`, of which the answers about traces,
//! metrics and logs have the same fields). Pure.

/// The field of an answer that holds what was refused, and the field of the count in that.
const PARTIAL_SUCCESS: u64 = 1;
const REJECTED: u64 = 1;
/// How a field is written (protocol buffers): a number, eight bytes, bytes with their length before, four bytes.
const NUMBER: u64 = 0;
const EIGHT: u64 = 1;
const LENGTH: u64 = 2;
const FOUR: u64 = 5;

/// A field: its number, and what it holds.
enum Field<'a> {
    Number(u64, u64),
    Bytes(u64, &'a [u8]),
    Other,
}

/// How many were refused, as an answer says; none if it does not say so, or is no such answer.
pub(super) fn rejected(mut answer: &[u8]) -> Option<u64> {
    let mut count = None;
    while !answer.is_empty() {
        let Field::Bytes(PARTIAL_SUCCESS, mut partial) = field(&mut answer)? else { continue };
        while !partial.is_empty() {
            if let Field::Number(REJECTED, said) = field(&mut partial)? {
                count = Some(said);
            }
        }
    }
    // It is a signed number, and less than nothing is not refused.
    count.filter(|count| i64::try_from(*count).is_ok())
}

/// Takes a field off the front.
fn field<'a>(bytes: &mut &'a [u8]) -> Option<Field<'a>> {
    let key = number(bytes)?;
    Some(match key & 7 {
        NUMBER => Field::Number(key >> 3, number(bytes)?),
        LENGTH => {
            let length = usize::try_from(number(bytes)?).ok()?;
            Field::Bytes(key >> 3, taken(bytes, length)?)
        }
        EIGHT => taken(bytes, 8).map(|_| Field::Other)?,
        FOUR => taken(bytes, 4).map(|_| Field::Other)?,
        _ => return None,
    })
}

fn taken<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (first, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(first)
}

/// Takes a number off the front: seven bits in each byte, the lowest first.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *taken(bytes, 1)?.first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
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
            (&[0x0a, 2, 0x08, 0], Some(0)),
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
