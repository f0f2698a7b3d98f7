package disk

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// pcg is a Chooser from a seed that counts its draws.
type pcg struct {
	*rand.Rand
	draws int
}

func newPCG(seed uint64) *pcg { return &pcg{Rand: rand.New(rand.NewPCG(seed, 0))} }

func (p *pcg) Choose(n int) int { p.draws++; return p.IntN(n) }

// requireSound checks what must hold between calls.
func requireSound(t require.TestingT, d *Disk) {
	used := int64(0)
	refs := map[Ino]int{}
	for i := range d.pending {
		d.pending[i].mentions(func(i Ino) { refs[i]++ })
	}
	linked, durable := map[Ino]int{rootIno: 1}, map[Ino]int{rootIno: 1}
	for _, s := range d.table {
		for _, e := range s.node.entries {
			linked[e.ino]++
		}
		for _, e := range s.node.durable {
			durable[e.ino]++
		}
	}
	for i, s := range d.table {
		n := s.node
		require.Equal(t, s.ino, n.ino)
		require.True(t, i == 0 || d.table[i-1].ino < s.ino, "table out of order")
		require.Equal(t, refs[n.ino], n.refs, "refs of %q", n.name)
		require.Equal(t, n.linked, linked[n.ino] == 1, "links of %q", n.name)
		require.LessOrEqual(t, linked[n.ino], 1)
		require.LessOrEqual(t, durable[n.ino], 1)
		require.Equal(t, n.durableLinked, durable[n.ino] == 1, "durable links of %q", n.name)
		require.True(t, n.linked || n.durableLinked || n.refs > 0 || d.holds[n.ino] > 0, "%q leaks", n.name)
		for k := range n.entries {
			child := d.node(n.entries[k].ino)
			require.True(t, k == 0 || n.entries[k-1].name < n.entries[k].name)
			require.True(t, !child.dir || child.parent == n.ino)
		}
		if n.linked || d.holds[n.ino] > 0 {
			used += n.pages
		}
		if !n.dir {
			requireSoundFile(t, n)
		}
	}
	require.Equal(t, used, d.usedPages)
}

func requireSoundFile(t require.TestingT, n *inode) {
	require.Equal(t, n.reserved+n.content.count(n.reserved), n.pages, "pages of %q", n.name)
	require.Equal(t, n.size, n.sizeAt(len(n.sizes)))
	beyond := make([]byte, 3*pageSize)
	n.content.read(beyond, n.size)
	require.True(t, isZero(beyond), "%q is not empty beyond its end", n.name)
	for i := range n.dirty {
		require.True(t, i == 0 || n.dirty[i-1].number < n.dirty[i].number, "dirty sectors out of order")
		e := &n.dirty[i]
		for v := 1; v < e.newest(); v++ {
			require.Less(t, e.stampOf(v), e.stampOf(v+1))
		}
	}
}

// What a power loss draws is what the enumeration lists, all of it.
func TestSampledIsEnumerated(t *testing.T) {
	each(t, func(t *testing.T, p Personality) {
		rapid.Check(t, func(t *rapid.T) {
			d := New(p)
			drawProgram(t, d, newOracle(p))
			requireSound(t, d)
			want := map[uint64]bool{}
			for img := range d.Crashes(0) {
				want[img.Hash()] = true
			}
			seen := map[uint64]bool{}
			tries := 40
			if len(want) <= 16 {
				tries = 60 * len(want)
			}
			for seed := range uint64(tries) {
				img := d.Clone()
				img.PowerLoss(newPCG(seed))
				requireSound(t, img)
				require.True(t, want[img.Hash()], "drew what the enumeration does not have: %s", show(img))
				require.Equal(t, img.Hash(), img.DurableHash())
				seen[img.Hash()] = true
			}
			if len(want) <= 4 {
				require.Len(t, seen, len(want), "drew too little")
			}
		})
	})
}

// Every state of a program with 512 outcomes is drawn before long.
func TestSampledCovers(t *testing.T) {
	each(t, func(t *testing.T, p Personality) {
		d := New(p)
		run(t, d, "create a", "preallocate a 4096", "sync a", "syncdir .", "write a ABCDE", "create b", "rename b c")
		want := len(states(d))
		require.GreaterOrEqual(t, want, 32*3)
		seen := map[string]bool{}
		rng := newPCG(1)
		for range 200 * want {
			img := d.Clone()
			img.PowerLoss(rng)
			seen[show(img)] = true
		}
		require.Len(t, seen, want)
	})
}

