package schema

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"unicode"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// stepsMax is the most instructions that a pattern may execute for one byte of the string that it is matched with.
const stepsMax = 32

// statesMax bounds the search for the most expensive byte, in states times kinds of characters.
const statesMax = 1 << 16

// errPattern reports a pattern that costs too much.
type errPattern struct{ pattern string }

func (e *errPattern) Error() string {
	return fmt.Sprintf("the pattern %q takes more than %d steps for a byte, or too many to tell: anchor it, or shorten its repetitions and alternatives",
		truncate(e.pattern, 128), stepsMax)
}

// boundedRegexp compiles a pattern of RE2 syntax, which has no backtracking, within the bound.
func boundedRegexp(pattern string) (jsonschema.Regexp, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	if !cheapPattern(pattern) {
		return nil, &errPattern{pattern}
	}
	return re, nil
}

func anyRegexp(pattern string) (jsonschema.Regexp, error) { return regexp.Compile(pattern) }

// cheapPattern reports whether a matcher that follows all alternatives at once, as RE2 does, visits at most stepsMax
// instructions per byte. It walks the sets of instructions that a string can lead to. What is too large to be walked counts
// as expensive.
func cheapPattern(pattern string) bool {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return false
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return false
	}
	if len(prog.Inst) <= stepsMax {
		return true // it has no more than these
	}
	kinds := kindsOf(prog)
	if kinds == nil {
		return false
	}
	w := &walker{prog: prog, anchored: prog.StartCond()&syntax.EmptyBeginText != 0}
	start := w.close(nil, true)
	if w.visited > stepsMax {
		return false
	}
	seen := map[string]bool{key(start): true}
	for queue := [][]uint32{start}; len(queue) > 0; {
		state := queue[0]
		queue = queue[1:]
		for _, r := range kinds {
			next := w.step(state, r)
			if w.visited > stepsMax {
				return false
			}
			if k := key(next); !seen[k] {
				if len(seen)*len(kinds) > statesMax {
					return false
				}
				seen[k] = true
				queue = append(queue, next)
			}
		}
	}
	return true
}

// walker follows a program.
type walker struct {
	prog     *syntax.Prog
	anchored bool // it can begin at the start of the string only
	visited  int  // instructions visited in the last close or step
}

// step returns the instructions that wait for a character after state has consumed r.
func (w *walker) step(state []uint32, r rune) []uint32 {
	var next []uint32
	for _, pc := range state {
		if in := &w.prog.Inst[pc]; in.MatchRune(r) {
			next = append(next, in.Out)
		}
	}
	return w.close(next, false)
}

// close returns all instructions that consume a character and can be reached from these without one. An assertion such as a
// word boundary is taken to hold, which can only add to them; only the start of the text is known not to come again.
func (w *walker) close(from []uint32, atStart bool) []uint32 {
	stack := slices.Clone(from)
	if atStart || !w.anchored {
		stack = append(stack, uint32(w.prog.Start))
	}
	seen := make(map[uint32]bool, len(stack))
	var waiting []uint32
	for len(stack) > 0 {
		pc := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[pc] {
			continue
		}
		seen[pc] = true
		switch in := &w.prog.Inst[pc]; in.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			stack = append(stack, in.Out, in.Arg)
		case syntax.InstCapture, syntax.InstNop:
			stack = append(stack, in.Out)
		case syntax.InstEmptyWidth:
			if atStart || syntax.EmptyOp(in.Arg)&syntax.EmptyBeginText == 0 {
				stack = append(stack, in.Out)
			}
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			waiting = append(waiting, pc)
		}
	}
	w.visited = len(seen)
	slices.Sort(waiting)
	return waiting
}

// kindsOf returns one character of each kind that the program tells apart, nil when they are too many.
func kindsOf(prog *syntax.Prog) []rune {
	bounds := map[rune]bool{0: true, '\n': true, '\n' + 1: true}
	var consuming []*syntax.Inst
	for i := range prog.Inst {
		in := &prog.Inst[i]
		switch in.Op {
		case syntax.InstRune, syntax.InstRune1:
			consuming = append(consuming, in)
			for j, r := range in.Rune {
				addBounds(bounds, r, len(in.Rune) == 1 || j%2 == 1)
				if len(in.Rune) == 1 && syntax.Flags(in.Arg)&syntax.FoldCase != 0 {
					for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
						addBounds(bounds, f, true)
					}
				}
			}
		case syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			consuming = append(consuming, in)
		}
	}
	if len(bounds)*len(consuming) > 64*statesMax {
		return nil
	}
	var kinds []rune
	known := map[string]bool{}
	signature := make([]byte, len(consuming))
	for r := range bounds {
		for i, in := range consuming {
			signature[i] = 0
			if in.MatchRune(r) {
				signature[i] = 1
			}
		}
		if s := string(signature); !known[s] {
			known[s] = true
			kinds = append(kinds, r)
		}
	}
	return kinds
}

// addBounds marks where a range begins, and what follows its last character.
func addBounds(bounds map[rune]bool, r rune, last bool) {
	bounds[r] = true
	if last && r < unicode.MaxRune {
		bounds[r+1] = true
	}
}

func key(state []uint32) string {
	b := make([]byte, 0, 4*len(state))
	for _, pc := range state {
		b = append(b, byte(pc), byte(pc>>8), byte(pc>>16), byte(pc>>24))
	}
	return string(b)
}
