package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/record"
	"narad/vfs"
)

// segmentOf encodes records from first on.
func segmentOf(first uint64, payloads ...string) (b []byte) {
	for i, p := range payloads {
		b = record.AppendWALFrame(b, first+uint64(i), []byte(p))
	}
	return b
}

func samplePayloads() (payloads []string) {
	for i := range 6 {
		payloads = append(payloads, strings.Repeat(fmt.Sprintf("<%d>", i), 1+i*3))
	}
	return payloads
}

// requireSame opens twice and demands the same log both times.
func requireSame(t *testing.T, r *rig, want []string) {
	t.Helper()
	for range 2 {
		l := r.open(Options{})
		got, _ := readAll(t, l, 1)
		require.Equal(t, want, got)
		require.NoError(t, l.Close())
	}
}

// WAL-30: wherever the file ends, the whole frames before are recovered and the rest is cut.
func TestTruncatedAtEveryByte(t *testing.T) {
	payloads := samplePayloads()
	whole := segmentOf(1, payloads...)
	frames, end := 0, 0
	for size := range len(whole) + 1 {
		if size == end+record.WALHeaderSize+len(payloads[min(frames, 5)]) {
			end = size
			frames++
		}
		r := writeLog(t, map[string][]byte{segmentName(1): whole[:size]})
		requireSame(t, r, append([]string(nil), payloads[:frames]...))
		require.EqualValues(t, end, len(r.contents()[segmentName(1)]))
		cuts := eventsOf[TailCut](r)
		if size == end {
			require.Empty(t, cuts)
			continue
		}
		require.Len(t, cuts, 1)
		require.Equal(t, TailCut{File: segmentName(1), Offset: int64(end), Bytes: int64(size - end), Cause: cuts[0].Cause}, cuts[0])
		require.ErrorIs(t, cuts[0].Cause, record.ErrShort)
	}
}

// A changed byte in any frame but the last is refused, with the place, and nothing is touched; in the last
// one it cannot be told from a torn write and that frame alone is cut.
func TestEveryByteFlipped(t *testing.T) {
	payloads := samplePayloads()
	whole := segmentOf(1, payloads...)
	lastFrame := len(whole) - len(payloads[5]) - record.WALHeaderSize
	for i := range whole {
		for _, flip := range []byte{0x01, 0x10, 0x80, 0xff} {
			b := bytes.Clone(whole)
			b[i] ^= flip
			r := writeLog(t, map[string][]byte{segmentName(1): b})
			if i >= lastFrame+8 && i < lastFrame+16 {
				_, err := r.tryOpen(Options{}) // whole, but with another number: no torn write looks like that
				require.ErrorIs(t, err, errNumber)
				continue
			}
			if i >= lastFrame {
				requireSame(t, r, payloads[:5])
				continue
			}
			before := r.contents()
			_, err := r.tryOpen(Options{})
			var corrupt *CorruptError
			require.ErrorAs(t, err, &corrupt, "byte %d ^ %#x", i, flip)
			require.Equal(t, segmentName(1), corrupt.File)
			require.LessOrEqual(t, corrupt.Offset, int64(i))
			require.ErrorIs(t, err, errLaterFrame)
			require.Equal(t, before, r.contents(), "untouched")
		}
	}
}

// Every change of a length, the one field that moves the place of what follows, is found out.
func TestEveryLengthChanged(t *testing.T) {
	payloads := samplePayloads()
	whole := segmentOf(1, payloads...)
	at := record.WALHeaderSize + len(payloads[0]) + 4
	for i := at; i < at+4; i++ {
		for flip := 1; flip < 256; flip++ {
			b := bytes.Clone(whole)
			b[i] ^= byte(flip)
			_, err := writeLog(t, map[string][]byte{segmentName(1): b}).tryOpen(Options{})
			require.ErrorIs(t, err, errLaterFrame, "byte %d ^ %#x", i, flip)
		}
	}
}

func TestDamageInEarlierSegmentIsRefused(t *testing.T) {
	payloads := samplePayloads()
	first := segmentOf(1, payloads...)
	second := segmentOf(7, payloads...)
	try := func(name string, first []byte) {
		t.Run(name, func(t *testing.T) {
			r := writeLog(t, map[string][]byte{segmentName(1): first, segmentName(7): second})
			before := r.contents()
			_, err := r.tryOpen(Options{})
			var corrupt *CorruptError
			require.ErrorAs(t, err, &corrupt)
			require.Equal(t, before, r.contents())
		})
	}
	for cut := range first {
		try(fmt.Sprintf("cut at %d", cut), first[:cut])
	}
	for i := range first {
		b := bytes.Clone(first)
		b[i] ^= 0x10
		try(fmt.Sprintf("flip %d", i), b)
	}
	try("one frame more", append(bytes.Clone(first), segmentOf(7, "x")...))
	r := writeLog(t, map[string][]byte{segmentName(1): first, segmentName(7): second})
	requireSame(t, r, append(append([]string(nil), payloads...), payloads...))
}

