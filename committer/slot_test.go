package committer

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"narad/vfs"
)

var update = flag.Bool("update", false, "rewrite golden files")

func encode(r record) []byte {
	b, _ := appendRecord(nil, r)
	return b
}

// sealed computes the checksum of a hand-made record anew.
func sealed(rec []byte) []byte {
	length := binary.LittleEndian.Uint32(rec[36:])
	binary.LittleEndian.PutUint32(rec[checksumAt:], checksum(rec[:headerSize+length]))
	return rec
}

// the layout is frozen. COM-12: every record carries the frontier and the offsets above it.
func TestSlotGolden(t *testing.T) {
	runs := State{Committed: 41, Ahead: []int64{43, 44, 45, 1000000}}
	got := hex.Dump(encode(record{identity: 0x1122334455667788, seq: 7, state: State{Committed: -1}})) +
		hex.Dump(encode(record{identity: 1, seq: 8, state: State{Committed: 9, Ahead: []int64{11, 13, 15, 17}}})) +
		hex.Dump(encode(record{identity: 2, seq: math.MaxUint64, state: runs}))
	path := filepath.Join("testdata", "slot.golden")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, strings.ReplaceAll(string(want), "\r\n", "\n"), got)
}

// COM-17: whatever byte of a record is damaged, the slot is recognised as damaged, with a named reason.
func TestEverySlotByteFlipped(t *testing.T) {
	whole := encode(record{identity: 5, seq: 3, state: State{Committed: 100, Ahead: []int64{102, 105, 106, 4000}}})
	length := headerSize + int(binary.LittleEndian.Uint32(whole[36:]))
	for i := range length {
		for bit := range 8 {
			b := slices.Clone(whole)
			b[i] ^= 1 << bit
			_, err := decodeSlot(b)
			switch {
			case i < 4:
				require.ErrorIs(t, err, ErrMagic, "byte %d", i)
			case i == 4:
				require.ErrorIs(t, err, ErrVersion, "byte %d", i)
			case i >= 36 && i < 40: // a length that still fits its slot shows in the checksum
				require.True(t, errorIsAny(err, ErrLength, ErrChecksum), "byte %d: %v", i, err)
			default:
				require.ErrorIs(t, err, ErrChecksum, "byte %d", i)
			}
		}
	}
}

func TestImpossibleContents(t *testing.T) {
	fresh := func() []byte { // one offset: bitmap of one byte
		return encode(record{identity: 5, seq: 3, state: State{Committed: 1, Ahead: []int64{3}}})
	}
	for name, damage := range map[string]func(b []byte) []byte{
		"reserved byte":      func(b []byte) []byte { b[6] = 1; return sealed(b) },
		"unknown encoding":   func(b []byte) []byte { b[5] = 3; return sealed(b) },
		"no encoding":        func(b []byte) []byte { b[5] = 0; return sealed(b) },
		"sequence zero":      func(b []byte) []byte { clear(b[16:24]); return sealed(b) },
		"frontier below -1":  func(b []byte) []byte { binary.LittleEndian.PutUint64(b[24:], math.MaxUint64-1); return sealed(b) },
		"count too high":     func(b []byte) []byte { b[32] = 2; return sealed(b) },
		"count beyond bound": func(b []byte) []byte { b[34] = 0xff; return sealed(b) },
		"empty last byte":    func(b []byte) []byte { b[36], b[45] = 2, 0; return sealed(b) },
		"frontier at the end of numbers": func(b []byte) []byte {
			binary.LittleEndian.PutUint64(b[24:], math.MaxInt64)
			return sealed(b)
		},
		"runs that touch": func(b []byte) []byte {
			b[5], b[32], b[36] = encodingRuns, 2, 4
			copy(b[44:], []byte{1, 1, 0, 1})
			return sealed(b)
		},
		"run of none": func(b []byte) []byte {
			b[5], b[32], b[36] = encodingRuns, 1, 4
			copy(b[44:], []byte{1, 0, 1, 1})
			return sealed(b)
		},
		"run longer than count": func(b []byte) []byte {
			b[5], b[36] = encodingRuns, 2
			copy(b[44:], []byte{1, 2})
			return sealed(b)
		},
		"cut uvarint": func(b []byte) []byte {
			b[5], b[36] = encodingRuns, 1
			b[44] = 0x80
			return sealed(b)
		},
	} {
		_, err := decodeSlot(damage(fresh()))
		require.ErrorIs(t, err, ErrContent, name)
	}
	_, err := decodeSlot(make([]byte, slotSize))
	require.ErrorIs(t, err, ErrBlank)
	_, err = decodeSlot(fresh()[:headerSize-1])
	require.ErrorIs(t, err, ErrLength)
	_, err = decodeSlot(fresh()[:headerSize])
	require.ErrorIs(t, err, ErrLength)
}

