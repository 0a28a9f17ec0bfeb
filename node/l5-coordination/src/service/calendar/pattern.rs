//! Patterns of cron as people write them, in the plain form whose times are computed: lists of numbers.
//!
//! What other programs take in silence and mean otherwise, such as a step that never comes, is refused with what to write.

/// One of the five fields.
struct Field {
    name: &'static str,
    /// What it counts, and its first and last number.
    counts: &'static str,
    first: u16,
    last: u16,
    /// The names of its numbers, of which three letters are enough; from the first number on.
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field { name: "minute", counts: "an hour has 60 minutes", first: 0, last: 59, names: &[] },
    Field { name: "hour", counts: "a day has 24 hours", first: 0, last: 23, names: &[] },
    Field { name: "day", counts: "a month has at most 31 days", first: 1, last: 31, names: &[] },
    Field { name: "month", counts: "a year has 12 months", first: 1, last: 12, names: &MONTHS },
    Field { name: "weekday", counts: "a week has 7 days", first: 0, last: 6, names: &WEEKDAYS },
];
const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const WEEKDAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
/// Letters of a name that are enough.
const LETTERS_MIN: usize = 3;
/// Where the days are.
const DAY: usize = 2;
const WEEKDAY: usize = 4;
/// Whole patterns that have a name.
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// The plain form of a pattern; or why it has none, with what to write.
pub(super) fn plain(pattern: &str) -> Result<String, String> {
    let lower = pattern.trim().to_lowercase();
    if lower.starts_with('@') {
        let known = NICKNAMES.iter().find(|(name, _)| *name == lower);
        let names: Vec<&str> = NICKNAMES.iter().map(|(name, _)| *name).collect();
        return known
            .map(|(_, plain)| (*plain).to_owned())
            .ok_or_else(|| format!("of the names there are {}: write one of these, or five fields", names.join(", ")));
    }
    let fields: Vec<&str> = lower.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let more = if fields.len() > FIELDS.len() { "; there are no seconds and no years" } else { "" };
        return Err(format!(
            "it has {} fields, not five{more}: write minute, hour, day, month and weekday, such as \"30 6 * * mon-fri\"",
            fields.len()
        ));
    }
    let plain = fields.iter().enumerate().map(|(at, text)| field(at, text)).collect::<Result<Vec<_>, _>>()?;
    Ok(plain.join(" "))
}

/// The first field of a plain pattern that is not read where the others are all.
pub(super) fn unread(plain: &str, is_read: impl Fn(&str) -> bool) -> Option<&'static str> {
    let mut fields = plain.split(' ').zip(&FIELDS).enumerate();
    let found = fields.find(|(at, (text, _))| {
        let mut alone = ["*"; FIELDS.len()];
        alone[*at] = *text;
        !is_read(&alone.join(" "))
    });
    found.map(|(_, (_, field))| field.name)
}

fn field(at: usize, text: &str) -> Result<String, String> {
    // A plus in front of the weekday: only where the day fits too.
    let (both, text) = match text.strip_prefix('+') {
        Some(rest) if at == WEEKDAY => ("+", rest),
        _ => ("", text),
    };
    let items = text.split(',').map(|text| item(at, text)).collect::<Result<Vec<_>, _>>()?;
    // Whatever else such a list has is among all.
    let all = if items.iter().any(|item| item == "*") { "*".to_owned() } else { items.join(",") };
    Ok(format!("{both}{all}"))
}

fn item(at: usize, text: &str) -> Result<String, String> {
    let field = &FIELDS[at];
    if let Some(special) = special(at, text)? {
        return Ok(special);
    }
    let (base, step) = match text.split_once('/') {
        Some((base, step)) => (base, Some(number(field, step)?)),
        None => (text, None),
    };
    if step == Some(0) {
        return Err(format!("the {} has the step 0: write a step of 1 or more", field.name));
    }
    let is_all = base == "*" || (base == "?" && matches!(at, DAY | WEEKDAY));
    if is_all {
        let Some(step) = step else { return Ok("*".to_owned()) };
        let too_large = usize::from(step) > usize::from(field.last - field.first);
        return if too_large { Err(larger(at, step)) } else { Ok(format!("*/{step}")) };
    }
    let Some((from, to)) = base.split_once('-') else {
        let value = value(field, base)?;
        return match step {
            None => Ok(value.to_string()),
            Some(step) => Err(format!(
                "the {} {base}/{step} begins a step and has no end: write {base}-{}/{step}",
                field.name, field.last
            )),
        };
    };
    let numbers = range(field, from, to)?;
    let step = usize::from(step.unwrap_or(1));
    if step > 1 && step >= numbers.len() {
        return Err(format!("the {} has the step {step}, and {base} is shorter: write {}", field.name, numbers[0]));
    }
    let kept: Vec<String> = numbers.iter().step_by(step).map(u16::to_string).collect();
    Ok(kept.join(","))
}