func TestChain(t *testing.T) {
	payloads := samplePayloads()
	point := func(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }
	segment := func(first uint64) []byte { return segmentOf(first, payloads...) }
	tests := []struct {
		name       string
		files      map[string][]byte
		cause      error // nil: opens
		file       string
		first      uint64
		next       uint64
		checkpoint uint64
		lowered    bool
	}{
		{name: "nothing", first: 1, next: 1, checkpoint: 1},
		{name: "only a checkpoint", files: map[string][]byte{"checkpoint": point(1)}, first: 1, next: 1, checkpoint: 1},
		{name: "only a later checkpoint", files: map[string][]byte{"checkpoint": point(2)}, cause: errAhead, file: "checkpoint"},
		{name: "no checkpoint", files: map[string][]byte{segmentName(7): segment(7)}, first: 7, next: 13, checkpoint: 7},
		{name: "empty checkpoint", files: map[string][]byte{segmentName(7): segment(7), "checkpoint": nil}, first: 7, next: 13, checkpoint: 7},
		{name: "checkpoint of zeros", files: map[string][]byte{segmentName(7): segment(7), "checkpoint": point(0)}, first: 7, next: 13, checkpoint: 7},
		{name: "checkpoint of 7 bytes", files: map[string][]byte{segmentName(7): segment(7), "checkpoint": point(9)[:7]}, cause: errPointLength, file: "checkpoint"},
		{name: "checkpoint at the end", files: map[string][]byte{segmentName(7): segment(7), "checkpoint": point(13)}, first: 7, next: 13, checkpoint: 13},
		{name: "checkpoint beyond the end", files: map[string][]byte{segmentName(7): segment(7), "checkpoint": point(14)}, cause: errAhead, file: "checkpoint"},
		{name: "checkpoint below the oldest", files: map[string][]byte{segmentName(7): segment(7), "checkpoint": point(3)}, first: 7, next: 13, checkpoint: 7, lowered: true},
		{name: "gap", files: map[string][]byte{segmentName(1): segment(1), segmentName(13): segment(13)}, cause: errChain, file: segmentName(13)},
		{name: "gap below the checkpoint", files: map[string][]byte{segmentName(1): segment(1), segmentName(13): segment(13), "checkpoint": point(14)}, first: 13, next: 19, checkpoint: 14},
		{name: "damage below the checkpoint", files: map[string][]byte{segmentName(1): {1, 2, 3}, segmentName(7): segment(7), "checkpoint": point(7)}, first: 7, next: 13, checkpoint: 7},
		{name: "overlap", files: map[string][]byte{segmentName(1): segment(1), segmentName(6): segment(6)}, cause: errChain, file: segmentName(6)},
		{name: "empty last segment", files: map[string][]byte{segmentName(1): segment(1), segmentName(7): nil}, first: 1, next: 7, checkpoint: 1},
		{name: "only an empty segment", files: map[string][]byte{segmentName(9): nil, "checkpoint": point(9)}, first: 9, next: 9, checkpoint: 9},
		{name: "leftovers", files: map[string][]byte{
			segmentName(7): segment(7), "next-segment.prep": make([]byte, 100), "checkpoint.tmp": {1}, segmentName(13) + ".tmp": nil,
			"notes.txt": []byte("stay")}, first: 7, next: 13, checkpoint: 7},
		{name: "misnamed segment", files: map[string][]byte{segmentName(7): segment(7), "13.wal": segment(13)}, cause: errName, file: "13.wal"},
		{name: "segment with another's name", files: map[string][]byte{segmentName(7): segment(7), segmentName(13): segment(7)}, cause: errNumber, file: segmentName(13)},
		{name: "another magic", files: map[string][]byte{segmentName(1): []byte(strings.Repeat("what is this? ", 9))}, first: 1, next: 1, checkpoint: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := writeLog(t, tt.files)
			before := r.contents()
			l, err := r.tryOpen(Options{})
			if tt.cause != nil {
				var corrupt *CorruptError
				require.ErrorAs(t, err, &corrupt)
				require.Equal(t, tt.file, corrupt.File)
				require.ErrorIs(t, err, tt.cause)
				require.Equal(t, before, r.contents())
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.next, l.Next())
			stored, durable := l.Checkpoint()
			require.Equal(t, tt.checkpoint, stored)
			require.Equal(t, tt.checkpoint, durable)
			recovered := eventsOf[Recovered](r)[0]
			require.Equal(t, tt.lowered, recovered.Lowered)
			require.Equal(t, tt.first, recovered.First)
			_, next := readAll(t, l, tt.first)
			require.Equal(t, tt.next, next)
			first, err := l.Append([]byte("more"))
			require.NoError(t, err)
			require.Equal(t, tt.next, first)
			require.NoError(t, l.Close())
			for _, name := range r.names() {
				require.NotContains(t, name, ".tmp")
				require.NotEqual(t, "next-segment.prep", name)
			}
			if tt.files["notes.txt"] != nil {
				require.Contains(t, r.names(), "notes.txt")
			}
		})
	}
}

