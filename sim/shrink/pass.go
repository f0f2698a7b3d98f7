package shrink

import (
	"maps"
	"slices"
)

// retails is how many other tails are tried beside each coarse candidate.
const retails = 6

// lucky is how many other tails are tried in one go for a run that happens to be smaller.
const lucky = 48

// passes are the ways to make the input smaller, the coarse ones first. A small run is looked for before the bounds are lowered, which
// takes many runs of a large input, or after.
func (s *search) passes(smallFirst bool) []pass {
	list := []pass{{"cut the end", s.cut}, {"small runs", s.small}, {"lower bounds", s.bounds}}
	if !smallFirst {
		list[1], list[2] = list[2], list[1]
	}
	return append(list, []pass{
		{"leave out calls", s.leaveOut},
		{"tame the plan", s.plan},
		{"other plans", s.otherPlans},
		{"other tails", s.otherTails},
		{"zero by kind", s.kinds},
		{"zero blocks", s.zero},
		{"delete blocks", s.remove},
		{"lower choices", s.lower},
	}...)
}

type pass struct {
	name string
	run  func() error
}

// all repeats the passes until none of them helps.
func (s *search) all(passes []pass) error {
	for before := -1; before != s.accepted; {
		before = s.accepted
		for _, p := range passes {
			s.pass = p.name
			s.tell()
			if err := p.run(); err != nil {
				return err
			}
		}
	}
	return nil
}

// with returns the best input with other choices.
func (s *search) with(choices []uint32) Input {
	return Input{Choices: choices, Bounds: s.best.Bounds, Without: s.best.Without}
}

// draws is how many runs are drawn for one list of small bounds.
const draws = 120

// small looks for a small run that fails alike, instead of making a large one small: many failures need only a few operations, and
// happen often enough among them. Half of the runs are of the kind that the plan says, half of any kind.
func (s *search) small() error {
	if s.Small == nil {
		return nil
	}
	for _, bounds := range s.Small(s.best.Bounds) {
		var candidates []Input
		for i := range draws {
			keep := min(s.shown.Plan, len(s.best.Choices))
			if i%2 == 1 {
				keep = 0
			}
			candidates = append(candidates, Input{Choices: s.best.Choices[:keep], Tail: s.tail(), Bounds: bounds})
		}
		if found, err := s.try(candidates); found >= 0 || err != nil {
			return err
		}
	}
	return nil
}

// cut looks for the shortest beginning that fails with zeros behind it.
func (s *search) cut() error {
	for {
		n := len(s.best.Choices)
		var candidates []Input
		for _, part := range []int{0, 1, 2, 4, 6, 7} { // the fine work is that of the passes on blocks
			candidates = append(candidates, s.with(s.best.Choices[:n*part/8]))
		}
		if i, err := s.try(candidates); i < 0 || err != nil {
			return err
		}
	}
}

// variants are in itself and the same with other tails, drawn from behind the plan and from further on.
func (s *search) variants(in Input) []Input {
	list := []Input{in}
	for i := range retails {
		from := min(s.shown.Plan, len(in.Choices))
		if i%2 == 1 {
			from += (len(in.Choices) - from) * i / (retails + 1)
		}
		list = append(list, Input{Choices: in.Choices[:from], Tail: s.tail(), Bounds: in.Bounds, Without: in.Without})
	}
	return list
}

// leaveOut takes calls away: all of a group, such as those of one client, and then runs of neighbours, from half of all to single ones.
// The choices stay, but from the first call that is missing on they are drawn by others, so other tails are tried as well.
func (s *search) leaveOut() error {
	tried := map[string]bool{}
	for {
		group := s.largestGroup(tried)
		if group == "" {
			break
		}
		tried[group] = true
		if _, err := s.try(s.variants(s.without(func(c Call) bool { return slices.Contains(c.Groups, group) }))); err != nil {
			return err
		}
	}
	for length := len(s.shown.Calls) / 2; length > 0; length /= 2 {
		for end := len(s.left()); end > 0; {
			left := s.left()
			end = min(end, len(left))
			part := left[max(0, end-length):end]
			in := s.without(func(c Call) bool { return slices.ContainsFunc(part, func(p Call) bool { return p.Number == c.Number }) })
			if _, err := s.try(s.variants(in)[:3]); err != nil {
				return err
			}
			end -= length
		}
	}
	return nil
}

// left lists the calls that are not left out.
func (s *search) left() (list []Call) {
	for _, c := range s.shown.Calls {
		if !slices.Contains(s.best.Without, c.Number) {
			list = append(list, c)
		}
	}
	return list
}

// without returns the best input without some more calls.
func (s *search) without(gone func(Call) bool) Input {
	in := s.with(s.best.Choices)
	in.Without = slices.Clone(in.Without)
	for _, c := range s.left() {
		if gone(c) {
			in.Without = append(in.Without, c.Number)
		}
	}
	slices.Sort(in.Without)
	return in
}

// largestGroup names the group with most calls that was not tried yet, "" when there is none that is not everything.
func (s *search) largestGroup(tried map[string]bool) (name string) {
	left := s.left()
	size := map[string]int{}
	for _, c := range left {
		for _, g := range c.Groups {
			size[g]++
		}
	}
	for _, g := range slices.Sorted(maps.Keys(size)) {
		if !tried[g] && size[g] < len(left) && size[g] > size[name] {
			name = g
		}
	}
	return name
}

