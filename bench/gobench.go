package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// goBench runs the benchmarks of packages whose names begin with BenchmarkPERF and returns the least of several runs, as
// what disturbs only adds: nanoseconds and allocations an operation, by the name without that front and without the number of processors. It needs the source and Go.
func goBench(o Options, packages ...string) (ns, allocs map[string]float64, err error) {
	args := append([]string{"test", "-run", "^$", "-bench", "^BenchmarkPERF", "-benchmem", "-count", pick(o, "1", "3"), "-benchtime", pick(o, "20ms", "200ms")}, packages...)
	out, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		return nil, nil, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	all, allAllocs := map[string][]float64{}, map[string][]float64{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		name, per, perAllocs, ok := parseBench(lines.Text())
		if !ok {
			continue
		}
		all[name] = append(all[name], per)
		allAllocs[name] = append(allAllocs[name], perAllocs)
	}
	return least(all), least(allAllocs), nil
}

func least(lists map[string][]float64) map[string]float64 {
	m := map[string]float64{}
	for name, list := range lists {
		m[name] = slices.Min(list)
	}
	return m
}

// parseBench reads a line like
//
//	BenchmarkPERF02/scan-2   100   550.1 ns/op   0 B/op   0 allocs/op
func parseBench(line string) (name string, ns, allocs float64, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 4 || !strings.HasPrefix(fields[0], "BenchmarkPERF") {
		return "", 0, 0, false
	}
	name = strings.TrimPrefix(fields[0], "BenchmarkPERF")
	if i := strings.LastIndexByte(name, '-'); i >= 0 {
		if _, err := strconv.Atoi(name[i+1:]); err == nil {
			name = name[:i]
		}
	}
	for i := 2; i+1 < len(fields); i += 2 {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return "", 0, 0, false
		}
		switch fields[i+1] {
		case "ns/op":
			ns, ok = v, true
		case "allocs/op":
			allocs = v
		}
	}
	return name, ns, allocs, ok
}
