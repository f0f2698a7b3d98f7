package record

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var updateFrames = flag.Bool("update-frames", false, "rewrite the golden files of frames and envelopes")

// golden compares bytes with a file of hex dump, the form in which a reviewer can follow the layout.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *updateFrames {
		require.NoError(t, os.WriteFile(path, []byte(hex.Dump(got)), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, strings.ReplaceAll(string(want), "\r\n", "\n"), hex.Dump(got))
}

func goldenFrame() []byte {
	return AppendFrame(nil, 4711,
		AppendRecord(nil, []byte("k1"), 1_700_000_000_123, []byte("hello")),
		AppendRecord(nil, nil, 1_700_000_000_124, []byte("world")))
}

func zstdFrame(t *testing.T, base int64, recs ...[]byte) []byte {
	var w FrameWriter
	w.Reset(nil, base, CodecZstd)
	for _, r := range recs {
		w.Add(r)
	}
	b, err := w.Finish()
	require.NoError(t, err)
	return b
}

func TestFrameGolden(t *testing.T) {
	golden(t, "frame-plain.hex", goldenFrame())
}

// The layout spelled out by hand, without the encoder's constants.
func TestFrameLayout(t *testing.T) {
	b := AppendFrame([]byte("before"), 0x0102030405060708, []byte("abc"))[len("before"):]
	want := []byte{0xCA, 0xFE, 0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 7, 0, 0, 0, 7}
	require.Equal(t, want, b[:23])
	require.Equal(t, []byte{0, 0, 0, 3, 'a', 'b', 'c'}, b[27:])
	// CRC-32C, bit by bit, over bytes 2–22 and the stored bytes.
	crc := ^uint32(0)
	for _, c := range append(append([]byte{}, b[2:23]...), b[27:]...) {
		crc ^= uint32(c)
		for range 8 {
			if crc&1 != 0 {
				crc = crc>>1 ^ 0x82F63B78
			} else {
				crc >>= 1
			}
		}
	}
	require.Equal(t, ^crc, binary.BigEndian.Uint32(b[23:]))
}

func TestZstdFrameIsReadFromGolden(t *testing.T) {
	// Compressed bytes may change with the library; that old ones are read may not.
	recs := [][]byte{bytes.Repeat([]byte("narad "), 40), bytes.Repeat([]byte{0}, 300)}
	path := filepath.Join("testdata", "frame-zstd.hex")
	if *updateFrames {
		golden(t, "frame-zstd.hex", zstdFrame(t, 99, recs...))
	}
	dump, err := os.ReadFile(path)
	require.NoError(t, err)
	b := undump(t, string(dump))
	f, n, err := ParseFrame(b)
	require.NoError(t, err)
	require.Equal(t, len(b), n)
	require.Equal(t, CodecZstd, f.Codec)
	require.Equal(t, int64(99), f.Base)
	requireRecords(t, f, recs)
}

func undump(t *testing.T, dump string) (b []byte) {
	for line := range strings.Lines(dump) {
		hexed, _, _ := strings.Cut(line[10:], "|")
		part, err := hex.DecodeString(strings.Join(strings.Fields(hexed), ""))
		require.NoError(t, err)
		b = append(b, part...)
	}
	return b
}

func requireRecords(t require.TestingT, f Frame, want [][]byte) {
	require.Equal(t, len(want), int(f.Count))
	seen := 0
	for i, r := range f.Records() {
		require.True(t, bytes.Equal(want[i], r))
		seen++
	}
	require.Equal(t, len(want), seen)
	for i := range want {
		r, err := f.Record(i)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want[i], r))
	}
	for _, i := range []int{-1, len(want), math.MaxInt} {
		_, err := f.Record(i)
		require.ErrorIs(t, err, ErrCount)
	}
}

func TestFrameRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		recs := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 200), 1, 20).Draw(t, "records")
		codec := rapid.SampledFrom([]Codec{CodecNone, CodecZstd}).Draw(t, "codec")
		base := rapid.Int64Range(0, math.MaxInt64-100).Draw(t, "base")
		before := rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "before")
		after := rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "after")
		var w FrameWriter
		w.Reset(bytes.Clone(before), base, codec)
		for _, r := range recs {
			w.Add(r)
		}
		require.Equal(t, len(recs), w.Count())
		b, err := w.Finish()
		require.NoError(t, err)
		require.Equal(t, before, b[:len(before)])
		b = b[len(before):]
		f, n, err := ParseFrame(append(bytes.Clone(b), after...))
		require.NoError(t, err)
		require.Equal(t, len(b), n)
		require.Equal(t, int64(n), f.Size())
		require.Equal(t, base+int64(len(recs)), f.Next())
		requireRecords(t, f, recs)
	})
}

