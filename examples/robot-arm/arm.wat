;; Holds a robot arm at its target: torque = 40·(target − angle) − 12·speed, every job.
(module
  (import "althing" "input" (func $input (param i32) (result f64)))
  (import "althing" "output" (func $output (param i32 f64)))
  (func (export "turn")
    (call $output (i32.const 0)
      (f64.sub
        (f64.mul (f64.const 40) (f64.sub (call $input (i32.const 0)) (call $input (i32.const 1))))
        (f64.mul (f64.const 12) (call $input (i32.const 2)))))))