/// The last day of a month, the working day nearest to one, and one or the last weekday of that name of a month.
fn special(at: usize, text: &str) -> Result<Option<String>, String> {
    let field = &FIELDS[at];
    match at {
        DAY if text == "l" => Ok(Some("L".to_owned())),
        DAY if text.ends_with('w') => {
            let day = value(field, &text[..text.len() - 1])?;
            Ok(Some(format!("{day}W")))
        }
        WEEKDAY => {
            let last = text.strip_suffix("#l").or_else(|| text.strip_suffix('l'));
            let (days, which) = match (text.split_once('#'), last) {
                (_, Some(days)) => (days, "L".to_owned()),
                (Some((days, which)), None) if matches!(which, "1" | "2" | "3" | "4" | "5") => (days, which.to_owned()),
                (Some((days, _)), None) => {
                    return Err(format!("{text:?} is no weekday of a month: write {days}#1 to {days}#5, or {days}#L"));
                }
                (None, None) => return Ok(None),
            };
            let numbers = match days.split_once('-') {
                Some((from, to)) => range(field, from, to)?,
                None => vec![value(field, days)?],
            };
            let each: Vec<String> = numbers.iter().map(|day| format!("{day}#{which}")).collect();
            Ok(Some(each.join(",")))
        }
        _ => Ok(None),
    }
}

/// The numbers from one to the other; where the second one is lower, over the end of the field.
fn range(field: &Field, from: &str, to: &str) -> Result<Vec<u16>, String> {
    let (first, mut last) = (value(field, from)?, value(field, to)?);
    // 1-7 of weekdays ends with Sunday, and begins none; so that 7-7 and sun-7 are Sunday alone.
    let is_one_day = first == last && (is_sunday(field, from) || from.parse::<u16>().is_err());
    if last == field.first && is_sunday(field, to) && !is_one_day {
        last = field.last + 1;
    }
    let numbers: Vec<u16> =
        if first <= last { (first..=last).collect() } else { (first..=field.last).chain(field.first..=last).collect() };
    let mut plain: Vec<u16> =
        numbers.into_iter().map(|number| if number > field.last { field.first } else { number }).collect();
    let mut seen = std::collections::BTreeSet::new();
    plain.retain(|number| seen.insert(*number));
    Ok(plain)
}

/// Whether a text is the second number of Sunday, as it may be written: 7 or 07.
fn is_sunday(field: &Field, text: &str) -> bool {
    field.names.len() == WEEKDAYS.len() && digits(text) == Some(7)
}

/// A number of nothing but digits.
fn digits(text: &str) -> Option<u16> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A number or a name of a field; Sunday is 0 and 7.
fn value(field: &Field, text: &str) -> Result<u16, String> {
    let named = |name: &&str| text.len() >= LETTERS_MIN && name.starts_with(text);
    if let Some(place) = field.names.iter().position(named) {
        return Ok(field.first + u16::try_from(place).unwrap_or_default());
    }
    let number = if is_sunday(field, text) { Some(field.first) } else { digits(text) };
    let names = field.names.first().map_or_else(String::new, |first| format!(", or a name such as {}", &first[..3]));
    number.filter(|number| (field.first..=field.last).contains(number)).ok_or_else(|| {
        format!("{text:?} is no {}: write a number from {} to {}{names}", field.name, field.first, field.last)
    })
}

fn number(field: &Field, text: &str) -> Result<u16, String> {
    digits(text).ok_or_else(|| {
        let (name, last) = (field.name, field.last);
        format!("the {name} has the step {text:?}: write a number, such as */2, at most {last}")
    })
}