// Every flip of every bit of a frame is an error with a name, and which one is a property of the field.
func TestEveryFlipOfAFrameIsNamed(t *testing.T) { // LOG-06
	one := goldenFrame()
	for _, c := range []struct {
		name string
		b    []byte
	}{{"plain", one}, {"zstd", zstdFrame(t, 4711, bytes.Repeat([]byte("narad "), 100))}} {
		t.Run(c.name, func(t *testing.T) {
			for i := range c.b {
				for bit := range 8 {
					b := bytes.Clone(c.b)
					b[i] ^= 1 << bit
					_, _, err := ParseFrame(b)
					allowed := allowedErrors(i)
					require.Error(t, err, "byte %d bit %d", i, bit)
					requireOneOf(t, err, allowed, "byte %d bit %d", i, bit)
				}
			}
		})
	}
}

func allowedErrors(i int) []error {
	switch {
	case i < 2:
		return []error{ErrMagic}
	case i == 2:
		return []error{ErrCodec, ErrLength, ErrChecksum} // none ↔ zstd is a known codec: lengths or checksum tell
	case i < 7:
		return []error{ErrCount, ErrChecksum}
	case i < 15:
		return []error{ErrSequence, ErrChecksum}
	case i < 23:
		return []error{ErrLength, ErrShort, ErrCount, ErrChecksum}
	}
	return []error{ErrChecksum}
}

func requireOneOf(t *testing.T, err error, allowed []error, format string, args ...any) {
	t.Helper()
	for _, a := range allowed {
		if requireIs(err, a) {
			return
		}
	}
	t.Fatalf("%v is none of %v: "+format, append([]any{err, allowed}, args...)...)
}

func TestFrameTruncatedAtEveryByte(t *testing.T) {
	b := goldenFrame()
	for n := range b {
		f, size, err := ParseFrame(b[:n:n])
		require.ErrorIs(t, err, ErrShort, "%d bytes", n)
		require.Zero(t, size)
		require.Zero(t, f.Count)
	}
}

// reseal gives a mangled frame the checksum that fits.
func reseal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[23:], UpdateFrameCRC(HeaderFrameCRC(b), b[FrameHeaderSize:]))
	return b
}

// What a checksum cannot catch, because it fits, is caught by what the fields say.
func TestFrameWithAFittingChecksum(t *testing.T) {
	put32 := func(at int, v uint32) func([]byte) {
		return func(b []byte) { binary.BigEndian.PutUint32(b[at:], v) }
	}
	for _, c := range []struct {
		name   string
		mangle func([]byte)
		want   error
	}{
		{"flags", func(b []byte) { b[2] = 0x08 }, ErrCodec},
		{"codec 2", func(b []byte) { b[2] = 2 }, ErrCodec},
		{"codec zstd over plain bytes", func(b []byte) { b[2] = 1 }, ErrCodec},
		{"no records", put32(3, 0), ErrCount},
		{"negative count", put32(3, 0xFFFFFFFF), ErrCount},
		{"more records than fit", put32(3, 1000), ErrCount},
		{"one record more", put32(3, 3), ErrCount},
		{"one record less", put32(3, 1), ErrCount},
		{"negative base", func(b []byte) { b[7] = 0x80 }, ErrSequence},
		{"base overflows", func(b []byte) { binary.BigEndian.PutUint64(b[7:], math.MaxInt64) }, ErrSequence},
		{"uncompressed", put32(15, 12), ErrLength},
		{"negative uncompressed", put32(15, 0x80000000), ErrLength},
		{"compressed over the maximum", put32(19, MaxFrame), ErrLength},
		{"compressed zero", put32(19, 0), ErrLength},
		{"record longer than the body", put32(27, 1<<31), ErrCount},
		{"record a byte longer", func(b []byte) { b[30]++ }, ErrCount},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := goldenFrame()
			c.mangle(b)
			_, _, err := ParseFrame(reseal(b))
			require.ErrorIs(t, err, c.want)
		})
	}
}

// A compressed body may not become more, or less, than its header says, nor more than its bytes can.
func TestZstdIsBoundedByTheHeader(t *testing.T) {
	good := zstdFrame(t, 0, make([]byte, 100_000))
	size := binary.BigEndian.Uint32(good[15:])
	for _, claim := range []uint32{size - 1, size + 1, 100} {
		b := bytes.Clone(good)
		binary.BigEndian.PutUint32(b[15:], claim)
		_, _, err := ParseFrame(reseal(b))
		require.ErrorIs(t, err, ErrCodec, "claims %d", claim)
	}
	b := bytes.Clone(good)
	binary.BigEndian.PutUint32(b[15:], MaxFrame)
	_, _, err := ParseFrame(reseal(b[:FrameHeaderSize+int(binary.BigEndian.Uint32(b[19:]))]))
	require.Error(t, err)
	tiny := bytes.Clone(good[:FrameHeaderSize+10])
	binary.BigEndian.PutUint32(tiny[19:], 10)
	binary.BigEndian.PutUint32(tiny[15:], MaxFrame)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err = ParseFrame(reseal(tiny))
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, ErrLength)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<10), "ten bytes may not reserve 256 MiB")
}