// Without crashes both personalities are the plain file system that the oracle's trees are.
func TestPlainBehaviour(t *testing.T) {
	each(t, func(t *testing.T, p Personality) {
		rapid.Check(t, func(t *rapid.T) {
			d, o := New(p), newOracle(p)
			for range rapid.IntRange(1, 200).Draw(t, "steps") {
				if line := drawStep(t); attempt(d, line) {
					o.do(line)
					if rapid.IntRange(0, 9).Draw(t, "background") == 0 {
						d.Background(newPCG(rapid.Uint64().Draw(t, "seed")))
					}
				}
			}
			requireSound(t, d)
			require.Equal(t, strings.TrimSpace(o.visible(o.root, "")), strings.TrimPrefix(show(d), "nothing"))
			d.ProcessCrash()
			require.Equal(t, strings.TrimSpace(o.visible(o.root, "")), strings.TrimPrefix(show(d), "nothing"))
		})
	})
}

func (o *oracle) visible(dir *object, prefix string) (s string) {
	for _, name := range slices.Sorted(maps.Keys(dir.children)) {
		if n := dir.children[name]; n.dir {
			s += prefix + name + "/ " + o.visible(n, prefix+name+"/")
		} else {
			s += prefix + name + "=" + describe(n.cur) + " "
		}
	}
	return s
}

// Writeback only takes outcomes away; readers do not notice.
func TestBackground(t *testing.T) {
	each(t, func(t *testing.T, p Personality) {
		rapid.Check(t, func(t *rapid.T) {
			d := New(p)
			drawProgram(t, d, newOracle(p))
			before, seen := states(d), show(d)
			for seed := range uint64(4) {
				d.Background(newPCG(seed))
				requireSound(t, d)
				require.Equal(t, seen, show(d))
				after := states(d)
				require.Empty(t, minus(after, before))
				before = after
			}
			d.Background(&script{keepAll})
			require.Equal(t, []string{seen}, states(d))
		})
	})
}

// A disk after a power loss is as good as a new one with the same contents.
func TestImageIsADisk(t *testing.T) {
	each(t, func(t *testing.T, p Personality) {
		rapid.Check(t, func(t *rapid.T) {
			d := New(p)
			drawProgram(t, d, newOracle(p))
			d.PowerLoss(newPCG(rapid.Uint64().Draw(t, "seed")))
			requireSound(t, d)
			fresh := New(p)
			copyTree(t, d, fresh, d.Root(), fresh.Root())
			require.Equal(t, show(d), show(fresh))
			require.Equal(t, d.Hash(), fresh.Hash())
			for range 12 {
				if line := drawStep(t); d.CrashCount() < 1000 {
					require.Equal(t, attempt(fresh, line), attempt(d, line), line)
				}
			}
			require.Equal(t, states(fresh), states(d))
		})
	})
}

// copyTree makes durable in target all that source shows.
func copyTree(t require.TestingT, source, target *Disk, from, to Ino) {
	infos, err := source.List(from)
	require.NoError(t, err)
	for _, info := range infos {
		if info.Dir {
			i, err := target.Mkdir(to, info.Name)
			require.NoError(t, err)
			copyTree(t, source, target, Ino(info.ID.Inode), i)
			continue
		}
		i, err := target.Create(to, info.Name)
		require.NoError(t, err)
		b := make([]byte, info.Size)
		_, err = source.ReadAt(Ino(info.ID.Inode), b, 0)
		if len(b) > 0 {
			require.NoError(t, err)
		}
		require.NoError(t, target.WriteAt(i, b, 0))
		require.NoError(t, target.Sync(i))
	}
	require.NoError(t, target.SyncDir(to))
}

// busy is a program that leaves much unsynced, in many files.
func busy(t testing.TB, d *Disk) {
	run(t, d, "mkdir d", "mkdir e", "durable a AB")
	for i := range 12 {
		run(t, d, fmt.Sprintf("create d/f%d", i), fmt.Sprintf("write d/f%d ABC", i), fmt.Sprintf("truncate d/f%d 700", i),
			fmt.Sprintf("put d/f%d x*900 @300", i))
	}
	run(t, d, "write a CD", "rename a e/a", "rename d/f3 b", "remove d/f4", "sync b", "failsync d/f7 visible", "write d/f7 Z @1")
}

// Equal operations and equal choices give equal disks.
func TestPure(t *testing.T) {
	each(t, func(t *testing.T, p Personality) {
		images, enumerated := map[uint64]bool{}, map[string]bool{}
		for i := range 200 {
			d := New(p)
			busy(t, d)
			if i < 10 {
				var order strings.Builder
				for img := range d.Crashes(20) {
					fmt.Fprintf(&order, "%x ", img.Hash())
				}
				enumerated[order.String()] = true
			}
			d.Background(newPCG(6))
			d.PowerLoss(newPCG(7))
			images[d.Hash()] = true
		}
		require.Len(t, images, 1)
		require.Len(t, enumerated, 1)
	})
}

