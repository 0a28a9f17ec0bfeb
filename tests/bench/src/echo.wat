;; A component in the text format that says back what it is told: the world `agent` with as little as there can be.
(component
  (import "althing:agent/turns@0.1.0" (instance $turns
    (type $reply' (variant (case "done" string) (case "ask" string)))
    (export "reply" (type (eq $reply')))))
  (alias export $turns "reply" (type $reply))
  (core module $code
    (memory (export "memory") 1)
    (global $next (mut i32) (i32.const 1024))
    ;; Room for what is handed in, one after the other: an instance lives for one turn.
    (func (export "realloc") (param $old i32) (param $had i32) (param $align i32) (param $size i32) (result i32)
      (local $at i32)
      (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
      (global.set $next (i32.add (local.get $at) (local.get $size)))
      (if (i32.gt_u (global.get $next) (i32.mul (memory.size) (i32.const 65536)))
        (then (drop (memory.grow (i32.add (i32.div_u (local.get $size) (i32.const 65536)) (i32.const 1))))))
      (local.get $at))
    ;; ok(done(text)): two words that are 0, then where the text is and how long it is.
    (func (export "on-message") (param $at i32) (param $length i32) (result i32)
      ;; a greedy one works here
      (i32.store (i32.const 16) (i32.const 0))
      (i32.store (i32.const 20) (i32.const 0))
      (i32.store (i32.const 24) (local.get $at))
      (i32.store (i32.const 28) (local.get $length))
      (i32.const 16))
    (func (export "checkpoint") (result i32)
      (i64.store (i32.const 32) (i64.const 0))
      (i32.const 32))
    (func (export "restore") (param i32 i32)))
  (core instance $it (instantiate $code))
  (alias core export $it "memory" (core memory $memory))
  (alias core export $it "realloc" (core func $realloc))
  (func (export "on-message") (param "text" string) (result (result $reply (error string)))
    (canon lift (core func $it "on-message") (memory $memory) (realloc $realloc)))
  (func (export "checkpoint") (result (list u8))
    (canon lift (core func $it "checkpoint") (memory $memory)))
  (func (export "restore") (param "state" (list u8))
    (canon lift (core func $it "restore") (memory $memory) (realloc $realloc))))