// genState draws states of all shapes: dense, sparse, long runs, far apart.
func genState(t *rapid.T) State {
	s := State{Committed: rapid.Int64Range(-1, 1<<40).Draw(t, "committed")}
	next := s.Committed + 1
	for range rapid.IntRange(0, 40).Draw(t, "runs") {
		next += rapid.SampledFrom([]int64{1, 1, 2, 7, 300, 40000, 1 << 33}).Draw(t, "gap")
		for range rapid.SampledFrom([]int{1, 1, 2, 9, 200, 3000}).Draw(t, "length") {
			s.Ahead = append(s.Ahead, next)
			next++
		}
	}
	return s
}

// COM-63: frontier and set come back as one; COM-36: if not all fit, exactly the lowest.
func TestSlotRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genState(t)
		r := record{identity: rapid.Uint64().Draw(t, "identity"), seq: rapid.Uint64Min(1).Draw(t, "seq"), state: s}
		b, stored := appendRecord(nil, r)
		require.LessOrEqual(t, len(b), slotSize)
		require.Zero(t, len(b)%vfs.SectorSize)
		got, err := decodeSlot(append(b, make([]byte, slotSize-len(b))...))
		require.NoError(t, err)
		require.Equal(t, r.identity, got.identity)
		require.Equal(t, r.seq, got.seq)
		require.Equal(t, s.Committed, got.state.Committed)
		require.Len(t, got.state.Ahead, stored)
		require.True(t, slices.Equal(s.Ahead[:stored], got.state.Ahead))
	})
}

// the default caps always fit, whatever the order of the acks. COM-36, INV-13: more than a slot holds
// keeps the lowest.
func TestSlotCapacity(t *testing.T) {
	alternate := State{Committed: 10}
	for i := range int64(2048) {
		alternate.Ahead = append(alternate.Ahead, 12+2*i)
	}
	b, stored := appendRecord(nil, record{identity: 1, seq: 1, state: alternate})
	require.Equal(t, 2048, stored)
	require.LessOrEqual(t, len(b), 1024, "2048 offsets of span 4096 are a bitmap of 512 bytes")

	far := State{Committed: -1}
	for i := range int64(5000) {
		far.Ahead = append(far.Ahead, 1+i*1000)
	}
	_, stored = appendRecord(nil, record{identity: 1, seq: 1, state: far})
	require.Equal(t, 1+(payloadMax-2)/3, stored, "the first takes two bytes, each gap of 998 and run of 1 three")

	one := State{Committed: -1}
	for i := range int64(countMax + 10) {
		one.Ahead = append(one.Ahead, 1+i)
	}
	_, stored = appendRecord(nil, record{identity: 1, seq: 1, state: one})
	require.Equal(t, countMax, stored)
}

// The last run is cut where the slot ends, also when its length would take one byte more.
func TestRunsEndInsideARun(t *testing.T) {
	require.Equal(t, 0, cutRun(5, 0))
	require.Equal(t, 5, cutRun(5, 1))
	require.Equal(t, 127, cutRun(300, 1))
	require.Equal(t, 300, cutRun(300, 2))
	for spare := range 4 {
		s := State{Committed: -1}
		next := int64(100)
		for size := 0; size+3 <= payloadMax-2-spare; size += 3 {
			s.Ahead = append(s.Ahead, next)
			next += 1000
		}
		for i := range int64(20000) {
			s.Ahead = append(s.Ahead, next+i)
		}
		b, stored := appendRecord(nil, record{identity: 1, seq: 1, state: s})
		got, err := decodeSlot(b)
		require.NoError(t, err)
		require.True(t, slices.Equal(s.Ahead[:stored], got.state.Ahead))
	}
}

// C1: a state that is none is a bug of the caller, not a record.
func TestStateIsAsserted(t *testing.T) {
	for _, s := range []State{{Committed: -2}, {Committed: 3, Ahead: []int64{3}}, {Committed: 3, Ahead: []int64{6, 5}}} {
		require.Panics(t, func() { encode(record{seq: 1, state: s}) })
	}
}

// BUG-132, Q-03: consumer.offset of a wrong size or below -1 counts as absent.
func TestDecodeOffset(t *testing.T) {
	v, err := decodeOffset(encodeOffset(1 << 40))
	require.NoError(t, err)
	require.Equal(t, int64(1<<40), v)
	require.Equal(t, []byte{0, 0, 1, 0, 0, 0, 0, 0}, encodeOffset(1<<40), "big-endian")
	v, err = decodeOffset(encodeOffset(-1))
	require.NoError(t, err)
	require.Equal(t, int64(-1), v)
	for size := range 20 {
		if size != offsetSize {
			v, err := decodeOffset(make([]byte, size))
			require.ErrorIs(t, err, ErrSize)
			require.Equal(t, int64(-1), v)
		}
	}
	v, err = decodeOffset(encodeOffset(-2))
	require.ErrorIs(t, err, ErrFrontier)
	require.Equal(t, int64(-1), v)
}

