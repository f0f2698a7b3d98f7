package fuzz

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/sim"
	"narad/sim/workload"
)

// worldLimits keep a world small, so that many of them run in a second: what is left to find needs few clients and few faults.
var worldLimits = workload.Limits{
	Operations: 150, Strikes: 6, Traffic: 5 * time.Second, Producers: 3, Consumers: 3, Topics: 2, Partitions: 3, Size: 512, Policy: 1,
}

// worldSteps bounds a world. A tame one takes some thousands.
const worldSteps = 400_000

// worldProfiles are the kinds of worlds that the limits leave something of.
var worldProfiles = []workload.Profile{
	workload.NodeProfile, workload.CancelProfile, workload.PinnedProfile, workload.CapsProfile, workload.SlowDiskProfile, workload.ReadErrorProfile,
	workload.LockstepProfile, workload.DiskFaultProfile, workload.FewFilesProfile, workload.ChurnProfile, workload.GapProfile, workload.RotProfile,
}

// worldOf reads a world from bytes: its profile; what comes after the last choice, 0 for the tamest choices, otherwise those of
// a seed; and the choices as varints, so that most are one byte and a byte that changes moves no other choice.
func worldOf(b []byte) (o workload.Options, ok bool) {
	if len(b) < 2 {
		return o, false
	}
	limits := worldLimits
	o = workload.Options{Seed: 1, Profile: worldProfiles[int(b[0])%len(worldProfiles)], Tail: uint64(b[1]), Limits: &limits, MaxSteps: worldSteps, Choices: []uint32{}}
	for b = b[2:]; len(b) > 0; {
		v, n := binary.Uvarint(b)
		if n <= 0 { // cut, or too long: take the byte as it is
			v, n = uint64(b[0]), 1
		}
		o.Choices, b = append(o.Choices, uint32(v)), b[n:]
	}
	return o, true
}

// bytesOf is the inverse of worldOf.
func bytesOf(profile int, tail byte, choices []uint32) []byte {
	b := []byte{byte(profile), tail}
	for _, c := range choices {
		b = binary.AppendUvarint(b, uint64(c))
	}
	return b
}

// worldMost bounds the bytes of a world: more choices than a world of these limits draws.
const worldMost = 1 << 15

// FuzzWorld runs worlds whose every decision comes from the input, so that the fuzzer's coverage decides where to look next.
// A violation is written as a plan, which narad-sim shrinks, explains and draws.
func FuzzWorld(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		o, ok := worldOf(b[:min(len(b), worldMost)])
		if !ok {
			return
		}
		r := workload.Run(o)
		if r.Err == nil || errors.Is(r.Err, sim.ErrSteps) {
			return
		}
		t.Fatalf("%v\n%s", r.Err, keepPlan(t, o, r))
	})
}

// keepPlan writes the plan of a world that failed and says how to go on.
func keepPlan(t *testing.T, o workload.Options, r workload.Result) string {
	plan := workload.NewCase(o, r)
	path := filepath.Join(os.TempDir(), fmt.Sprintf("narad-fuzz-%016x.json", r.Hash))
	out, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, plan.Write(out))
	require.NoError(t, out.Close())
	return "reproduce: go run ./cmd/narad-sim -plan " + path + " -explain"
}

// A world is the same however often it is read from its bytes, and any bytes are one.
func TestWorldOf(t *testing.T) {
	choices := []uint32{0, 1, 127, 128, 1 << 31, 3}
	o, ok := worldOf(bytesOf(1, 0, choices))
	require.True(t, ok)
	require.Equal(t, choices, []uint32(o.Choices))
	require.Equal(t, workload.CancelProfile, o.Profile)
	_, ok = worldOf([]byte{1})
	require.False(t, ok)
	o, ok = worldOf([]byte{0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 5})
	require.True(t, ok)
	require.NotEmpty(t, o.Choices)
}

// The corpus is made of worlds in which much happens.
func TestWorldCorpus(t *testing.T) {
	if os.Getenv("NARAD_CORPUS") != "" {
		makeWorldCorpus(t)
	}
	files, err := filepath.Glob("testdata/fuzz/FuzzWorld/*")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	acked, faults := 0, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		_, quoted, _ := strings.Cut(strings.TrimSuffix(string(text), ")\n"), "[]byte(")
		b, err := strconv.Unquote(quoted)
		require.NoError(t, err, file)
		o, ok := worldOf([]byte(b))
		require.True(t, ok, file)
		r := workload.Run(o)
		require.NoError(t, r.Err, file)
		acked, faults = acked+r.Acked, faults+r.Faults()
	}
	require.Greater(t, acked, 5*len(files), "choices mean something else by now: NARAD_CORPUS=1 makes the corpus anew")
	require.Greater(t, faults, len(files))
}

// makeWorldCorpus picks, of each profile, a world with many goals on few choices. NARAD_CORPUS=1 asks for it; fewer choices make
// another world of it, so what has no faults left is to be deleted.
func makeWorldCorpus(t *testing.T) {
	require.NoError(t, os.MkdirAll("testdata/fuzz/FuzzWorld", 0o755))
	for i, profile := range worldProfiles {
		limits := worldLimits
		var best workload.Result
		for seed := range uint64(40) {
			r := workload.Run(workload.Options{Seed: 1, Tail: seed + 1, Choices: []uint32{}, Profile: profile, Limits: &limits, Record: true, MaxSteps: worldSteps})
			if r.Err == nil && len(r.Goals)*len(best.Choices) >= len(best.Goals)*len(r.Choices) && r.Faults() > 0 && len(r.Goals) > 4 {
				best = r
			}
		}
		if best.Choices == nil {
			continue
		}
		text := fmt.Sprintf("go test fuzz v1\n[]byte(%q)\n", bytesOf(i, 0, best.Choices[:min(len(best.Choices), 1200)]))
		require.NoError(t, os.WriteFile("testdata/fuzz/FuzzWorld/"+string(profile), []byte(text), 0o644))
	}
}