func TestZstdFallsBackToPlain(t *testing.T) {
	b := zstdFrame(t, 5, []byte("x"))
	f, _, err := ParseFrame(b)
	require.NoError(t, err)
	require.Equal(t, CodecNone, f.Codec)
	require.Equal(t, AppendFrame(nil, 5, []byte("x")), b)
}

func TestFrameWriterRefuses(t *testing.T) {
	var w FrameWriter
	w.Reset([]byte("abc"), 0, CodecNone)
	b, err := w.Finish()
	require.ErrorIs(t, err, ErrCount)
	require.Equal(t, "abc", string(b))

	w.Reset([]byte("abc"), -1, CodecNone)
	w.Add([]byte("x"))
	b, err = w.Finish()
	require.ErrorIs(t, err, ErrSequence)
	require.Equal(t, "abc", string(b))

	require.Panics(t, func() { AppendFrame(nil, 0) })
}

// The limit for writers is the limit for readers: the largest frame that can be built is read back.
func TestLargestFrame(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 768 MiB")
	}
	if os.Getenv("NARAD_LONG") != "1" {
		t.Skip("takes 768 MiB; set NARAD_LONG=1")
	}
	var w FrameWriter
	w.Reset(nil, 0, CodecNone)
	rec := make([]byte, MaxFrameRecord)
	w.Add(rec)
	b, err := w.Finish()
	require.NoError(t, err)
	require.Len(t, b, MaxFrame)
	_, _, err = ParseFrame(b)
	require.NoError(t, err)
	w.Reset(b[:0], 0, CodecNone)
	w.Add(append(rec, 0))
	_, err = w.Finish()
	require.ErrorIs(t, err, ErrLength)
}

func TestFrameWriterDoesNotAllocate(t *testing.T) {
	payload := make([]byte, 1000)
	var w FrameWriter
	buf := make([]byte, 0, 64<<10)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		w.Reset(buf[:0], 7, CodecNone)
		for range 10 {
			w.AddRecord([]byte("key"), 1, payload)
		}
		b, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := ParseFrame(b); err != nil {
			t.Fatal(err)
		}
	}))
}

func FuzzParseFrame(f *testing.F) {
	f.Add(goldenFrame())
	f.Add(AppendFrame(nil, 0, nil))
	f.Add(reseal(AppendFrame(nil, 1<<40, []byte("x"), nil, []byte("yz"))))
	var w FrameWriter
	w.Reset(nil, 3, CodecZstd)
	w.Add(bytes.Repeat([]byte("narad "), 100))
	z, err := w.Finish()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(z)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= FrameHeaderSize { // also try with a checksum that fits, or nothing deep is ever reached
			c := bytes.Clone(b)
			if h, err := ParseFrameHeader(c); err == nil && h.Size() <= int64(len(c)) {
				reseal(c[:h.Size()])
				checkParsed(t, c)
			}
		}
		checkParsed(t, b)
	})
}

func checkParsed(t *testing.T, b []byte) {
	fr, n, err := ParseFrame(b)
	if err != nil {
		requireOneOf(t, err, []error{ErrShort, ErrMagic, ErrCodec, ErrCount, ErrLength, ErrChecksum, ErrSequence}, "")
		return
	}
	if n > len(b) || n < FrameHeaderSize || len(fr.Body) != int(fr.Uncompressed) {
		t.Fatalf("frame of %d bytes in %d, body %d of %d", n, len(b), len(fr.Body), fr.Uncompressed)
	}
	var recs [][]byte
	for _, r := range fr.Records() {
		recs = append(recs, r)
	}
	if len(recs) != int(fr.Count) {
		t.Fatalf("%d records, header says %d", len(recs), fr.Count)
	}
	if fr.Codec == CodecNone && !bytes.Equal(AppendFrame(nil, fr.Base, recs...), b[:n]) {
		t.Fatal("a plain frame has more than one encoding")
	}
}

func BenchmarkFrameWriter(b *testing.B) {
	payload := make([]byte, 1000)
	var w FrameWriter
	var buf []byte
	b.SetBytes(64 * 1000)
	b.ReportAllocs()
	for b.Loop() {
		w.Reset(buf[:0], 7, CodecNone)
		for range 64 {
			w.AddRecord(nil, 1, payload)
		}
		buf, _ = w.Finish()
	}
}

func BenchmarkParseFrame(b *testing.B) {
	recs := make([][]byte, 64)
	for i := range recs {
		recs[i] = make([]byte, 1000)
	}
	frame := AppendFrame(nil, 7, recs...)
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := ParseFrame(frame); err != nil {
			b.Fatal(err)
		}
	}
}