// A power failure may keep later sectors of a write and lose earlier ones. None of its frames was
// acknowledged: the log opens without them. Every subset of lost sectors is tried, at several alignments.
func TestLostSectors(t *testing.T) {
	for _, lead := range []int{1, 200, 491, 492, 493, 500, 511, 512 - record.WALHeaderSize, 600} {
		durable := segmentOf(1, strings.Repeat("d", lead))
		batch := segmentOf(2, strings.Repeat("a", 700), strings.Repeat("b", 30), strings.Repeat("c", 400), strings.Repeat("e", 900))
		whole := append(bytes.Clone(durable), batch...)
		firstSector := len(durable) / vfs.SectorSize
		sectors := (len(whole)+vfs.SectorSize-1)/vfs.SectorSize - firstSector
		for lost := range 1 << sectors {
			b := bytes.Clone(whole)
			firstLost := len(whole)
			for s := range sectors {
				if lost&(1<<s) == 0 {
					continue
				}
				from := max(len(durable), (firstSector+s)*vfs.SectorSize)
				clear(b[from:min(len(b), (firstSector+s+1)*vfs.SectorSize)])
				firstLost = min(firstLost, from)
			}
			files := [][]byte{b, preparedSegment(b, len(b)), preparedSegment(b, len(b)+lead%40), preparedSegment(b, 5000)}
			for i, file := range files[:min(len(files), depth(1+lead%4+lost%2, 4))] {
				r := writeLog(t, map[string][]byte{segmentName(1): file})
				l, err := r.tryOpen(Options{})
				require.NoError(t, err, "%d bytes before, lost sectors %b, file %d", lead, lost, i)
				require.GreaterOrEqual(t, l.Next(), uint64(2))
				got, _ := readAll(t, l, 1)
				require.Equal(t, strings.Repeat("d", lead), got[0])
				require.NoError(t, l.Close())
				size := len(r.contents()[segmentName(1)])
				require.Equal(t, string(whole[:size]), r.contents()[segmentName(1)])
				if lost != 0 {
					require.LessOrEqual(t, size, firstLost+vfs.SectorSize)
				} else {
					require.Equal(t, len(whole), size)
				}
			}
		}
	}
}

// A hole cannot excuse damage that lies further back than one write reaches.
func TestHoleFarBackIsRefused(t *testing.T) {
	big := strings.Repeat("x", record.MaxWALRecord)
	b := segmentOf(1, "first", strings.Repeat("y", 2000), big)
	clear(b[512:1024])
	_, err := writeLog(t, map[string][]byte{segmentName(1): b}).tryOpen(Options{})
	require.ErrorIs(t, err, errLaterFrame)
}

// Clients choose payloads. One that is a run of frames with the very numbers that come next must not keep
// the log from opening when its own frame is torn, wherever it is torn.
func TestPayloadThatLooksLikeFrames(t *testing.T) {
	evil := string(segmentOf(3, "three", "four")) + strings.Repeat("-", 13) + string(segmentOf(3, "three again"))
	whole := segmentOf(1, "one", evil)
	start := len(segmentOf(1, "one"))
	for size := start; size < len(whole); size++ {
		r := writeLog(t, map[string][]byte{segmentName(1): whole[:size]})
		l, err := r.tryOpen(Options{})
		require.NoError(t, err, "torn at %d", size)
		require.EqualValues(t, 2, l.Next())
		require.NoError(t, l.Close())
	}
	// Damaged but complete and last: still only its own frame is lost.
	b := bytes.Clone(whole)
	b[len(b)-1] ^= 1
	r := writeLog(t, map[string][]byte{segmentName(1): b})
	l, err := r.tryOpen(Options{})
	require.NoError(t, err)
	require.EqualValues(t, 2, l.Next())
	require.NoError(t, l.Close())
	// With a real successor it is refused.
	b = record.AppendWALFrame(b, 3, []byte("real"))
	_, err = writeLog(t, map[string][]byte{segmentName(1): b}).tryOpen(Options{})
	require.ErrorIs(t, err, errLaterFrame)
}

