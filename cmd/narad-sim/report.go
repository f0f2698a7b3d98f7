package main

import (
	"errors"

	"narad/sim/workload"
)

func show(c workload.Case, a failureFlags) error { return errors.New("not yet") }
