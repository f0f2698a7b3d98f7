package sim

// A place is where a task may be cut: a named point of the code, or a kind of file call on a kind of file. What happened there
// is counted, so that a campaign can tell where nothing ever did.

// PlaceCount counts what happened at a place.
type PlaceCount struct {
	Passed   int64    // how often a task came by
	Switched int64    // points only: how often others ran before it went on
	Lingered int64    // points only: how often the policy made it stay
	Crashed  [2]int64 // how often a crash of each kind struck while a task of the process was there
}

// Add adds the counts of another world.
func (c *PlaceCount) Add(d PlaceCount) {
	c.Passed += d.Passed
	c.Switched += d.Switched
	c.Lingered += d.Lingered
	c.Crashed[ProcessCrash] += d.Crashed[ProcessCrash]
	c.Crashed[PowerFailure] += d.Crashed[PowerFailure]
}

// CallPlace is a kind of call on a kind of file, as [Options.FileKind] names it.
type CallPlace struct {
	File string
	Op   Op
}

// place is a place of one world.
type place struct {
	hash uint64
	PlaceCount
}

// fileKind is a kind of file and the places of the calls on it.
type fileKind struct {
	name  string
	calls [opCount]place
}

// point returns the place of a named point.
func (w *World) point(name string) *place {
	p := w.points[name]
	if p == nil {
		p = &place{hash: hashString(name)}
		w.points[name] = p
	}
	return p
}

// kindOf returns the kind of the file or directory at a path.
func (w *World) kindOf(path string) *fileKind {
	name := ""
	if w.options.FileKind != nil {
		name = w.options.FileKind(path)
	}
	for _, k := range w.kinds {
		if k.name == name {
			return k
		}
	}
	k := &fileKind{name: name}
	w.kinds = append(w.kinds, k)
	return k
}

// reschedulePoint lets others go first, if the policy says so, and counts whether any did.
func (w *World) reschedulePoint(t *task, at *place) {
	before := w.steps
	t.at = at
	w.reschedule(t)
	t.at = nil
	if w.steps > before+1 {
		at.Switched++
	}
}

// countPlaces copies the counts into s.
func (w *World) countPlaces(s *Stats) {
	s.Points = make(map[string]PlaceCount, len(w.points))
	for name, p := range w.points { // order-free: copies a map
		s.Points[name] = p.PlaceCount
	}
	s.Calls = map[CallPlace]PlaceCount{}
	for _, k := range w.kinds {
		for op := range k.calls {
			if c := k.calls[op].PlaceCount; c.Passed > 0 {
				s.Calls[CallPlace{k.name, Op(op)}] = c
			}
		}
	}
}
