;; Overnight work: adds up a long series, as many million terms as it is asked for. It takes what is left over.
(module
  (import "althing" "input" (func $input (param i32) (result f64)))
  (import "althing" "output" (func $output (param i32 f64)))
  (func (export "turn")
    (local $n i64) (local $last i64) (local $sum f64)
    (local.set $last (i64.trunc_sat_f64_s (f64.mul (call $input (i32.const 0)) (f64.const 1e6))))
    (block $done
      (loop $next
        (br_if $done (i64.ge_s (local.get $n) (local.get $last)))
        (local.set $n (i64.add (local.get $n) (i64.const 1)))
        (local.set $sum
          (f64.add (local.get $sum)
            (f64.div (f64.const 1) (f64.mul (f64.convert_i64_s (local.get $n)) (f64.convert_i64_s (local.get $n))))))
        (br $next)))
    (call $output (i32.const 0) (local.get $sum))))