// bounds lowers each bound as far as the run still fails.
func (s *search) bounds() error {
	for k := range s.best.Bounds {
		for {
			least, now := s.Least[k], s.best.Bounds[k]
			var candidates []Input
			for _, v := range steps(least, now) {
				in := s.with(s.best.Choices)
				in.Bounds = slices.Clone(in.Bounds)
				in.Bounds[k] = v
				if v > least+(now-least)/2 {
					candidates = append(candidates, in)
				} else {
					candidates = append(candidates, s.variants(in)...)
				}
			}
			if i, err := s.try(candidates); err != nil {
				return err
			} else if i < 0 || s.best.Bounds[k] >= now {
				break
			}
		}
	}
	return nil
}

// steps lists values in [least, now): first large steps, which often succeed, last small ones.
func steps(least, now int64) (list []int64) {
	for _, v := range []int64{least + (now-least)/8, least + (now-least)/4, least + (now-least)/2, least, now - (now-least)/8} {
		if now-least <= 8 && v > least+(now-least)/2 {
			v = now - 1 // of a wide range that would be too slow
		}
		if v < now && v >= least && !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

// plan lowers the choices that decide what kind of run it is.
func (s *search) plan() error {
	for i := 0; i < min(s.shown.Plan, len(s.best.Choices)); i++ {
		v := s.best.Choices[i]
		var candidates []Input
		for _, lower := range steps(0, int64(v)) {
			c := slices.Clone(s.best.Choices)
			c[i] = uint32(lower)
			candidates = append(candidates, s.variants(s.with(c))...)
			if len(candidates) > 3*(retails+1) {
				break
			}
		}
		if _, err := s.try(candidates); err != nil {
			return err
		}
	}
	return nil
}

// otherPlans raises the choices that decide what kind of run it is: a lower cap, say, can be a later choice and make the run
// much shorter.
func (s *search) otherPlans() error {
	for i := 0; i < min(s.shown.Plan, len(s.best.Choices)); i++ {
		var candidates []Input
		for up := uint32(1); up <= 3; up++ {
			c := slices.Clone(s.best.Choices)
			c[i] += up
			candidates = append(candidates, s.variants(s.with(c))[:3]...)
		}
		if found, err := s.tryBest(candidates); err != nil {
			return err
		} else if found {
			i--
		}
	}
	return nil
}

// otherTails looks for a run of the same kind that happens to be smaller.
func (s *search) otherTails() error {
	for {
		var candidates []Input
		for i := range lucky {
			from := min(s.shown.Plan, len(s.best.Choices))
			from += (len(s.best.Choices) - from) * (i % 4) / 4
			candidates = append(candidates, Input{Choices: s.best.Choices[:from], Tail: s.tail(), Bounds: s.best.Bounds, Without: s.best.Without})
		}
		if found, err := s.tryBest(candidates); err != nil || !found {
			return err
		}
	}
}

// kinds zeroes all choices that were drawn at the same place: all latencies of syncs, all picks of the scheduler.
func (s *search) kinds() error {
	if s.Label == nil {
		return nil
	}
	tried := map[string]bool{}
	for {
		labels := s.Label(s.best)
		kind := ""
		for i, l := range labels {
			if i < len(s.best.Choices) && s.best.Choices[i] != 0 && !tried[l] {
				kind = l
				break
			}
		}
		if kind == "" {
			return nil
		}
		tried[kind] = true
		c := slices.Clone(s.best.Choices)
		for i, l := range labels {
			if i < len(c) && l == kind {
				c[i] = 0
			}
		}
		if _, err := s.try([]Input{s.with(c)}); err != nil {
			return err
		}
	}
}

// zero makes blocks tame, the largest first.
func (s *search) zero() error {
	return s.blocks(func(c []uint32, from, to int) []uint32 {
		if !slices.ContainsFunc(c[from:to], func(v uint32) bool { return v != 0 }) {
			return nil
		}
		c = slices.Clone(c)
		clear(c[from:to])
		return c
	})
}

// remove deletes blocks, the largest first.
func (s *search) remove() error {
	return s.blocks(func(c []uint32, from, to int) []uint32 { return slices.Delete(slices.Clone(c), from, to) })
}

// blocks tries a change on every block of every length that is a power of two, from the end to the start: what
// comes late shifts least.
func (s *search) blocks(change func(c []uint32, from, to int) []uint32) error {
	length := 1
	for length < len(s.best.Choices)/2 {
		length *= 2
	}
	for ; length > 0; length /= 2 {
		for end := len(s.best.Choices); end > 0; {
			var candidates []Input
			var ends []int
			for at := end; at > 0 && len(candidates) < 4*s.Workers; at -= length {
				if c := change(s.best.Choices, max(0, at-length), at); c != nil {
					candidates, ends = append(candidates, s.with(c)), append(ends, at)
				}
				end = at - length
			}
			i, err := s.try(candidates)
			if err != nil {
				return err
			}
			if i >= 0 {
				end = min(ends[i]-length, len(s.best.Choices))
			}
		}
	}
	return nil
}

// lower halves single choices.
func (s *search) lower() error {
	for i := len(s.best.Choices) - 1; i >= 0; i-- {
		for i < len(s.best.Choices) && s.best.Choices[i] > 1 {
			v := s.best.Choices[i]
			var candidates []Input
			for _, lower := range []uint32{1, v >> 16, v >> 4, v / 2, v - 1} {
				if lower == 0 || lower >= v || lower == v-1 && v > 8 {
					continue
				}
				c := slices.Clone(s.best.Choices)
				c[i] = lower
				candidates = append(candidates, s.with(c))
			}
			if found, err := s.try(candidates); err != nil {
				return err
			} else if found < 0 {
				break
			}
		}
	}
	return nil
}
