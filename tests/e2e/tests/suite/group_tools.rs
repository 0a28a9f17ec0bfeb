//! Tasks of groups whose agents call tools: what a server of tools is told of the task.

use std::time::Duration;

use althing_e2e::{Machine, text, until};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(60);

/// As much of MCP as a client asks for; keeps each call as it came, and fails while there is a file `fails`.
const SERVER: &str = r#"
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*)
      echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"stub","version":"1"}}}' ;;
    *'"tools/list"'*)
      echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"tools":[{"name":"pay","description":"Pays.","inputSchema":{"type":"object","properties":{"whom":{"type":"string"}}}}]}}' ;;
    *'"tools/call"'*)
      printf '%s\n' "$line" >> calls
      error=false; [ -e fails ] && error=true && rm fails
      echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"isError":'"$error"',"content":[{"type":"text","text":"paid"}]}}' ;;
    *'"id":'*)
      echo '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"no such method"}}' ;;
  esac
done
"#;

/// The calls that reached the server: their parameters.
fn calls(machine: &Machine) -> Vec<Value> {
    let kept = std::fs::read_to_string(machine.folder().join("calls")).unwrap_or_default();
    kept.lines().map(|line| serde_json::from_str::<Value>(line).expect("a message")["params"].clone()).collect()
}

#[test]
fn a_tool_is_told_the_fencing_token_and_a_key_that_is_the_same_for_each_attempt() {
    let machine = Machine::new();
    machine.write("server.sh", SERVER);
    let _node = machine.up_alone(&[]);
    let file = json!({
        "name": "payer",
        "description": "Pays",
        "runtime": { "native": { "builtin": "tools" } },
        "tools": { "bank": { "command": ["/bin/sh", "server.sh"] } },
        "contract": { "class": { "latency": "srt" }, "capabilities": ["bank/pay"] },
    });
    machine.add("payer", &file.to_string());
    // A call for no task of a group tells nothing, whatever its sender says of one.
    let said = machine.run(&["call", "payer", "Ada"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(calls(&machine)[0]["_meta"]["dev.althing/group-task"], Value::Null, "{:?}", calls(&machine));

    let group = text(&machine.json(&["group", "create", "team"])["id"]);
    // The first attempt fails.
    machine.write("fails", "");
    let task = text(&machine.json(&["task", "submit", "team", "--agent", "payer", "Bob"])["task"]);
    until(SOON, "it is done", || machine.json(&["task", "show", "team", &task])["state"] == "completed");
    let told: Vec<Value> =
        calls(&machine)[1..].iter().map(|call| call["_meta"]["dev.althing/group-task"].clone()).collect();
    assert_eq!(told.len(), 2, "two attempts: {told:?}");
    for one in &told {
        assert_eq!((one["group"].as_str(), one["task"].as_str()), (Some(group.as_str()), Some(task.as_str())));
        assert_eq!(one["idempotencyKey"].as_str(), Some(task.as_str()), "{one}");
    }
    assert!(told[0]["token"].as_u64() < told[1]["token"].as_u64(), "{told:?}");
    assert_eq!(told[1]["token"], machine.json(&["task", "show", "team", &task])["fencingToken"]);
}