func TestNothingPendingDrawsNothing(t *testing.T) {
	each(t, func(t *testing.T, p Personality) {
		d := New(p)
		run(t, d, "durable a AB", "write a C", "failsync a visible")
		rng := newPCG(1)
		require.Equal(t, Report{}, d.PowerLoss(rng))
		require.Zero(t, rng.draws)
		require.Equal(t, "a=AB", show(d))
	})
}

func TestReport(t *testing.T) {
	d := New(Adversarial)
	run(t, d, "durable a ABC", "write a DEF", "durable b X", "write b Y @1", "create c", "create d")
	lost := d.Clone()
	require.Equal(t, Report{SectorsLost: 4, NamesLost: 2, SizesLost: 1}, lost.PowerLoss(&script{loseAll}))
	kept := d.Clone()
	require.Equal(t, Report{SectorsKept: 4, NamesKept: 2, SizesKept: 1}, kept.PowerLoss(&script{keepAll}))
	// c survives, d does not; D and F survive, E does not; Y survives with its size.
	torn := d.Clone()
	r := torn.PowerLoss(&script{anything, 1, 0, 1, 0, 1, 1, 1})
	require.Equal(t, "a=DBF b=XY c=", show(torn))
	require.Equal(t, Report{SectorsKept: 3, SectorsLost: 1, TornWrites: 1, NamesKept: 1, NamesLost: 1, SizesKept: 1}, r)
}

func TestTornGarbage(t *testing.T) {
	d := New(Adversarial)
	run(t, d, "durable a ABC", "write a DE")
	garbage := 0
	for seed := range uint64(50) {
		img := d.Clone()
		r := img.PowerLossWith(newPCG(seed), Loss{TornGarbage: true})
		b, _ := img.DurableFile("a")
		require.Len(t, b, 3*sectorSize)
		strange := 0
		for i, legal := range []string{"AD", "BE", "C"} {
			if got := describe(b[i*sectorSize : (i+1)*sectorSize]); !strings.Contains(legal, got) {
				strange++
			}
		}
		require.Equal(t, r.Garbage, strange)
		require.True(t, strings.HasSuffix(describe(b[2*sectorSize:]), "C"), "a sector at rest is never torn")
		garbage += strange
		requireSound(t, img)
	}
	require.Greater(t, garbage, 10)
}

func TestCloneIndependence(t *testing.T) {
	each(t, func(t *testing.T, p Personality) {
		rapid.Check(t, func(t *rapid.T) {
			a := New(p)
			drawProgram(t, a, newOracle(p))
			b := a.Clone()
			require.Equal(t, a.Hash(), b.Hash())
			seen, after := show(b), states(b)
			for range 20 {
				attempt(a, drawStep(t))
			}
			require.Equal(t, seen, show(b))
			require.Equal(t, after, states(b))
			seen = show(a)
			b.PowerLoss(newPCG(1))
			for range 20 {
				attempt(b, drawStep(t))
			}
			require.Equal(t, seen, show(a))
			requireSound(t, a)
			requireSound(t, b)
		})
	})
}

// Images do not share what they change, neither with each other nor with the disk.
func TestImagesAreIndependent(t *testing.T) {
	d := New(Adversarial)
	run(t, d, "durable a ABC", "durable b XYZ", "write a D @1")
	images := slices.Collect(d.Crashes(0))
	require.Len(t, images, 2)
	for _, img := range images {
		run(t, img, "write a E", "write b E", "create c")
	}
	run(t, d, "write a F @2", "write b F @2")
	require.Equal(t, "a=EBC b=EYZ c=", show(images[0]))
	require.Equal(t, "a=EDC b=EYZ c=", show(images[1]))
	require.Equal(t, "a=ADF b=XYF", show(d))
}

