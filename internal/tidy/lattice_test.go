package tidy

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// lattice says who may import whom within the module. In "a, b < c, d # why" the packages c and d may import a
// and b and whatever those may; the reason is why c and d may import nothing else. Packages of one line are
// siblings: they do not know each other. Tests may import what they like. Each package of the module is named
// here; one that is still to come may be.
const lattice = `
NONE < vfs # a disk knows neither time nor tasks, so it can be simulated below both
NONE < internal/cleanmark # the bytes of one small file
NONE < record # bytes in, bytes out: formats are fuzzed and read without any world
vfs < env # the world knows no queue, so every queue runs in any world
vfs < vfs/vfstest # the suite of every disk knows none of them
env < env/envtest # the suite of every world knows none of them

env, record < wal, segment # each log owns its files alone; siblings meet in engine only
env, record < inflight, committer # leases and offsets are tested without each other; siblings meet in engine only
env < metastore # names of topics are kept without knowing what a topic does
NONE < schema # documents and messages are bytes; whose they are does not matter
metastore < auth # who a user is, and what it may do, without a socket
metastore < metastore/metastoretest # the suite of every metastore knows none of them
metastore < metastore/raft # the replicated metastore is real: goroutines, sockets, clocks; only programs know it
wal, segment, inflight, committer, metastore, internal/cleanmark < engine # the engine runs inside the simulator: no socket, no simulator, no front
wal, segment, committer, metastore, internal/cleanmark < inspect # files are read without a broker, in the words of their owners; it runs nothing
engine < cluster # nodes meet above the engine of each; the front is above both
engine, cluster, schema, auth < server # a front is thin and real: nothing of the simulator is in production
server < observe # it hears the engine and the server; neither knows who listens
NONE < conformance # a black box is judged by who knows nothing of its inside
NONE < client # a client speaks HTTP and shares no code with what it talks to
NONE < config # what an operator wrote is checked before anything of the node exists
client, server, inspect, config, observe, metastore/raft < cmd/narad # the program that is shipped contains no simulator

vfs < sim/disk # a simulated disk is only a disk
sim/disk < sim/recorder # what happens to real files is told to a simulated disk, whoever writes them
env, sim/disk < sim # the kernel knows no engine, so that no engine is favoured
sim, sim/disk < sim/choice, sim/shrink # tools of the kernel know no engine
NONE < sim/model # the reference queue shares no code with the queue that it judges
engine, cluster, sim, sim/model < sim/check # checkers see the engine through its events and its disk
sim/check, sim/shrink < sim/workload # worlds to break the engine in; production never knows of them
sim/workload < sim/report # reports show runs; no run depends on being shown
engine, sim/model, sim/recorder < sim/realfs # lives of an engine on real files; worlds know nothing of it
client, sim/model < internal/torture # clients of a real server and the queue that it must be like; whose server does not matter
NONE < internal/testprog # tests build the program, they do not import it
NONE < sim/mutants # mutants are patches of text, planted by building elsewhere
sim/workload, sim/shrink, sim/report, sim/mutants, sim/realfs, internal/torture < cmd/narad-sim # the simulator's program contains no server

vfs < bench/report # what was measured is shown without knowing what was
sim/recorder < bench/tap # files are counted, whoever writes them
NONE < bench/floor # the server to compare with shares no code with what is compared
engine, bench/report, bench/tap < bench/load # messages go through the engine, or as bytes to any server
bench/load < bench # figures of the engine, without a front
bench, bench/floor, sim/workload < cmd/narad-bench # the benchmark's program shares no code with the server that it starts
engine < fuzz # targets across packages, without a front
NONE < internal/tidy # rules read sources, not packages
`

// outside says who may reach the operating system's files, processes or sockets: "packages # why".
const outside = `
vfs # the files of the system
server, client # the front: sockets
schema # net/url decodes the places that references name; nothing is opened
observe # handlers of the front; the variables that turn traces on
metastore/raft # files of its libraries, sockets
conformance # a client that judges
config # the text of addresses, no sockets
cmd # programs: flags, signals, sockets
bench, bench/report, bench/load, bench/floor # measure real disks, processes and sockets
sim # reports a stuck world on the terminal of the run
sim/mutants # builds and runs mutated programs
sim/realfs # real directories
internal/torture # starts and kills processes
internal/testprog # builds a program
`

type layer struct {
	below  []string
	reason string
}

// readLattice returns what each package may import and why not more.
func readLattice(text string) (map[string]layer, error) {
	layers := map[string]layer{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		order, reason, hasReason := strings.Cut(line, "#")
		lower, upper, hasOrder := strings.Cut(order, "<")
		if !hasReason || !hasOrder || strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf("%q is not of the form a < b # why", line)
		}
		var below []string
		for _, name := range splitNames(lower) {
			if name == "NONE" {
				continue
			}
			known, ok := layers[name]
			if !ok {
				return nil, fmt.Errorf("%q: %s has no line of its own above", line, name)
			}
			below = append(append(below, name), known.below...)
		}
		for _, name := range splitNames(upper) {
			if _, again := layers[name]; again {
				return nil, fmt.Errorf("%q: %s is placed twice", line, name)
			}
			layers[name] = layer{below: below, reason: strings.TrimSpace(reason)}
		}
	}
	return layers, nil
}

