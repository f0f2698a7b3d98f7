package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/committer"
	"narad/metastore"
	"narad/record"
	"narad/segment"
	"narad/sim/disk"
	"narad/vfs"
	"narad/wal"
)

// specimen is a data directory of which every byte is on the disk, and what it has to yield.
type specimen struct {
	name    string
	disk    *disk.Disk
	promise promise
	copies  map[place]string // what each place holds, after everything is dispatched
	stored  map[place]string // … and before
	files   map[string][]byte
	paths   []string
}

// specimens are small data directories: after a graceful stop, and after crashes at two moments.
func specimens(t *testing.T) (list []*specimen) {
	d, l, next := disk.New(disk.Adversarial), newLedger(), 0
	for i, name := range []string{"stopped", "crashed", "crashed later"} {
		require.NoError(t, tellLife(i, d, nil, l, &next))
		s := &specimen{name: name, disk: d.Clone(), promise: l.promise(), files: map[string][]byte{}}
		root := openData(s.disk)
		syncAll(root)
		f, err := reopen(1, s.disk.Clone(), nil)
		require.NoError(t, err)
		require.NoError(t, f.check(s.promise))
		s.copies, s.stored = f.state(s.promise).copies, map[place]string{}
		for at, id := range s.copies { // order-free: into a map
			if at.Offset < f.hw[at.Key] {
				s.stored[at] = id
			}
		}
		walk(s.disk, func(path string, size int64) {
			path = strings.TrimPrefix(path, "data/")
			b, err := vfs.ReadFile(root, path, 1<<20)
			require.NoError(t, err)
			s.files[path] = b
			s.paths = append(s.paths, path)
		})
		list = append(list, s)
	}
	return list
}

func openData(d *disk.Disk) vfs.Dir {
	root, err := disk.FS(d).OpenRoot("data", false)
	if err != nil {
		panic(err)
	}
	return root
}

