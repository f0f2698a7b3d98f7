package workload

import (
	"os"
	"reflect"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/sim"
	"narad/sim/disk"
)

// docs/simulator.md lists all that a seed draws: every field of a plan, of its habits, its topics, its scheduling and its disk, and
// nothing that is not one.
func TestWhatIsDrawnIsListed(t *testing.T) {
	text, err := os.ReadFile("../../docs/simulator.md")
	require.NoError(t, err)
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Za-z.]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		require.False(t, listed[m[1]], "%s is listed twice", m[1])
		listed[m[1]] = true
	}
	var names []string
	add := func(prefix string, of any, but ...string) {
		skip := map[string]bool{}
		for _, b := range but {
			skip[b] = true
		}
		v := reflect.TypeOf(of)
		for i := range v.NumField() {
			if name := v.Field(i).Name; !skip[name] {
				names = append(names, prefix+name)
			}
		}
	}
	p := plan{}
	add("", p, "Habits", "Policy", "Latency", "Topics")
	add("Habits.", p.Habits)
	add("Policy.", p.Policy, "ChangeGap")
	add("Latency.", p.Latency, "Meta")
	names = append(names, "Topics", "Topics.Partitions", "Topics.Visibility", "Topics.MaxInFlight", "Topics.MaxAckedAhead", "Topics.RetentionMs")
	for _, name := range names {
		require.True(t, listed[name], "docs/simulator.md does not say how %s is drawn", name)
		delete(listed, name)
	}
	require.Empty(t, listed, "docs/simulator.md lists what is not drawn")
}

// Each seed draws a mix of its own: of what there is to draw, plans differ in nearly everything.
func TestPlansDiffer(t *testing.T) {
	values := map[string]map[any]bool{}
	var see func(prefix string, v reflect.Value)
	see = func(prefix string, v reflect.Value) {
		for i := range v.NumField() {
			name, f := prefix+v.Type().Field(i).Name, v.Field(i)
			switch f.Kind() {
			case reflect.Struct:
				see(name+".", f)
			case reflect.Slice:
				if values[name] == nil {
					values[name] = map[any]bool{}
				}
				values[name][f.Len()] = true
			default:
				if values[name] == nil {
					values[name] = map[any]bool{}
				}
				values[name][f.Interface()] = true
			}
		}
	}
	for seed := uint64(1); seed <= 600; seed++ {
		policy := policyOf(seed, NodeProfile)
		see("", reflect.ValueOf(flavoured(sim.New(sim.Options{Seed: seed, Policy: policy}), seed, policy, NodeProfile)))
	}
	fixed := map[string]bool{"Machines": true, "Parked": true, "Policy.ChangeGap": true, "Latency.Meta.Min": true, "Latency.Meta.Max": true, "Latency.Stall.Max": true}
	for name, seen := range values { // order-free: each on its own
		require.True(t, fixed[name] || len(seen) > 1, "%s is the same in every world", name)
	}
	require.Len(t, values["Personality"], len([]disk.Personality{disk.Adversarial, disk.Ordered}))
}
