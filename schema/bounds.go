package schema

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds of what a document makes the validator do.
const (
	pathsMax  = 64      // ways in which one subschema applies to one value
	chainMax  = 256     // subschemas that apply each other to one value, as references to references do
	workMax   = 1 << 20 // steps of the search for these
	subsetMax = 5       // patterns whose combinations are looked at one by one
)

// Above these a check is costly, and takes a slot.
const (
	requiredCheap = 1024
	patternsCheap = 64
	appliedCheap  = 64
)

// checkBounds returns why the subschemas of a document would apply each other too often. costly tells a document that
// is within the bounds but needs a slot.
//
// It follows what can happen to one value: which subschemas apply to it, each how often, and to which that leads for
// each kind of member. In a recursion with two ways to the same member the numbers double with each level, so it is refused like
// any other document with too many ways.
func checkBounds(g *graph) (costly bool, err *Error) {
	order, err := inPlaceOrder(g)
	if err != nil {
		return true, err
	}
	if err := checkNegated(g); err != nil {
		return true, err
	}
	for _, s := range g.nodes {
		if len(s.Required) > requiredCheap || len(s.PatternProperties) > patternsCheap {
			costly = true
		}
	}
	w := &pathWalker{graph: g, order: order, seen: map[string]bool{}, work: workMax}
	w.visit(map[int]int{0: 1})
	for len(w.queue) > 0 && w.err == nil {
		next := w.queue[len(w.queue)-1]
		w.queue = w.queue[:len(w.queue)-1]
		w.members(next)
	}
	return costly || w.costly, w.err
}

// inPlaceOrder returns the place of each subschema in an order in which those that apply others to the same value
// come first. Without such an order the check of a value would not end.
func inPlaceOrder(g *graph) (order []int, err *Error) {
	const unseen, open, done = 0, 1, 2
	state := make([]uint8, len(g.nodes))
	height := make([]int, len(g.nodes))
	var finished []int
	var visit func(int) *Error
	visit = func(n int) *Error {
		state[n] = open
		for _, e := range g.edges[n] {
			if !inPlace[e.keyword] {
				continue
			}
			to := g.indexOf[e.to]
			if state[to] == open {
				return refuse(ReasonPaths, "the subschema at %s leads back to itself for the same value", placeOf(e.to))
			}
			if state[to] == unseen {
				if err := visit(to); err != nil {
					return err
				}
			}
			height[n] = max(height[n], height[to]+1)
		}
		if height[n] > chainMax {
			return refuse(ReasonPaths, "more than %d subschemas apply each other to the same value, from %s on", chainMax, placeOf(g.nodes[n]))
		}
		state[n] = done
		finished = append(finished, n)
		return nil
	}
	for n := range g.nodes {
		if state[n] == unseen {
			if err := visit(n); err != nil {
				return nil, err
			}
		}
	}
	order = make([]int, len(g.nodes))
	for i, n := range finished {
		order[n] = len(finished) - i
	}
	return order, nil
}

// checkNegated refuses a recursion that leads through not.
func checkNegated(g *graph) *Error {
	component := components(g)
	for n := range g.nodes {
		for _, e := range g.edges[n] {
			if e.keyword == "not" && component[n] == component[g.indexOf[e.to]] {
				return refuse(ReasonPaths, "the subschema at %s leads back to itself through not", placeOf(e.to))
			}
		}
	}
	return nil
}

// components numbers the strongly connected components, by Tarjan's algorithm.
func components(g *graph) []int {
	component := make([]int, len(g.nodes))
	index := make([]int, len(g.nodes)) // 0: not visited
	low := make([]int, len(g.nodes))
	var stack []int
	next, count := 1, 0
	var visit func(int)
	visit = func(n int) {
		index[n], low[n] = next, next
		next++
		stack = append(stack, n)
		for _, e := range g.edges[n] {
			to := g.indexOf[e.to]
			if index[to] == 0 {
				visit(to)
				low[n] = min(low[n], low[to])
			} else if component[to] == 0 {
				low[n] = min(low[n], index[to])
			}
		}
		if low[n] != index[n] {
			return
		}
		count++
		for {
			top := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			component[top] = count
			if top == n {
				return
			}
		}
	}
	for n := range g.nodes {
		if index[n] == 0 {
			visit(n)
		}
	}
	return component
}

// pathWalker walks through the sets of subschemas that can apply to one value, with the number of ways to each.
type pathWalker struct {
	graph  *graph
	order  []int
	seen   map[string]bool
	queue  []map[int]int
	work   int
	costly bool
	err    *Error
}

// visit queues what applies to a value, given what its container applies to it, unless it has been seen.
func (w *pathWalker) visit(seeds map[int]int) {
	if w.err != nil || len(seeds) == 0 {
		return
	}
	k := countsKey(seeds)
	if w.seen[k] {
		return
	}
	w.seen[k] = true
	all := w.close(seeds)
	if w.err == nil {
		w.queue = append(w.queue, all)
	}
}

// close adds what these apply to the same value.
func (w *pathWalker) close(seeds map[int]int) map[int]int {
	all := maps.Clone(seeds)
	pending := byOrder{order: w.order}
	for n := range seeds {
		pending.add(n)
	}
	applied := 0
	for len(pending.nodes) > 0 && w.err == nil {
		n := pending.next()
		applied += all[n]
		if all[n] > pathsMax {
			w.err = refuse(ReasonPaths, "there are more than %d ways in which the subschema at %s applies to one value", pathsMax, placeOf(w.graph.nodes[n]))
		}
		for _, e := range w.graph.edges[n] {
			if inPlace[e.keyword] {
				to := w.graph.indexOf[e.to]
				if _, known := all[to]; !known {
					pending.add(to)
				}
				all[to] += all[n]
			}
			w.spend()
		}
	}
	if applied > appliedCheap {
		w.costly = true
	}
	return all
}

