;; A robot arm that is not there: what a torque does to its speed and angle in 10 ms.
(module
  (import "althing" "input" (func $input (param i32) (result f64)))
  (import "althing" "output" (func $output (param i32 f64)))
  (global $angle (mut f64) (f64.const 0))
  (global $speed (mut f64) (f64.const 0))
  (func (export "turn")
    (global.set $speed (f64.add (global.get $speed) (f64.mul (call $input (i32.const 0)) (f64.const 0.01))))
    (global.set $angle (f64.add (global.get $angle) (f64.mul (global.get $speed) (f64.const 0.01))))
    (call $output (i32.const 0) (global.get $angle))
    (call $output (i32.const 1) (global.get $speed))))