// The one shape that cannot be told from a damaged length: a prefix of the payload was made to match the
// checksum of all of it, and the next frame follows. Refusing loses nothing.
func TestForgedProofIsRefused(t *testing.T) {
	evil := append([]byte("abcd"), segmentOf(3, "three")...)
	evil = append(evil, "0000 and more"...)
	forgeCRC(evil, len("abcd")+len(segmentOf(3, "three")), crc32.ChecksumIEEE(evil[:4]))
	whole := segmentOf(1, "one")
	whole = record.AppendWALFrame(whole, 2, evil)
	r := writeLog(t, map[string][]byte{segmentName(1): whole[:len(whole)-2]})
	_, err := r.tryOpen(Options{})
	require.ErrorIs(t, err, errLaterFrame)
	r = writeLog(t, map[string][]byte{segmentName(1): whole})
	requireSame(t, r, []string{"one", string(evil)})
}

// forgeCRC sets the four bytes at so that the checksum of b becomes want. CRC-32 is linear in them.
func forgeCRC(b []byte, at int, want uint32) {
	four := b[at : at+4]
	clear(four)
	base := crc32.ChecksumIEEE(b)
	var rows [32][2]uint64 // effect of each bit, and which bit
	for i := range 32 {
		binary.LittleEndian.PutUint32(four, 1<<i)
		rows[i] = [2]uint64{uint64(crc32.ChecksumIEEE(b) ^ base), 1 << i}
	}
	need, bits := uint64(base^want), uint64(0)
	for col := range 32 {
		pivot := -1
		for i := col; i < 32; i++ {
			if rows[i][0]>>col&1 == 1 {
				pivot = i
				break
			}
		}
		rows[col], rows[pivot] = rows[pivot], rows[col]
		for i := range 32 {
			if i != col && rows[i][0]>>col&1 == 1 {
				rows[i][0] ^= rows[col][0]
				rows[i][1] ^= rows[col][1]
			}
		}
	}
	for col := range 32 {
		if need>>col&1 == 1 {
			bits ^= rows[col][1]
		}
	}
	binary.LittleEndian.PutUint32(four, uint32(bits))
}

// Bytes made up of the beginnings of very many long frames must not make opening take for ever.
func TestSearchIsBounded(t *testing.T) {
	const size = 8 << 20
	rest := make([]byte, size)
	for at := 0; at+record.WALHeaderSize <= size/2; at += record.WALHeaderSize {
		copy(rest[at:], "NWAL")
		binary.BigEndian.PutUint32(rest[at+4:], size/2-100)
		binary.BigEndian.PutUint64(rest[at+8:], 2)
	}
	rest[0] = 'X' // the header of the damaged frame
	_, err := judgeTail(rest, 0, 1, size)
	require.ErrorIs(t, err, errUndecided)
}

func TestParseSegmentName(t *testing.T) {
	for _, name := range []string{"", ".wal", "1.wal", "+0000000000000000001.wal", "-0000000000000000001.wal", "0000000000000000000x.wal",
		"00000000000000000001", "000000000000000000001.wal", "00000000000000000001.wal.tmp", "99999999999999999999.wal", "0_00000000000000001a.wal"} {
		_, ok := parseSegmentName(name)
		require.False(t, ok, name)
	}
	for _, first := range []uint64{0, 1, 1<<64 - 1} {
		got, ok := parseSegmentName(segmentName(first))
		require.True(t, ok)
		require.Equal(t, first, got)
	}
}

func FuzzOpen(f *testing.F) {
	payloads := samplePayloads()
	f.Add(segmentOf(1, payloads...), binary.BigEndian.AppendUint64(nil, 3))
	f.Add(segmentOf(1, "one", string(segmentOf(3, "three")))[:60], []byte{})
	f.Add([]byte("NWAL\x00\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00NWAL"), []byte{0})
	f.Add(make([]byte, 2000), []byte{})
	f.Fuzz(func(t *testing.T, segment, point []byte) {
		files := map[string][]byte{segmentName(1): segment}
		if len(point) > 0 {
			files[checkpointName] = point
		}
		r := writeLog(t, files)
		before := r.contents()
		l, err := r.tryOpen(Options{})
		if err != nil {
			var corrupt *CorruptError
			require.True(t, errors.As(err, &corrupt), "%v", err)
			require.Equal(t, before, r.contents())
			return
		}
		got, next := readAll(t, l, 1)
		require.Equal(t, l.Next(), next)
		require.NoError(t, l.Close())
		kept := segmentOf(1, got...)
		require.True(t, bytes.HasPrefix(segment, kept), "nothing is invented")
		require.Equal(t, string(kept), r.contents()[segmentName(1)])
		requireSame(t, r, got)
	})
}
