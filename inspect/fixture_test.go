package inspect

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/committer"
	"narad/env"
	"narad/internal/cleanmark"
	"narad/metastore"
	"narad/record"
	"narad/vfs"
)

// The store of the tests: what a broker leaves after a graceful stop. Two segments of the ingress log, the
// second one half dispatched; a topic of two partitions, the first with a sealed and an active segment, plain and
// compressed frames, and both slots of its consumer.ahead in use.
const (
	fixtureID = "0123456789abcdef"
	wal1      = "ingress/produce/00000000000000000001.wal"
	wal2      = "ingress/produce/00000000000000000005.wal"
	pointFile = "ingress/produce/checkpoint"
	log1      = "topics/orders/p00000/00000000000000000000.log"
	log2      = "topics/orders/p00000/00000000000000000006.log"
	aheadPath = "topics/orders/p00000/consumer.ahead"
	levelPath = "topics/orders/p00000/consumer.offset"
	idFile    = "topics/orders/incarnation"
	snapFile  = "metastore/topics.snapshot"
	jourFile  = "metastore/topics.journal"
	baseMs    = 1_767_225_600_000
)

// checksummed are the files in which no byte can change unnoticed.
var checksummed = []string{wal1, wal2, log1, log2, snapFile, jourFile, idFile, "clean"}

// fixture makes the store and returns it in memory.
func fixture(t testing.TB) *memory {
	dir := t.TempDir()
	writeFixture(t, dir)
	return load(t, dir)
}

func writeFixture(t testing.TB, dir string) {
	for _, name := range []string{"ingress/produce", "metastore", "topics/orders/p00000", "topics/orders/p00001"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
	}
	put := func(name string, b []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	put("lock", nil)
	mark, err := cleanmark.Encode(cleanmark.Mark{WALNext: 9, Partitions: []cleanmark.End{{ID: fixtureID, Partition: 0, HighWatermark: 16}}})
	require.NoError(t, err)
	put("clean", mark)
	put(wal1, walBytes(1, 4))
	put(wal2, walBytes(5, 4))
	put(pointFile, binary.BigEndian.AppendUint64(nil, 7))
	put(idFile, []byte(fixtureID))
	put(log1, logBytes(record.CodecNone, 0, 2, 1, 3))
	put(log2, append(logBytes(record.CodecZstd, 6, 8), logBytes(record.CodecNone, 14, 2)...))
	writeMetastore(t, filepath.Join(dir, "metastore"))
	writeConsumer(t, filepath.Join(dir, "topics/orders/p00000"))
}

// walBytes is a segment of the ingress log with that many records.
func walBytes(first uint64, n int) (b []byte) {
	for i := range n {
		seq := first + uint64(i)
		b = record.AppendWALFrame(b, seq, record.AppendProduce(nil, record.Produce{
			Topic: "orders", Incarnation: fixtureID, Key: []byte("k"), Partition: int32(i % 2), CreatedMs: baseMs + int64(seq),
			Payload: fmt.Appendf(nil, "order %d", seq),
		}))
	}
	return b
}

// logBytes is frames of a partition's log with those numbers of records.
func logBytes(codec record.Codec, base int64, counts ...int) (b []byte) {
	var w record.FrameWriter
	for _, n := range counts {
		w.Reset(b, base, codec)
		for range n {
			w.AddRecord([]byte("key"), baseMs+base, fmt.Appendf(nil, "message %d message message", base))
			base++
		}
		var err error
		if b, err = w.Finish(); err != nil {
			panic(err)
		}
	}
	return b
}

func openDir(t testing.TB, dir string) vfs.Dir {
	d, err := vfs.OS{}.OpenRoot(dir, false)
	require.NoError(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

// writeMetastore leaves a snapshot of one topic and a journal of two changes.
func writeMetastore(t testing.TB, dir string) {
	topic := metastore.Topic{Name: "orders", ID: fixtureID, Partitions: 2, VisibilityMs: 30_000, MaxInFlight: 16, MaxAckedAhead: 16, CreatedAt: 1}
	d := openDir(t, dir)
	s, err := metastore.OpenLocal(env.OS(), d)
	require.NoError(t, err)
	require.NoError(t, s.Create(topic))
	require.NoError(t, s.Close())
	s, err = metastore.OpenLocal(env.OS(), d) // compacts
	require.NoError(t, err)
	mail := topic
	mail.Name, mail.ID = "mail", "00000000000000aa"
	require.NoError(t, s.Create(mail))
	require.NoError(t, s.Delete("mail", mail.ID))
	require.NoError(t, s.Close())
}

// writeConsumer leaves two slots, the second one newer, and an older consumer.offset.
func writeConsumer(t testing.TB, dir string) {
	d := openDir(t, dir)
	id := owner{known: true, incarnation: fixtureID}.identity()
	var slots []byte
	for i, s := range []committer.State{{Committed: 2, Ahead: []int64{4, 5}}, {Committed: 6, Ahead: []int64{8, 10, 11}}} {
		require.NoError(t, committer.Reseed(d, id, s)) // each writes slot 0, with the next sequence
		b, err := vfs.ReadFile(d, committer.AheadFile, 2*aheadSlotSize)
		require.NoError(t, err)
		slots = append(slots, b[:aheadSlotSize]...)
		require.Len(t, slots, (i+1)*aheadSlotSize)
	}
	require.NoError(t, vfs.ReplaceFile(d, committer.AheadFile, slots))
	require.NoError(t, vfs.ReplaceFile(d, committer.OffsetFile, binary.BigEndian.AppendUint64(nil, 4)))
}
