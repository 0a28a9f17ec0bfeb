//! A name server that knows one TXT record.

use std::net::UdpSocket;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The TXT record that it answers with, if it has one.
pub type Shown = Arc<Mutex<Option<String>>>;

/// Type TXT.
const TXT: u16 = 16;

/// Answers on this socket until `shown` is held by nobody else. Whatever else is asked for is not there.
pub fn serve(socket: UdpSocket, name: &'static str) -> Shown {
    let shown = Shown::default();
    let held = shown.clone();
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a socket takes a limit");
    std::thread::spawn(move || {
        let mut question = [0; 1_500];
        while Arc::strong_count(&held) > 1 {
            let Ok((length, from)) = socket.recv_from(&mut question) else { continue };
            let text = held.lock().expect("no holder panics").clone();
            if let Some(answer) = answer(&question[..length], name, text.as_deref()) {
                // Who asked asks again if it does not arrive.
                let _ = socket.send_to(&answer, from);
            }
        }
    });
    shown
}

/// RFC 1035 §4: the header, the question again, and the record if that is what is asked for.
fn answer(question: &[u8], name: &str, text: Option<&str>) -> Option<Vec<u8>> {
    let (header, rest) = question.split_at_checked(12)?;
    let mut wanted: Vec<u8> = Vec::new();
    for label in name.split('.') {
        wanted.push(u8::try_from(label.len()).ok()?);
        wanted.extend(label.bytes());
    }
    wanted.push(0);
    let end = rest.iter().position(|byte| *byte == 0)? + 1;
    let (asked, kind) = (rest.get(..end)?, u16::from_be_bytes([*rest.get(end)?, *rest.get(end + 1)?]));
    let text = text.filter(|_| kind == TXT && asked.eq_ignore_ascii_case(&wanted));
    let mut answer = header[..2].to_vec();
    answer.extend([0x81, 0x80, 0, 1, 0, u8::from(text.is_some()), 0, 0, 0, 0]);
    answer.extend(rest.get(..end + 4)?);
    if let Some(text) = text {
        let length = u8::try_from(text.len()).ok()?;
        answer.extend([0xc0, 12, 0, 16, 0, 1, 0, 0, 0, 0]);
        answer.extend((u16::from(length) + 1).to_be_bytes());
        answer.push(length);
        answer.extend(text.bytes());
    }
    Some(answer)
}