func (w *pathWalker) spend() {
	if w.work--; w.work < 0 && w.err == nil {
		w.err = refuse(ReasonPaths, "there are too many ways in which its subschemas apply to a value")
	}
}

// members visits each kind of member that a value can have.
func (w *pathWalker) members(applied map[int]int) {
	names, patterns, prefix := map[string]bool{}, map[string]jsonschema.Regexp{}, 0
	for n := range applied {
		s := w.graph.nodes[n]
		for name := range s.Properties {
			names[name] = true
		}
		for re := range s.PatternProperties {
			patterns[re.String()] = re
		}
		first, _ := itemsOf(s)
		prefix = max(prefix, len(first))
	}
	named, wild := w.propertyEdges(applied)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		matching := map[string]bool{}
		for text, re := range patterns {
			matching[text] = re.MatchString(name)
			w.spend()
		}
		w.visit(w.property(named[name], wild, name, matching))
	}
	for _, matching := range combinations(slices.Sorted(maps.Keys(patterns))) {
		w.visit(w.unknownProperty(wild, matching))
	}
	for i := 0; i <= prefix && w.err == nil; i++ {
		w.visit(w.item(applied, i))
	}
	w.visit(w.gather(applied, func(_ *jsonschema.Schema, e edge) bool { return e.keyword == "propertyNames" }))
}

// combinations returns which patterns a name that no subschema mentions may match: every subset of a few; of many, none
// of them or all.
func combinations(patterns []string) (all []map[string]bool) {
	if len(patterns) > subsetMax {
		every := map[string]bool{}
		for _, p := range patterns {
			every[p] = true
		}
		return []map[string]bool{{}, every}
	}
	for bits := range 1 << len(patterns) {
		subset := map[string]bool{}
		for i, p := range patterns {
			subset[p] = bits&(1<<i) != 0
		}
		all = append(all, subset)
	}
	return all
}

// wildEdge is an edge to what applies to properties that it does not name.
type wildEdge struct {
	from *jsonschema.Schema
	edge
	ways int
}

// propertyEdges returns what applies to each property that is named, and the edges that are for others.
func (w *pathWalker) propertyEdges(applied map[int]int) (named map[string]map[int]int, wild []wildEdge) {
	named = map[string]map[int]int{}
	for n, ways := range applied {
		for _, e := range w.graph.edges[n] {
			switch e.keyword {
			case "properties":
				if named[e.name] == nil {
					named[e.name] = map[int]int{}
				}
				named[e.name][w.graph.indexOf[e.to]] += ways
			case "patternProperties", "additionalProperties", "unevaluatedProperties":
				wild = append(wild, wildEdge{w.graph.nodes[n], e, ways})
			}
			w.spend()
		}
	}
	return named, wild
}

// property returns what applies to a property that is named, given what names it.
func (w *pathWalker) property(seeds map[int]int, wild []wildEdge, name string, matching map[string]bool) map[int]int {
	for _, e := range wild {
		_, named := e.from.Properties[name]
		applies := !named
		switch e.keyword {
		case "patternProperties":
			applies = matching[e.name]
		case "additionalProperties":
			applies = !named && !matchesAny(e.from, matching)
		}
		if applies {
			seeds[w.graph.indexOf[e.to]] += e.ways
		}
		w.spend()
	}
	return seeds
}

// unknownProperty returns what applies to a property that nothing names.
func (w *pathWalker) unknownProperty(wild []wildEdge, matching map[string]bool) map[int]int {
	seeds := map[int]int{}
	for _, e := range wild {
		applies := true
		switch e.keyword {
		case "patternProperties":
			applies = matching[e.name]
		case "additionalProperties":
			applies = !matchesAny(e.from, matching)
		}
		if applies {
			seeds[w.graph.indexOf[e.to]] += e.ways
		}
		w.spend()
	}
	return seeds
}

func matchesAny(s *jsonschema.Schema, matching map[string]bool) bool {
	for re := range s.PatternProperties {
		if matching[re.String()] {
			return true
		}
	}
	return false
}

// item returns what applies to the item of an index; the last one stands for all behind it.
func (w *pathWalker) item(applied map[int]int, index int) map[int]int {
	return w.gather(applied, func(s *jsonschema.Schema, e edge) bool {
		switch e.keyword {
		case "prefixItems":
			return e.name == strconv.Itoa(index)
		case "items":
			prefix, _ := itemsOf(s)
			return index >= len(prefix)
		case "contains", "unevaluatedItems":
			return true
		}
		return false
	})
}

func (w *pathWalker) gather(applied map[int]int, applies func(*jsonschema.Schema, edge) bool) map[int]int {
	seeds := map[int]int{}
	for n, ways := range applied {
		for _, e := range w.graph.edges[n] {
			if !inPlace[e.keyword] && applies(w.graph.nodes[n], e) {
				seeds[w.graph.indexOf[e.to]] += ways
			}
			w.spend()
		}
		if w.err != nil {
			return nil
		}
	}
	return seeds
}

// byOrder is a small priority queue of subschemas.
type byOrder struct {
	order []int
	nodes []int // the first in order is the last here
}

func (q *byOrder) add(n int) {
	at, _ := slices.BinarySearchFunc(q.nodes, n, func(a, b int) int { return q.order[b] - q.order[a] })
	q.nodes = slices.Insert(q.nodes, at, n)
}

func (q *byOrder) next() int {
	n := q.nodes[len(q.nodes)-1]
	q.nodes = q.nodes[:len(q.nodes)-1]
	return n
}

func countsKey(counts map[int]int) string {
	var b strings.Builder
	for _, n := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "%d:%d,", n, counts[n])
	}
	return b.String()
}
