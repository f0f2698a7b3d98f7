package committer

// victims are the held descriptors that may be closed, the one whose partition was written longest ago first (COM-34). A partition that is
// written again, or loses its descriptor, leaves its entry behind: nearly every partition does so before its turn comes, and to look for
// it among thousands costs more than to pass over it then.
//
// It is a heap of values, ordered by lastWrite, which no two partitions share.
type victims []victim

type victim struct {
	lastWrite uint64
	p         *part
}

// stands reports whether the entry may still be taken at its word.
func (v victim) stands() bool { return v.p.lastWrite == v.lastWrite && v.p.evictable() }

// offer puts p in, unless it is there.
func (vs *victims) offer(p *part, held int) {
	if p.offered == p.lastWrite {
		return
	}
	p.offered = p.lastWrite
	*vs = append(*vs, victim{p.lastWrite, p})
	vs.up(len(*vs) - 1)
	if len(*vs) > 2*held+minVictims {
		vs.sweep()
	}
}

// minVictims is how many entries are not worth a look at which of them stand.
const minVictims = 64

// take removes and returns the first partition whose entry stands, nil when there is none.
func (vs *victims) take() *part {
	for len(*vs) > 0 {
		first := (*vs)[0]
		last := len(*vs) - 1
		(*vs)[0], (*vs)[last] = (*vs)[last], victim{}
		*vs = (*vs)[:last]
		vs.down(0)
		first.withdraw()
		if first.stands() {
			return first.p
		}
	}
	return nil
}

// withdraw has the partition offered again when it may be closed again.
func (v victim) withdraw() {
	if v.p.offered == v.lastWrite {
		v.p.offered = 0
	}
}

// sweep removes the entries that do not stand.
func (vs *victims) sweep() {
	kept := (*vs)[:0]
	for _, v := range *vs {
		if v.stands() {
			kept = append(kept, v)
		} else {
			v.withdraw()
		}
	}
	clear((*vs)[len(kept):])
	*vs = kept
	for i := len(kept)/2 - 1; i >= 0; i-- {
		vs.down(i)
	}
}

func (vs victims) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if vs[parent].lastWrite < vs[i].lastWrite {
			return
		}
		vs[parent], vs[i] = vs[i], vs[parent]
		i = parent
	}
}

func (vs victims) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(vs) {
			return
		}
		if child+1 < len(vs) && vs[child+1].lastWrite < vs[child].lastWrite {
			child++
		}
		if vs[i].lastWrite < vs[child].lastWrite {
			return
		}
		vs[i], vs[child] = vs[child], vs[i]
		i = child
	}
}