// syncAll makes everything durable.
func syncAll(dir vfs.Dir) {
	entries, err := dir.List()
	must(err)
	for _, e := range entries {
		if e.Dir {
			sub, err := dir.OpenDir(e.Name)
			must(err)
			syncAll(sub)
			must(sub.Close())
			continue
		}
		f, err := dir.Open(e.Name)
		must(err)
		must(f.Sync())
		must(f.Close())
	}
	must(dir.Sync())
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// overwrite gives a file other contents, making it when it is missing.
func overwrite(d *disk.Disk, path string, b []byte) {
	root := openData(d)
	defer root.Close()
	f, err := root.Open(path)
	if err != nil {
		f, err = root.Create(path)
	}
	must(err)
	defer f.Close()
	must(f.Truncate(int64(len(b))))
	if len(b) > 0 {
		_, err = f.WriteAt(b, 0)
		must(err)
	}
	must(f.Sync())
	syncAll(root)
}

// verdict is what opening and draining a damaged directory came to.
type verdict uint8

const (
	kept     verdict = iota // everything accepted is delivered, or was acked
	returned                // the same, but acks that were stored have come undone
	refused                 // a typed error that names a file and a place in it
	skipped                 // the lost offsets are exactly those that were counted as unreadable
	exempt                  // something is lost for one of the reasons in exemptions
	lost                    // anything else
)

func (v verdict) String() string {
	return [...]string{"kept", "acks undone", "refused", "counted as unreadable", "exempt", "LOST"}[v]
}

// allocated is how many bytes the process has allocated since it began.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// storm is more than a directory of a few dozen kilobytes can give a reason to allocate.
const storm = 64 << 20

// case of damage, opened and drained.
type opened struct {
	*specimen
	damage
	found *found
	gone  []string // accepted messages that are lost without having been counted as unreadable
	moved []place  // places that count as settled and were never acked
}

// judge opens a damaged copy and says what became of the messages.
func (s *specimen) judge(x damage) (verdict, string) {
	d := s.disk.Clone()
	x.do(d)
	before := allocated()
	f, err := reopen(1, d, nil)
	if err != nil {
		return lost, fmt.Sprintf("panic or hang: %v", err)
	}
	if n := allocated() - before; n > storm {
		return lost, fmt.Sprintf("%d MiB were allocated", n>>20)
	}
	for _, err := range f.refusals() {
		if !typed(err) {
			return lost, fmt.Sprintf("an error that does not say what is damaged, and where: %v", err)
		}
	}
	if f.err != nil {
		return refused, f.err.Error()
	}
	if f.altered != nil {
		return lost, f.altered.Error()
	}
	for _, at := range sortedPlaces(f.delivered) {
		if id := f.delivered[at]; !s.promise.tried[id] {
			return lost, fmt.Sprintf("%v holds %s, which nobody produced", at, id)
		}
	}
	c := opened{specimen: s, damage: x, found: f, moved: f.unacked(s.promise)}
	counted := map[string]bool{}
	for at := range f.skipped { // order-free: into a set
		counted[s.copies[at]] = true
	}
	for _, id := range f.lost(s.promise) {
		if refusedAll := len(f.refused) > 0 && f.refused[s.placeOf(id).Key] != nil; !counted[id] && !refusedAll {
			c.gone = append(c.gone, id)
		}
	}
	if len(c.gone) > 0 || len(c.moved) > 0 {
		for _, e := range exemptions {
			if e.covers(c) {
				return exempt, e.name
			}
		}
		return lost, fmt.Sprintf("%v, settled and never acked %v; watermarks %v, refused %v, cuts %v, loud %v, set aside %v",
			c.gone, c.moved, f.ends, f.refused, f.cut, f.loud, f.aside)
	}
	for _, at := range sortedPlaces(f.skipped) {
		if _, known := s.copies[at]; !known && !strings.HasPrefix(x.what, "copied to") {
			return lost, fmt.Sprintf("%v was counted as unreadable and never existed", at)
		}
	}
	switch {
	case len(f.refused) > 0:
		return refused, ""
	case len(f.skipped) > 0:
		return skipped, ""
	case len(f.returned(s.promise)) > 0:
		return returned, ""
	}
	return kept, ""
}

// placeOf returns where a message is stored in the intact directory.
func (s *specimen) placeOf(id string) place {
	for _, at := range sortedPlaces(s.copies) {
		if s.copies[at] == id {
			return at
		}
	}
	return place{}
}

// refusals returns what was refused, the whole directory or partitions of it.
func (f *found) refusals() (list []error) {
	if f.err != nil {
		list = append(list, f.err)
	}
	for _, err := range f.refused { // order-free: each on its own
		list = append(list, err)
	}
	return list
}

// typed reports whether an error says which file is damaged and where.
func typed(err error) bool {
	var (
		ofWAL       *wal.CorruptError
		ofLog       *segment.CorruptError
		ofFiles     *segment.DamageError
		ofConsumer  *committer.CorruptError
		ofMetastore *metastore.CorruptError
		ofEngine    *CorruptError
	)
	return errors.As(err, &ofWAL) && ofWAL.File != "" || errors.As(err, &ofLog) && ofLog.File != "" ||
		errors.As(err, &ofFiles) && ofFiles.File != "" ||
		errors.As(err, &ofConsumer) && ofConsumer.File != "" || errors.As(err, &ofMetastore) && ofMetastore.File != "" ||
		errors.As(err, &ofEngine) && ofEngine.File != ""
}

// An exemption is a class of damage that loses messages or deliveries, because the formats, which the specification fixes, hold
// nothing that would tell. Each is as narrow as it can be said.
type exemption struct {
	name   string
	covers func(c opened) bool
}

var exemptions = []exemption{
	{
		// The last frame of the ingress log that is above the checkpoint, for the same reason, and the frames from a sector of
		// zeros on, which a write leaves that was not completed. Told as wal.TailCut, but for a file that ends between two
		// frames. Everything else is refused.
		"end of the ingress log",
		func(c opened) bool {
			if strings.HasPrefix(c.what, "byte") && !slices.Equal(c.gone, []string{slices.Max(c.promise.accepted)}) {
				return false // one byte costs one frame, and only the last
			}
			return kindOf(c.path) == "*.wal" && c.path == c.last("ingress/produce/", ".wal") && len(c.moved) == 0 &&
				c.only(func(at place) bool { _, dispatched := c.stored[at]; return !dispatched })
		},
	},
	{
		// checkpoint is 8 bytes without a checksum. A number above the right one, and not above the end of the log, skips
		// messages that were not dispatched.
		"checkpoint altered to a higher one",
		func(c opened) bool {
			return c.path == "ingress/produce/checkpoint" && len(c.moved) == 0 &&
				c.only(func(at place) bool { _, dispatched := c.stored[at]; return !dispatched })
		},
	},
	{
		// consumer.offset is 8 bytes without a checksum, and the larger of the two frontiers counts, at most the end
		// of the log, and then loudly. So a larger number settles what is below it. A smaller one does nothing.
		"consumer.offset altered to a larger frontier",
		func(c opened) bool {
			if kindOf(c.path) != "consumer.offset" && !strings.HasSuffix(c.what, "consumer.offset") {
				return false
			}
			moved := map[place]bool{}
			for _, at := range c.moved {
				moved[at] = true
			}
			return c.only(func(at place) bool { return moved[at] })
		},
	},
	{
		// Frames of a partition log say their offset, not their partition. Where two partitions have frames of one layout, and
		// messages that differ in one sector only, exchanging that sector makes each the other's frame.
		"sectors of two partitions exchanged",
		func(c opened) bool {
			return c.other != "" && len(c.moved) == 0 && c.only(func(at place) bool {
				from := c.placeOf(c.found.delivered[at])
				return from.Offset == at.Offset && (from.Key == c.key(c.path) || from.Key == c.key(c.other)) ||
					c.beyondCut(c.path, at) || c.beyondCut(c.other, at)
			})
		},
	},
}

// only reports whether all lost messages are stored at places for which fits is true.
func (c opened) only(fits func(at place) bool) bool {
	for _, id := range c.gone {
		if !fits(c.placeOf(id)) {
			return false
		}
	}
	return true
}

// key returns the partition that a file belongs to.
func (s *specimen) key(path string) (k Key) {
	if part := strings.Split(path, "/"); len(part) == 4 {
		k.Topic = part[1]
		fmt.Sscanf(part[2], "p%05d", &k.Partition)
	}
	return k
}

// base returns the first offset in a segment.
func (s *specimen) base(path string) (n int64) {
	fmt.Sscanf(path[strings.LastIndex(path, "/")+1:], "%020d", &n)
	return n
}

// last returns the last file below a directory with that suffix.
func (s *specimen) last(dir, suffix string) (path string) {
	for _, p := range s.paths {
		if strings.HasPrefix(p, dir) && strings.HasSuffix(p, suffix) {
			path = p
		}
	}
	return path
}

// beyondCut reports whether a place was cut off the end of a newest segment.
func (c opened) beyondCut(path string, at place) bool {
	key, newest := c.newest(path)
	return path == newest && at.Key == key && at.Offset >= c.found.hw[key]
}

// newest returns the partition of a file and its newest segment.
func (c opened) newest(path string) (Key, string) {
	k := c.key(path)
	return k, c.last(fmt.Sprintf("topics/%s/p%05d/", k.Topic, k.Partition), ".log")
}

// frames returns the frames of an intact segment.
func (s *specimen) frames(path string) (list []record.Frame) {
	for b := s.files[path]; len(b) > 0; {
		f, n, err := record.ParseFrame(b)
		must(err)
		list = append(list, f)
		b = b[n:]
	}
	return list
}

func (s *specimen) records(path string) (n int64) {
	for _, f := range s.frames(path) {
		n += int64(f.Count)
	}
	return n
}

// lastFrame returns the first offset of the last frame of the damaged file.
func (c opened) lastFrame() int64 {
	list := c.frames(c.path)
	return list[len(list)-1].Base
}

// inLengths reports whether the damaged byte of the newest segment is one of a header, or of the lengths between messages.
func (c opened) inLengths() bool {
	var at int
	fmt.Sscanf(c.what, "byte %d", &at)
	b := c.files[c.path]
	for len(b) > 0 {
		f, n, err := record.ParseFrame(b)
		must(err)
		if at < n {
			if at -= record.FrameHeaderSize; at < 0 || f.Codec != record.CodecNone {
				return true
			}
			for _, r := range f.Records() {
				if at < 4 {
					return true
				}
				if at -= 4 + len(r); at < 0 {
					return false
				}
			}
		}
		at, b = at-n, b[n:]
	}
	return false
}

// damage is one way to spoil a directory.
type damage struct {
	path  string
	what  string
	do    func(d *disk.Disk)
	other string // another file that is damaged too
}

// damages lists all ways for a specimen.
func (s *specimen) damages(each func(damage)) {
	for _, path := range s.paths {
		s.bytes(path, each)
		s.numbers(path, each)
		s.sectors(path, each)
		s.swaps(path, each)
		s.names(path, each)
	}
}

// dull reports whether a byte looks like those around it, as in padding and in the fill of a message.
func dull(b []byte, i int) bool {
	for _, k := range []int{i - 2, i - 1, i + 1, i + 2} {
		if k < 0 || k >= len(b) || b[k] != b[i] {
			return false
		}
	}
	return true
}

// bytes truncates at every byte and alters every byte. Normally only some of the dull ones.
func (s *specimen) bytes(path string, each func(damage)) {
	b := s.files[path]
	for i := range b {
		if !long() && dull(b, i) && i%97 != 0 {
			continue
		}
		each(damage{path: path, what: fmt.Sprintf("truncated at %d", i), do: func(d *disk.Disk) { overwrite(d, path, b[:i]) }})
		masks := []byte{0xff, 1 << (i % 8)}
		if long() || len(b) <= 64 {
			masks = []byte{0xff, 1, 2, 4, 8, 16, 32, 64, 128}
		}
		for _, mask := range masks {
			each(damage{path: path, what: fmt.Sprintf("byte %d ^ %#02x", i, mask), do: func(d *disk.Disk) {
				c := slices.Clone(b)
				c[i] ^= mask
				overwrite(d, path, c)
			}})
		}
	}
}

// numbers gives the files that hold one number, without a checksum, every small one.
func (s *specimen) numbers(path string, each func(damage)) {
	if len(s.files[path]) != 8 {
		return
	}
	for n := range uint64(32) {
		each(damage{path: path, what: fmt.Sprintf("set to %d", n), do: func(d *disk.Disk) { overwrite(d, path, binary.BigEndian.AppendUint64(nil, n)) }})
	}
}

// sectors zeroes and swaps sectors.
func (s *specimen) sectors(path string, each func(damage)) {
	b := s.files[path]
	n := (len(b) + vfs.SectorSize - 1) / vfs.SectorSize
	sector := func(b []byte, i int) []byte { return b[i*vfs.SectorSize : min(len(b), (i+1)*vfs.SectorSize)] }
	for i := range n {
		each(damage{path: path, what: fmt.Sprintf("sector %d zeroed", i), do: func(d *disk.Disk) {
			c := slices.Clone(b)
			clear(sector(c, i))
			overwrite(d, path, c)
		}})
		each(damage{path: path, what: fmt.Sprintf("zeros from sector %d on", i), do: func(d *disk.Disk) {
			c := slices.Clone(b)
			clear(c[i*vfs.SectorSize:])
			overwrite(d, path, c)
		}})
		for k := range i {
			if slices.Equal(sector(b, i), sector(b, k)) {
				continue
			}
			each(damage{path: path, what: fmt.Sprintf("sectors %d and %d swapped", k, i), do: func(d *disk.Disk) {
				c := slices.Clone(b)
				copy(sector(c, i), sector(b, k))
				copy(sector(c, k), sector(b, i))
				overwrite(d, path, c)
			}})
		}
	}
	for _, extra := range []int{1, 7, 512, 4096} {
		each(damage{path: path, what: fmt.Sprintf("%d zeros appended", extra), do: func(d *disk.Disk) {
			overwrite(d, path, append(slices.Clone(b), make([]byte, extra)...))
		}})
	}
	if len(b) > 0 {
		each(damage{path: path, what: "contents appended once more", do: func(d *disk.Disk) { overwrite(d, path, append(slices.Clone(b), b...)) }})
	}
}

// swaps exchanges sectors between files of a kind.
func (s *specimen) swaps(path string, each func(damage)) {
	sectors := func(b []byte) int { return len(b) / vfs.SectorSize }
	for _, other := range s.paths {
		if other <= path || kindOf(other) != kindOf(path) {
			continue
		}
		a, b := s.files[path], s.files[other]
		for i := range sectors(a) {
			for k := range sectors(b) {
				x, y := a[i*vfs.SectorSize:][:vfs.SectorSize], b[k*vfs.SectorSize:][:vfs.SectorSize]
				if slices.Equal(x, y) {
					continue
				}
				each(damage{path: path, other: other, what: fmt.Sprintf("sector %d swapped with %d of %s", i, k, other), do: func(d *disk.Disk) {
					c, e := slices.Clone(a), slices.Clone(b)
					copy(c[i*vfs.SectorSize:], y)
					copy(e[k*vfs.SectorSize:], x)
					overwrite(d, path, c)
					overwrite(d, other, e)
				}})
			}
		}
	}
}

// names removes the file and puts a copy of it under every other name that somebody could take it for.
func (s *specimen) names(path string, each func(damage)) {
	each(damage{path: path, what: "removed", do: func(d *disk.Disk) {
		root := openData(d)
		defer root.Close()
		must(root.Remove(path))
		syncAll(root)
	}})
	for _, to := range s.plausible(path) {
		each(damage{path: path, what: "copied to " + to, do: func(d *disk.Disk) { overwrite(d, to, s.files[path]) }})
	}
}

// plausible returns other names for a file of that kind.
func (s *specimen) plausible(path string) (list []string) {
	dir, name := path[:strings.LastIndex(path, "/")+1], path[strings.LastIndex(path, "/")+1:]
	list = append(list, path+".tmp", path+".bak", dir+"next-segment.prep")
	for _, other := range s.paths { // over another file of the same kind
		if other != path && kindOf(other) == kindOf(path) {
			list = append(list, other)
		}
	}
	var n int
	if digits, suffix, ok := strings.Cut(name, "."); ok && len(digits) == 20 {
		fmt.Sscanf(digits, "%d", &n)
		for _, m := range []int{0, 1, n - 1, n + 1, n + 2, 1000} {
			if m >= 0 && m != n {
				list = append(list, fmt.Sprintf("%s%020d.%s", dir, m, suffix))
			}
		}
	}
	switch name {
	case "topics.snapshot":
		list = append(list, dir+"topics.journal")
	case "topics.journal":
		list = append(list, dir+"topics.snapshot")
	case "consumer.ahead":
		list = append(list, dir+"consumer.offset")
	case "consumer.offset":
		list = append(list, dir+"consumer.ahead")
	}
	return list
}

// kindOf names what a file is.
func kindOf(path string) string {
	name := path[strings.LastIndex(path, "/")+1:]
	if i := strings.IndexByte(name, '.'); i == 20 {
		name = "*" + name[i:]
	}
	return name
}

// LOG-11, LOG-12, INV-02, Q-03, Q-04: whatever is damaged in a data directory, it ends in a recovery that delivers everything
// accepted, in a typed error that names file and place, in offsets that are counted as unreadable, or in one of the
// exemptions; never in a panic, a hang or a storm of allocations.
func TestProofDamage(t *testing.T) {
	for _, s := range specimens(t) {
		t.Run(s.name, func(t *testing.T) {
			counts, total, failures := map[string]int{}, 0, 0
			s.damages(func(x damage) {
				total++
				v, why := s.judge(x)
				counts[fmt.Sprintf("%-16s %v", kindOf(x.path), v)]++
				switch {
				case v == exempt:
					counts[fmt.Sprintf("exempt: %s", why)]++
				case v == lost:
					if failures++; failures <= 20 {
						t.Errorf("%s %s: %s", x.path, x.what, why)
					}
				}
			})
			t.Logf("%d damaged directories, %d failures", total, failures)
			for _, k := range slices.Sorted(maps.Keys(counts)) {
				t.Logf("%6d %s", counts[k], k)
			}
		})
	}
}