func splitNames(list string) []string {
	names := strings.Split(list, ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	return names
}

// imports returns the import paths of a file.
func imports(f *file) []string {
	var found []string
	for _, spec := range f.ast.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			panic(err) // the parser let it pass
		}
		found = append(found, p)
	}
	return found
}

func keepsLattice(m *module) (broken []string) {
	layers, err := readLattice(lattice)
	if err != nil {
		return []string{err.Error()}
	}
	names, _ := m.packages()
	for _, name := range names {
		if _, ok := layers[name]; !ok {
			broken = append(broken, fmt.Sprintf("package %s is not in the lattice: give it a place in lattice_test.go", name))
		}
	}
	for _, f := range m.production() {
		layer, ok := layers[f.pkg()]
		for _, p := range imports(f) {
			dep, ours := strings.CutPrefix(p, modulePath+"/")
			if !ok || !ours || slices.Contains(layer.below, dep) {
				continue
			}
			broken = append(broken, fmt.Sprintf("%s: %s may not import %s: %s (it may import: %s)",
				f.path, f.pkg(), dep, layer.reason, strings.Join(slices.Compact(slices.Sorted(slices.Values(layer.below))), ", ")))
		}
	}
	return broken
}

func staysInside(m *module) (broken []string) {
	allowed := map[string]bool{}
	for line := range strings.Lines(outside) {
		names, _, _ := strings.Cut(line, "#")
		for _, name := range splitNames(names) {
			allowed[name] = true
		}
	}
	for _, f := range m.production() {
		if top, _, _ := strings.Cut(f.pkg(), "/"); allowed[f.pkg()] || top == "cmd" && allowed["cmd"] {
			continue
		}
		for _, p := range imports(f) {
			if top, _, _ := strings.Cut(p, "/"); top == "os" || top == "net" {
				broken = append(broken, fmt.Sprintf("%s: %s may not import %q: files are reached through vfs, "+
					"everything else of the world through env, sockets in server and cmd", f.path, f.pkg(), p))
			}
		}
	}
	return broken
}

func TestLattice(t *testing.T) { hold(t, keepsLattice) }
func TestOutside(t *testing.T) { hold(t, staysInside) }

func TestLatticeIsSeenBroken(t *testing.T) {
	rule(keepsLattice).check(t, []planted{
		{"upwards", inFile("wal/a.go", "package wal\nimport _ \"narad/engine\"\n"), []string{"wal may not import engine: each log owns"}},
		{"a sibling", inFile("wal/a.go", "package wal\nimport _ \"narad/segment\"\n"), []string{"siblings meet in engine only"}},
		{"the simulator in production", inFile("engine/a.go", "package engine\nimport _ \"narad/sim\"\n"), []string{"no simulator"}},
		{"an engine in the kernel", inFile("sim/a.go", "package sim\nimport _ \"narad/engine\"\n"), []string{"knows no engine"}},
		{"a test suite in production", inFile("engine/a.go", "package engine\nimport _ \"narad/vfs/vfstest\"\n"), []string{"may not import vfs/vfstest"}},
		{"a package without a place", inFile("new/a.go", "package new\n"), []string{"package new is not in the lattice"}},
		{"a package without a place imported", inFile("engine/a.go", "package engine\nimport _ \"narad/new\"\n"), []string{"may not import new"}},
		{"far below", inFile("server/a.go", "package server\nimport _ \"narad/vfs\"\nimport _ \"narad/record\"\n"), nil},
		{"a test", inFile("wal/a_test.go", "package wal\nimport _ \"narad/sim\"\n"), nil},
		{"another module", inFile("wal/a.go", "package wal\nimport _ \"naradx/engine\"\n"), nil},
	})
}

func TestOutsideIsSeenBroken(t *testing.T) {
	rule(staysInside).check(t, []planted{
		{"files", inFile("sim/check/a.go", "package check\nimport _ \"os\"\n"), []string{`may not import "os"`}},
		{"sockets", inFile("engine/a.go", "package engine\nimport _ \"net/http\"\n"), []string{`may not import "net/http"`}},
		{"processes", inFile("sim/disk/a.go", "package disk\nimport _ \"os/exec\"\n"), []string{`may not import "os/exec"`}},
		{"a program", inFile("cmd/narad/a.go", "package main\nimport _ \"os\"\nimport _ \"net\"\n"), nil},
		{"the disk", inFile("vfs/a.go", "package vfs\nimport _ \"os\"\n"), nil},
		{"below the disk", inFile("vfs/vfstest/a.go", "package vfstest\nimport _ \"os\"\n"), []string{`may not import "os"`}},
		{"a test", inFile("engine/a_test.go", "package engine\nimport _ \"os\"\n"), nil},
	})
}

func TestLatticeText(t *testing.T) {
	layers, err := readLattice("NONE < a # x\na < b, c # y\nb < d # z\n")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c", "d"}, slices.Sorted(maps.Keys(layers)))
	require.Equal(t, layer{below: []string{"b", "a"}, reason: "z"}, layers["d"])
	for _, bad := range []string{"a < b", "NONE < a", "a # x", "NONE < a #", "a < b # x", "NONE < a, a # x", "NONE < a # x\nb < a # x"} {
		_, err := readLattice(bad)
		require.Error(t, err, bad)
	}
}
