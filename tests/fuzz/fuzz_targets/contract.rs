//! Any bytes as a contract: what is accepted is accepted again as it was written, with the same digest.
#![no_main]

use althing_protocol::Contract;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(data) else { return };
    match Contract::from_value(&value) {
        // What is wrong with it is told with a field and what to do.
        Err(problems) => assert!(!problems.is_empty() && problems.iter().all(|problem| !problem.to_string().is_empty())),
        Ok(contract) => {
            let text = serde_json::to_value(&contract).expect("a contract is JSON");
            let again = Contract::from_value(&text).expect("what was written is read");
            assert_eq!(again, contract);
            assert_eq!(again.digest(), contract.digest());
        }
    }
});