func TestCrashesLimit(t *testing.T) {
	each(t, func(t *testing.T, p Personality) {
		d := New(p)
		run(t, d, "create a", "preallocate a 20480", "sync a", "syncdir .", "write a ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmn")
		require.EqualValues(t, 1<<40, d.CrashCount())
		var c Count
		seen := map[string]bool{}
		for img := range d.CrashesCounted(100, &c) {
			seen[show(img)] = true
		}
		require.Len(t, seen, 100)
		require.EqualValues(t, 100, c.Images)
		require.Equal(t, uint64(1<<40), c.Skipped+c.Images+c.Duplicates)
		require.Contains(t, seen, "a="+strings.Repeat(".", 40), "crash before")
		require.Contains(t, seen, "a=ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmn", "crash after")

		run(t, d, "sync a", "write a 0")
		require.Len(t, slices.Collect(d.CrashesCounted(1, &c)), 1)
		require.Equal(t, Count{Images: 1, Skipped: 1}, c)
		require.Len(t, slices.Collect(d.CrashesCounted(2, &c)), 2)
		require.Equal(t, Count{Images: 2}, c)
	})
}

// More names than can be counted.
func TestCrashesOfManyNames(t *testing.T) {
	d := New(Adversarial)
	for i := range 100 {
		run(t, d, fmt.Sprintf("create f%d", i))
	}
	require.Equal(t, ^uint64(0), d.CrashCount())
	var c Count
	require.Len(t, slices.Collect(d.CrashesCounted(50, &c)), 50)
	require.Equal(t, ^uint64(0), c.Skipped)
}

func TestDurableFile(t *testing.T) {
	d := New(Adversarial)
	run(t, d, "mkdir d", "syncdir .", "durable d/a AB", "write d/a C", "truncate d/a 100", "create b", "write b X", "sync b")
	b, ok := d.DurableFile("d/a")
	require.True(t, ok)
	require.Equal(t, "AB", describe(b))
	for _, p := range []string{"b", "d", "d/b", "d/a/x"} {
		_, ok = d.DurableFile(p)
		require.False(t, ok, p)
	}
	require.Equal(t, "d/ d/a=AB", show(d.Durable()))
	require.Equal(t, d.Durable().Hash(), d.DurableHash())
	require.NotEqual(t, d.Hash(), d.DurableHash())
	var dump strings.Builder
	d.Dump(&dump)
	for _, want := range []string{`file "a"`, "sector 0 dirty", `link 1:"b"`, "durable size 1024"} {
		require.Contains(t, dump.String(), want)
	}
}

// The hash sees every bit, every size and every name, and nothing else.
func TestHash(t *testing.T) {
	build := func(program ...string) uint64 {
		d := New(Adversarial)
		run(t, d, program...)
		return d.Hash()
	}
	base := []string{"mkdir d", "create a", "write a AB"}
	same := [][]string{
		{"create a", "write a XB", "write a A", "mkdir d", "sync a", "create x", "remove x"},
		{"create x", "write x ABC", "mkdir e", "rename x a", "rename e d", "truncate a 1024"},
	}
	for _, program := range same {
		require.Equal(t, build(base...), build(program...), program)
	}
	hashes := map[uint64]bool{build(base...): true}
	different := [][]string{
		{"write a AC"}, {"truncate a 1023"}, {"truncate a 1025"}, {"rename a b"}, {"rename a d/a"},
		{"remove d"}, {"create b"}, {"mkdir b"}, {"write a A @1", "write a B"}, {"put a A*1 @512"},
	}
	for _, more := range different {
		hashes[build(append(slices.Clone(base), more...)...)] = true
	}
	require.Len(t, hashes, 1+len(different))
}

// Writeback stops where it was drawn to stop.
func TestBackgroundInPart(t *testing.T) {
	d := New(Adversarial)
	run(t, d, "durable a A", "write a B @1", "write a C @2", "write a D @1", "create b", "create c")
	// b, not c; the size after B; of sector 1 the contents B.
	d.Background(&script{anything, 1, 0, 1, 1})
	require.Equal(t, "a=ADC b= c=", show(d))
	require.Equal(t, "a=AB b=", show(d.Durable()))
	require.Equal(t, []string{
		"a=AB b=", "a=AB b= c=", "a=AB. b=", "a=AB. b= c=", "a=ABC b=", "a=ABC b= c=",
		"a=AD b=", "a=AD b= c=", "a=AD. b=", "a=AD. b= c=", "a=ADC b=", "a=ADC b= c=",
	}, states(d))
}

// More appends than are remembered: whatever sizes merged, Ordered shows none without its data.
func TestManyAppendsOrdered(t *testing.T) {
	const all = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	d := New(Ordered)
	run(t, d, "create a", "syncdir .")
	for i := range all {
		run(t, d, fmt.Sprintf("write a %c @%d", all[i], i))
	}
	got := states(d)
	require.Len(t, got, pendingSizesMax+1)
	for _, s := range got {
		require.True(t, strings.HasPrefix("a="+all, s), s)
	}
	require.Contains(t, got, "a="+all)
	require.Contains(t, got, "a=")
}