// COM-61, REC-10: the higher sequence wins, the larger frontier between equals; damage and foreigners never.
func TestChooseSlots(t *testing.T) {
	file := func(a, b []byte) []byte {
		f := make([]byte, aheadSize)
		copy(f, a)
		copy(f[slotSize:], b)
		return f
	}
	slot := func(identity, seq uint64, committed int64) []byte {
		return encode(record{identity: identity, seq: seq, state: State{Committed: committed}})
	}
	torn := slot(1, 9, 90)
	torn[30] ^= 1
	for _, c := range []struct {
		name   string
		data   []byte
		newest int
	}{
		{"nothing", nil, noSlot},
		{"zeros", file(nil, nil), noSlot},
		{"only slot 0, a move's copy", slot(1, 4, 40), 0},
		{"newest in slot 1", file(slot(1, 4, 40), slot(1, 5, 50)), 1},
		{"newest in slot 0", file(slot(1, 6, 30), slot(1, 5, 50)), 0},
		{"equal sequence", file(slot(1, 5, 40), slot(1, 5, 50)), 1},
		{"equal sequence, other way", file(slot(1, 5, 50), slot(1, 5, 40)), 0},
		{"torn newest", file(slot(1, 4, 40), torn), 0},
		{"both torn", file(torn, torn), noSlot},
		{"foreign newest", file(slot(1, 4, 40), slot(2, 9, 90)), 0},
	} {
		s := chooseSlots(c.data, 1)
		require.Equal(t, c.newest, s.Newest, c.name)
		for i := range s.Slot {
			won := i == c.newest
			require.Equal(t, won, s.Slot[i].Err == nil && s.Slot[i].Lost == "", "%s: slot %d", c.name, i)
		}
	}
	s := chooseSlots(file(slot(1, 4, 40), slot(2, 9, 90)), 1)
	require.ErrorIs(t, s.Slot[1].Err, ErrForeign)
	var corrupt *CorruptError
	require.ErrorAs(t, s.Slot[1].Err, &corrupt)
	require.Equal(t, int64(slotSize), corrupt.Offset)
	require.Equal(t, uint64(9), s.Slot[1].Sequence, "inspection still sees what the foreigner holds")
	require.Contains(t, chooseSlots(file(slot(1, 4, 40), slot(1, 5, 50)), 1).Slot[0].Lost, "4 is below 5")
}

func errorIsAny(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// REC-10: no bytes make the decoder panic or hand out an impossible state; what it accepts survives a
// round trip.
func FuzzDecodeSlot(f *testing.F) {
	f.Add(make([]byte, slotSize))
	f.Add(encode(record{identity: 5, seq: 3, state: State{Committed: 100, Ahead: []int64{102, 105, 106, 4000}}}))
	f.Add(encode(record{identity: 5, seq: 3, state: State{Committed: -1, Ahead: []int64{7, 1 << 40}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > slotSize {
			b = b[:slotSize]
		}
		tryDecode(t, b)
		if len(b) >= headerSize { // again with the gates that random bytes do not pass
			c := slices.Clone(b)
			copy(c, slotMagic[:])
			c[4] = slotVersion
			binary.LittleEndian.PutUint32(c[36:], binary.LittleEndian.Uint32(c[36:])%uint32(len(c)-headerSize+1))
			tryDecode(t, sealed(c))
		}
	})
}

func tryDecode(t *testing.T, b []byte) {
	r, err := decodeSlot(b)
	if err != nil {
		require.True(t, errorIsAny(err, ErrBlank, ErrMagic, ErrVersion, ErrLength, ErrChecksum, ErrContent), "%v", err)
		return
	}
	require.NotPanics(t, func() { assertState(r.state) })
	again, err := decodeSlot(encode(r))
	require.NoError(t, err)
	require.Equal(t, r.state.Committed, again.state.Committed)
	require.True(t, slices.Equal(r.state.Ahead, again.state.Ahead))
}

// BUG-132: no contents of consumer.offset are read as a frontier but 8 bytes of a number from -1.
func FuzzDecodeOffset(f *testing.F) {
	f.Add([]byte{})
	f.Add(encodeOffset(77))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe})
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := decodeOffset(b)
		require.GreaterOrEqual(t, v, int64(-1))
		if err != nil {
			require.Equal(t, int64(-1), v)
		} else {
			require.Equal(t, b, encodeOffset(v))
		}
	})
}
