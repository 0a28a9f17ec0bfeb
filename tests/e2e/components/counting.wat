;; Told "RUN STEPS", it calls the tool count/add STEPS times, one digit, and says what it heard, as the model of counting.py does. It
;; saves how many it made after each. A result that is not the tool's own is [told].
(component
  (import "althing:agent/kernel@0.1.0" (instance $kernel
    (export "say" (func (param "text" string)))
    (export "invoke-tool"
      (func (param "tool" string) (param "arguments" string) (result (result string (error string)))))
    (export "checkpoint" (func (param "state" (list u8)) (result (result (error string)))))))
  (import "althing:agent/turns@0.1.0" (instance $turns
    (type $reply' (variant (case "done" string) (case "ask" string)))
    (export "reply" (type (eq $reply')))))
  (alias export $turns "reply" (type $reply))
  (alias export $kernel "say" (func $host-say))
  (alias export $kernel "invoke-tool" (func $host-invoke))
  (alias export $kernel "checkpoint" (func $host-checkpoint))
  (core module $room
    (memory (export "memory") 4)
    (data (i32.const 256) "count/add")
    (data (i32.const 272) "heard")
    (data (i32.const 288) " [step 0]")
    (data (i32.const 304) " [told]")
    (data (i32.const 320) " [failed]")
    (data (i32.const 336) "\",\"step\":")
    (data (i32.const 512) "{\"run\":\"")
    (global $free (mut i32) (i32.const 4096))
    (func (export "realloc") (param i32 i32 i32) (param $bytes i32) (result i32)
      (local $at i32)
      (local.set $at (global.get $free))
      (global.set $free (i32.and (i32.add (i32.add (local.get $at) (local.get $bytes)) (i32.const 7)) (i32.const -8)))
      (local.get $at)))
  (core instance $mem (instantiate $room))
  (alias core export $mem "memory" (core memory $memory))
  (alias core export $mem "realloc" (core func $realloc))
  (core func $say (canon lower (func $host-say) (memory $memory)))
  (core func $invoke (canon lower (func $host-invoke) (memory $memory) (realloc $realloc)))
  (core func $checkpoint (canon lower (func $host-checkpoint) (memory $memory) (realloc $realloc)))
  (core module $code
    (import "host" "memory" (memory 4))
    (import "host" "say" (func $say (param i32 i32)))
    (import "host" "invoke" (func $invoke (param i32 i32 i32 i32 i32)))
    (import "host" "checkpoint" (func $checkpoint (param i32 i32 i32)))
    (global $done (mut i32) (i32.const 0))
    ;; The digit after "step " in a result; 0 where there is none.
    (func $step (param $at i32) (param $end i32) (result i32)
      (block $none
        (loop $next
          (br_if $none (i32.ge_u (i32.add (local.get $at) (i32.const 5)) (local.get $end)))
          (if (i32.and
                (i32.eq (i32.load align=1 (local.get $at)) (i32.const 0x70657473))
                (i32.eq (i32.load8_u offset=4 (local.get $at)) (i32.const 0x20)))
            (then (return (i32.load8_u offset=5 (local.get $at)))))
          (local.set $at (i32.add (local.get $at) (i32.const 1)))
          (br $next)))
      (i32.const 0))
    ;; Says what came of a call.
    (func $tell
      (local $digit i32)
      (if (i32.load8_u (i32.const 416)) (then (call $say (i32.const 320) (i32.const 9)) (return)))
      (local.set $digit
        (call $step (i32.load (i32.const 420)) (i32.add (i32.load (i32.const 420)) (i32.load (i32.const 424)))))
      (if (local.get $digit)
        (then (i32.store8 (i32.const 295) (local.get $digit)) (call $say (i32.const 288) (i32.const 9)))
        (else (call $say (i32.const 304) (i32.const 7)))))
    (func (export "on-message") (param $at i32) (param $length i32) (result i32)
      (local $run i32)
      (local $steps i32)
      ;; Before the blank and the last digit.
      (local.set $run (i32.sub (local.get $length) (i32.const 2)))
      (local.set $steps
        (i32.sub (i32.load8_u (i32.add (local.get $at) (i32.sub (local.get $length) (i32.const 1)))) (i32.const 48)))
      (memory.copy (i32.const 520) (local.get $at) (local.get $run))
      (memory.copy (i32.add (i32.const 520) (local.get $run)) (i32.const 336) (i32.const 9))
      (i32.store8 (i32.add (i32.const 530) (local.get $run)) (i32.const 125))
      (if (i32.eqz (global.get $done)) (then (call $say (i32.const 272) (i32.const 5))))
      (block $over
        (loop $next
          (br_if $over (i32.ge_u (global.get $done) (local.get $steps)))
          (i32.store8 (i32.add (i32.const 529) (local.get $run)) (i32.add (global.get $done) (i32.const 49)))
          (call $invoke
            (i32.const 256) (i32.const 9) (i32.const 512) (i32.add (local.get $run) (i32.const 19)) (i32.const 416))
          (call $tell)
          (global.set $done (i32.add (global.get $done) (i32.const 1)))
          (i32.store8 (i32.const 384) (global.get $done))
          (call $checkpoint (i32.const 384) (i32.const 1) (i32.const 432))
          (br $next)))
      (i64.store (i32.const 16) (i64.const 0))
      (i64.store (i32.const 24) (i64.const 0))
      (i32.const 16))
    (func (export "checkpoint") (result i32) (i64.store (i32.const 32) (i64.const 0)) (i32.const 32))
    (func (export "restore") (param $at i32) (param $length i32)
      (if (local.get $length) (then (global.set $done (i32.load8_u (local.get $at)))))))
  (core instance $it (instantiate $code
    (with "host" (instance
      (export "memory" (memory $memory))
      (export "say" (func $say))
      (export "invoke" (func $invoke))
      (export "checkpoint" (func $checkpoint))))))
  (func (export "on-message") (param "text" string) (result (result $reply (error string)))
    (canon lift (core func $it "on-message") (memory $memory) (realloc $realloc)))
  (func (export "checkpoint") (result (list u8)) (canon lift (core func $it "checkpoint") (memory $memory)))
  (func (export "restore") (param "state" (list u8))
    (canon lift (core func $it "restore") (memory $memory) (realloc $realloc))))
