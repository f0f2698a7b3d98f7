package workload

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"narad/sim"
	"narad/sim/model"
)

var (
	listed  = regexp.MustCompile(`\[[^\]]*\]`)                     // lists: of places, of offsets
	numbers = regexp.MustCompile(`-?\b(0x[0-9a-f]+|\d[\d.a-zµ]*)`) // also durations: 1m2.5s
	names   = regexp.MustCompile(`\b(n|topic|key|m)\d+\b|\bp\d{5}\b`)
)

// Fingerprint names a failure so that the same one in another run has the same name: the invariant and what was
// said, without numbers, names of nodes and topics, and lists. nil has the fingerprint "".
func Fingerprint(err error) string {
	if err == nil {
		return ""
	}
	var violation *model.Violation
	var crash *sim.PanicError
	var deadlock *sim.DeadlockError
	switch {
	case errors.As(err, &violation):
		return violation.Invariant + ": " + plain(violation.Detail)
	case errors.As(err, &crash):
		return "panic: " + plain(fmt.Sprint(crash.Value))
	case errors.As(err, &deadlock):
		return "deadlock"
	case errors.Is(err, sim.ErrTime):
		return sim.ErrTime.Error()
	case errors.Is(err, sim.ErrSteps):
		return sim.ErrSteps.Error()
	}
	return plain(err.Error())
}

// plain is the first sentence of a text without what varies between runs.
func plain(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	text = listed.ReplaceAllString(text, "[…]")
	text = names.ReplaceAllString(text, "$1")
	text = numbers.ReplaceAllString(text, "N")
	text, _, _ = strings.Cut(text, ";")
	return strings.TrimSpace(text)
}