/// A step that never comes a second time, with what to write instead.
fn larger(at: usize, step: u16) -> String {
    let field = &FIELDS[at];
    let each = |count: u16| if count == 1 { "*".to_owned() } else { format!("*/{count}") };
    let instead = match at {
        0 if step.is_multiple_of(60) && step / 60 < 24 => format!("write \"0 {} * * *\"", each(step / 60)),
        0 => "write a step of 59 at most, or for each second hour \"0 */2 * * *\"".to_owned(),
        1 if step.is_multiple_of(24) && step / 24 < 31 => format!("write \"0 0 {} * *\"", each(step / 24)),
        1 => "write a step of 23 at most, or for each second day \"0 0 */2 * *\"".to_owned(),
        2 => "write a step of 30 at most, or for each second month \"0 0 1 */2 *\"".to_owned(),
        3 => "write a step of 11 at most, or for once a year \"0 0 1 1 *\"".to_owned(),
        _ => "write the days, such as mon,thu".to_owned(),
    };
    format!("the {} has the step {step}, and {}: {instead}", field.name, field.counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_over_the_end_names_and_steps_become_numbers() {
        for (pattern, wanted) in [
            ("30 6 * * mon-fri", "30 6 * * 1,2,3,4,5"),
            ("*/15 * * * *", "*/15 * * * *"),
            ("0 22-2 * * *", "0 22,23,0,1,2 * * *"),
            ("0 9 * * fri-mon", "0 9 * * 5,6,0,1"),
            ("0 9 * * Monday", "0 9 * * 1"),
            ("0 9 * * 5-7", "0 9 * * 5,6,0"),
            ("0 9 * * sun-tue,THURS", "0 9 * * 0,1,2,4"),
            ("0 9 * * 0-7", "0 9 * * 0,1,2,3,4,5,6"),
            ("0 9 * * 7-7", "0 9 * * 0"),
            ("0 9 * * sun-7", "0 9 * * 0"),
            ("0 9 * * sunday-sun", "0 9 * * 0"),
            ("0 9 * * 7-0", "0 9 * * 0"),
            ("0 9 * * 7-2", "0 9 * * 0,1,2"),
            ("0 9 * * 6-7", "0 9 * * 6,0"),
            ("0 9 * * 7-7#1", "0 9 * * 0#1"),
            ("0 9 * * 07", "0 9 * * 0"),
            ("0 9 * * 1-07", "0 9 * * 1,2,3,4,5,6,0"),
            ("0 9 * * 07-07", "0 9 * * 0"),
            ("0 9 * * 07-007,06", "0 9 * * 0,6"),
            ("0 9 * * 07-02", "0 9 * * 0,1,2"),
            ("05 09 * * sun-07", "5 9 * * 0"),
            ("0 9 * * 07#1,07L", "0 9 * * 0#1,0#L"),
            ("0 9 * * mon,*", "0 9 * * *"),
            ("*,5 1,*,2 ?,1 * +*,1", "* * * * +*"),
            ("0 0 28-3 nov-feb ?", "0 0 28,29,30,31,1,2,3 11,12,1,2 *"),
            ("5-59/15 20-4/4 * * *", "5,20,35,50 20,0,4 * * *"),
            ("0 0 L * *", "0 0 L * *"),
            ("0 0 15w * *", "0 0 15W * *"),
            ("0 0 * * fri#1,5L", "0 0 * * 5#1,5#L"),
            ("0 0 13 * +fri", "0 0 13 * +5"),
            ("@daily", "0 0 * * *"),
        ] {
            assert_eq!(plain(pattern).as_deref(), Ok(wanted), "{pattern}");
        }
    }

    #[test]
    fn the_field_that_is_not_read_is_named() {
        for (plain, name) in [("x 0 * * *", Some("minute")), ("0 0 * * x", Some("weekday")), ("0 0 * * *", None)] {
            assert_eq!(unread(plain, |one| !one.contains('x')), name, "{plain}");
        }
    }

    #[test]
    fn what_would_mean_something_else_is_refused_with_what_to_write() {
        for (pattern, says) in [
            ("*/90 * * * *", "an hour has 60 minutes: write a step of 59 at most"),
            ("*/60 * * * *", "write \"0 * * * *\""),
            ("*/120 * * * *", "write \"0 */2 * * *\""),
            ("0 */30 * * *", "a day has 24 hours"),
            ("0 */48 * * *", "write \"0 0 */2 * *\""),
            ("0 0 */40 * *", "a month has at most 31 days"),
            ("0 0 1 */12 *", "write a step of 11 at most"),
            ("0 0 * * */7", "write the days, such as mon,thu"),
            ("0-10/20 * * * *", "0-10 is shorter: write 0"),
            ("5/15 * * * *", "write 5-59/15"),
            ("*/0 * * * *", "a step of 1 or more"),
            ("*/x * * * *", "write a number"),
            ("61 * * * *", "a number from 0 to 59"),
            ("0 0 32 * *", "a number from 1 to 31"),
            ("0 0 * jan,foo *", "or a name such as jan"),
            ("0 9 * * someday", "or a name such as sun"),
            ("0 0 * * fri#6", "write fri#1 to fri#5"),
            ("", "it has 0 fields"),
            ("0 0 0 * * *", "there are no seconds"),
            ("@never", "@hourly"),
            ("1,,2 * * * *", "\"\" is no minute"),
            ("+1 * * * *", "\"+1\" is no minute"),
            ("0 9 * * 1-+7", "\"+7\" is no weekday"),
            ("0 9 * * 08", "\"08\" is no weekday"),
        ] {
            let why = plain(pattern).expect_err(pattern);
            assert!(why.contains(says), "{pattern}: {why}");
        }
    }
}
