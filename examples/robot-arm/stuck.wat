;; Never comes to an end; its budget does.
(module (func (export "turn") (loop $for_ever (br $for_ever))))
