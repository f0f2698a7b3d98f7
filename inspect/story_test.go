package inspect

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/record"
)

var update = flag.Bool("update", false, "write the golden files")

// flipped returns the tree with one bit of a file changed.
func flipped(m *memory, name string, at int) *memory {
	b := bytes.Clone(m.bytes(name))
	b[at] ^= 1
	return m.with(name, b)
}

func cut(m *memory, name string, size int) *memory { return m.with(name, m.bytes(name)[:size]) }

// unconfirmed is a store whose metastore died between writing its last change and confirming it.
func unconfirmed(m *memory) *memory {
	b := bytes.Clone(m.bytes(jourFile))
	clear(b[48:64])
	return m.with(jourFile, b)
}

func point(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// walFrame is the size of a frame of the fixture's ingress log.
const walFrame = 79

// Each kind of thing that can be wrong, with the code, the place, and whether a broker would start.
func TestFindings(t *testing.T) {
	clean := fixture(t)
	crash := clean.without("clean")
	require.Len(t, clean.bytes(wal2), 4*walFrame)
	large := func(m *memory, name string, extra string) *memory {
		return m.with(name, append(bytes.Clone(m.bytes(name)), extra...))
	}
	for _, c := range []struct {
		name   string
		m      *memory
		code   string
		file   string
		offset int64
		sev    Severity
	}{
		// The ingress log.
		{"torn end after a crash", cut(crash, wal2, 4*walFrame-3), "wal-torn-tail", wal2, 3 * walFrame, SeverityNote},
		{"torn end after a graceful stop", cut(clean, wal2, 4*walFrame-3), "wal-tail-after-clean-stop", wal2, 3 * walFrame, SeverityDamage},
		{"torn end below the checkpoint", cut(crash, wal2, walFrame+3), "wal-tail-dispatched", wal2, walFrame, SeverityDamage},
		{"checkpoint beyond the end", cut(crash, wal2, walFrame), "checkpoint-ahead", pointFile, 0, SeverityDamage},
		{"damage before whole frames", flipped(crash, wal2, walFrame+40), "wal-frame", wal2, walFrame, SeverityDamage},
		{"damage in a segment that is done with", flipped(crash, wal1, 40), "wal-frame", wal1, 0, SeverityDamage},
		{"sealed end", cut(crash.with(pointFile, point(2)), wal1, 4*walFrame-1), "wal-sealed-tail", wal1, 3 * walFrame, SeverityDamage},
		{"gap between segments", crash.renamed(wal2, strings.Replace(wal2, "5.wal", "6.wal", 1)), "wal-chain", wal1, -2, SeverityDamage},
		{"segments that overlap", crash.renamed(wal2, strings.Replace(wal2, "5.wal", "4.wal", 1)), "wal-chain", wal1, -2, SeverityDamage},
		{"segment with another name", crash.renamed(wal1, "ingress/produce/1.wal"), "wal-name", "ingress/produce/1.wal", -1, SeverityDamage},
		{"record that is no message", crash.with(wal2, record.AppendWALFrame(cut(crash, wal2, 3*walFrame).bytes(wal2)[:3*walFrame:3*walFrame], 8, []byte("?"))), "wal-record", wal2, 3 * walFrame, SeverityDamage},
		{"message for a topic that is gone", crash.with(wal2, record.AppendWALFrame(cut(crash, wal2, 3*walFrame).bytes(wal2)[:3*walFrame:3*walFrame], 8, record.AppendProduce(nil, record.Produce{Topic: "gone"}))), "wal-orphan", wal2, 3 * walFrame, SeverityDamage},
		{"checkpoint of 3 bytes", cut(crash, pointFile, 3), "checkpoint-size", pointFile, 3, SeverityDamage},
		{"checkpoint below the log", crash.without(wal1).with(pointFile, point(3)), "checkpoint-behind", pointFile, 0, SeverityNote},
		{"prepared segment", crash.with("ingress/produce/next-segment.prep", nil), "leftover", "ingress/produce/next-segment.prep", -1, SeverityNote},

		// Partitions.
		{"torn end of the active segment", cut(crash, log2, len(crash.bytes(log2))-1), "log-torn-tail", log2, -2, SeverityNote},
		{"the same after a graceful stop", cut(clean, log2, len(clean.bytes(log2))-1), "log-tail-after-clean-stop", log2, -2, SeverityDamage},
		{"damage inside", flipped(crash, log1, 30), "log-frame", log1, 0, SeverityDamage},
		{"damage inside a compressed frame", flipped(crash, log2, 40), "log-frame", log2, 0, SeverityDamage},
		{"sealed segment without its last frame", crash.with(log1, logBytes(record.CodecNone, 0, 2, 1)), "log-short", log1, -2, SeverityDamage},
		{"record that is no message", crash.with(log2, record.AppendFrame(nil, 6, []byte{1})), "log-record", log2, 0, SeverityDamage},
		{"time that runs backwards", crash.with(log2, record.AppendFrame(nil, 6, record.AppendRecord(nil, nil, 5, nil))), "log-time", log2, 0, SeverityWarning},
		{"segment begun and not named", crash.with(log2+".tmp", nil), "leftover", log2 + ".tmp", -1, SeverityNote},

		// Consumer state.
		{"torn window", flipped(crash, aheadPath, 44), "slot-torn", aheadPath, 0, SeverityNote},
		{"torn window after a graceful stop", flipped(clean, aheadPath, 4096+44), "slot", aheadPath, 4096, SeverityDamage},
		{"no slot left", flipped(flipped(crash, aheadPath, 44), aheadPath, 4096+44), "slot", aheadPath, 0, SeverityDamage},
		{"only the first one, torn", cut(flipped(crash, aheadPath, 44), aheadPath, 4096), "slot-first", aheadPath, 0, SeverityWarning},
		{"state of another incarnation", crash.with(idFile, []byte("fedcba9876543210")), "slot", aheadPath, 0, SeverityDamage},
		{"unknown version", crash.with(aheadPath, func() []byte { b := bytes.Clone(crash.bytes(aheadPath)); b[4] = 9; return b }()), "slot", aheadPath, 0, SeverityDamage},
		{"third slot", large(crash, aheadPath, "x"), "ahead-size", aheadPath, 8192, SeverityWarning},
		{"frontier above the log", crash.without(log2), "settled-above-log", aheadPath, 4096, SeverityDamage},
		{"level above the log", crash.with(levelPath, point(99)), "settled-above-log", levelPath, 0, SeverityDamage},
		{"level above the window", crash.with(levelPath, point(9)), "offset-leads", levelPath, 0, SeverityNote},
		{"level of 3 bytes", cut(crash, levelPath, 3), "offset", levelPath, 0, SeverityDamage},
		{"level below -1", crash.with(levelPath, bytes.Repeat([]byte{0x80}, 8)), "offset", levelPath, 0, SeverityDamage},

		// Topics and metastore.
		{"no incarnation", crash.without(idFile), "incarnation-missing", "topics/orders", -1, SeverityDamage},
		{"incarnation with a newline", large(crash, idFile, "\n"), "incarnation", idFile, 16, SeverityDamage},
		{"other incarnation", crash.with(idFile, []byte("fedcba9876543210")), "incarnation-mismatch", idFile, 0, SeverityDamage},
		{"topic without directory", crash.without("topics/orders/"), "topic-missing", "topics", -1, SeverityDamage},
		{"partition without directory", crash.without("topics/orders/p00001/"), "partition-missing", "topics/orders", -1, SeverityDamage},
		{"partition too many", crash.with("topics/orders/p00002/", nil), "partition-extra", "topics/orders/p00002", -1, SeverityWarning},
		{"directory of no topic", crash.with("topics/lost/", nil).with("topics/lost/incarnation", []byte(fixtureID)), "topic-unknown", "topics/lost", -1, SeverityWarning},
		{"stale directory", crash.with("topics/orders.stale-00aa/", nil), "stale", "topics/orders.stale-00aa", -1, SeverityNote},
		{"torn journal", cut(unconfirmed(crash), jourFile, len(crash.bytes(jourFile))-1), "journal-torn-tail", jourFile, -2, SeverityNote},
		{"torn journal after a graceful stop", cut(unconfirmed(clean), jourFile, len(clean.bytes(jourFile))-1), "journal-tail-after-clean-stop", jourFile, -2, SeverityDamage},
		{"confirmed change cut short", cut(crash, jourFile, len(crash.bytes(jourFile))-1), "metastore", jourFile, -2, SeverityDamage},
		{"damaged snapshot", flipped(crash, snapFile, 70), "metastore", snapFile, 12, SeverityDamage},
		{"snapshot alone", crash.without(jourFile), "metastore", "metastore", 0, SeverityDamage},
		{"journal alone", crash.without(snapFile), "metastore", "metastore", 0, SeverityDamage},

		// The rest.
		{"unknown file", crash.with("topics/orders/p00000/core", nil), "unknown", "topics/orders/p00000/core", -1, SeverityWarning},
		{"unknown directory", crash.with("backup/", nil), "unknown", "backup", -1, SeverityWarning},
		{"file of another release", crash.with("topics/orders/p00000/hwm", nil), "other-release", "topics/orders/p00000/hwm", -1, SeverityNote},
		{"last segment missing after a stop", clean.without(log2), "log-shorter-than-it-was", "topics/orders/p00000", -1, SeverityDamage},
		{"last ingress segment missing after a stop", clean.without(wal2).with(pointFile, binary.BigEndian.AppendUint64(nil, 3)), "wal-shorter-than-it-was", "ingress/produce", -1, SeverityDamage},
		{"mark with other contents", crash.with("clean", []byte("x")), "clean-mark", "clean", 0, SeverityDamage},
		{"lock with contents", crash.with("lock", []byte("x")), "mark-not-empty", "lock", 0, SeverityWarning},
		{"no ingress log", crash.without("ingress/"), "missing-directory", ".", -1, SeverityDamage},
		{"no produce", crash.without("ingress/produce/"), "missing-directory", "ingress", -1, SeverityDamage},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.m.t = t
			r := c.m.verify()
			for _, f := range r.Findings {
				if f.Code == c.code && f.File == c.file && (c.offset == -2 || f.Offset == c.offset) && f.Severity == c.sev {
					if c.sev == SeverityDamage {
						require.Equal(t, Damaged, r.Outcome)
					}
					return
				}
			}
			t.Errorf("%s in %s at %d not among:\n%+v", c.code, c.file, c.offset, r.Findings)
		})
	}
}

// What a crash, or nothing at all, leaves is not called damage.
func TestHarmlessIsNotDamage(t *testing.T) {
	m := fixture(t).without("clean")
	for name, m := range map[string]*memory{
		"empty newest segment of the ingress log": m.with("ingress/produce/00000000000000000009.wal", nil),
		"empty newest segment of a partition":     m.with("topics/orders/p00000/00000000000000000016.log", nil),
		"zeros behind the ingress log":            m.with(wal2, append(bytes.Clone(m.bytes(wal2)), make([]byte, 700)...)),
		"no checkpoint":                           m.without(pointFile),
		"empty checkpoint":                        m.with(pointFile, nil),
		"zero checkpoint":                         m.with(pointFile, make([]byte, 8)),
		"short consumer.ahead":                    cut(m, aheadPath, 4096),
		"no consumer state":                       m.without(aheadPath).without(levelPath),
		"empty consumer.offset":                   m.with(levelPath, nil),
		"no lock":                                 m.without("lock"),
	} {
		r := m.verify()
		require.Equal(t, Clean, r.Outcome, "%s: %+v", name, r.Findings)
	}
}

func TestRunningBrokerIsLeftAlone(t *testing.T) {
	m := fixture(t)
	m.held = true
	for _, at := range []string{"/", "/topics/orders", "/topics/orders/p00000", "/ingress/produce", "/" + log1} {
		_, err := m.run(at, Options{Verify: true})
		require.ErrorIs(t, err, ErrInUse, at)
		r, err := m.run(at, Options{})
		require.NoError(t, err)
		require.False(t, r.Locked)
		require.Equal(t, Clean, r.Outcome)
	}
}

// A disk that does not answer is not called damage, and the place is told.
func TestUnreadable(t *testing.T) {
	m := fixture(t)
	for _, name := range []string{wal2, log2, snapFile, jourFile, aheadPath, levelPath, idFile, pointFile} {
		b := m.bytes(name)
		bad := len(b) / 2
		r := m.withContent(name, plain{b, bad}).verify()
		require.Equal(t, Unreadable, r.Outcome, "%s: %+v", name, r.Findings)
		require.Zero(t, r.Totals.Damage)
		require.Equal(t, "unread", r.Findings[0].Code)
		require.Equal(t, name, r.Findings[0].File)
		if name == wal2 || name == log2 || name == snapFile {
			require.Equal(t, int64(bad), r.Findings[0].Offset, name)
		}
	}
}

// Without Verify only headers are read, and that is said; damage to a header is found all the same, at the right place.
func TestQuickLook(t *testing.T) {
	m := fixture(t)
	r, err := flipped(m, log1, 40).run("/", Options{})
	require.NoError(t, err)
	require.False(t, r.Complete)
	require.Equal(t, Clean, r.Outcome, "the body is not looked at")
	r, err = flipped(m, log1, 21).run("/", Options{}) // a length in the first header
	require.NoError(t, err)
	require.Equal(t, Damaged, r.Outcome)
	require.Equal(t, int64(0), r.Findings[0].Offset)
	r, err = flipped(m, log1, 40).run("/"+log1, Options{})
	require.NoError(t, err)
	require.True(t, r.Complete)
	require.Equal(t, Damaged, r.Outcome, "a file that is named is read in full")
}

// A copy of a file may have any name.
func TestFilesByTheirContents(t *testing.T) {
	m := fixture(t)
	for name, kind := range map[string]Kind{wal2: KindWAL, log2: KindLog, aheadPath: KindAhead, snapFile: KindSnapshot, jourFile: KindJournal} {
		r, err := m.with("copy", m.bytes(name)).run("/copy", Options{})
		require.NoError(t, err)
		require.Equal(t, kind, r.Root.Kind)
		require.Equal(t, Clean, r.Outcome, "%s: %+v", name, r.Findings)
	}
	_, err := m.with("copy", []byte("text")).run("/copy", Options{})
	require.ErrorContains(t, err, "neither its name nor its first bytes")
	_, err = m.with("dir/", nil).run("/dir", Options{})
	require.ErrorContains(t, err, "no directory of Narad")
}

func TestRecordsAndLimit(t *testing.T) {
	m := fixture(t)
	r, err := m.run("/"+log2, Options{Records: true, Limit: 3})
	require.NoError(t, err)
	require.Len(t, r.Root.Records, 3)
	require.Equal(t, int64(7), r.Root.Withheld)
	require.Equal(t, LogRecord{Offset: 7, At: 0, CommittedMs: baseMs + 7, Message: Message{Key: "key", KeyBytes: 3, Payload: "message 7 message message", PayloadBytes: 25}}, r.Root.Records[1])
	r, err = m.run("/"+wal2, Options{Records: true})
	require.NoError(t, err)
	require.Len(t, r.Root.WALRecords, 4)
	require.Equal(t, uint64(6), r.Root.WALRecords[1].Seq)
	require.Equal(t, int64(walFrame), r.Root.WALRecords[1].At)
	require.Equal(t, "orders", r.Root.WALRecords[1].Topic)
}

func TestConsumerState(t *testing.T) {
	r := fixture(t).verify()
	var p *Node
	visit(r.Root, 0, func(n *Node, _ int) {
		if n.file == "topics/orders/p00000" {
			p = n
		}
	})
	require.Equal(t, int64(16), p.Partition.HighWatermark)
	c := p.Partition.Consumer
	require.Equal(t, int64(6), c.Frontier)
	require.Equal(t, 3, c.Ahead)
	require.Equal(t, aheadName, c.Wins)
	require.Equal(t, int64(4), *c.OffsetFrontier)
	require.Equal(t, int64(16-1-6-3), c.Waiting)
	for _, n := range p.Children {
		if n.Ahead != nil {
			require.Equal(t, 1, n.Ahead.Newest)
			require.Equal(t, "older", n.Ahead.Slots[0].State)
			require.Equal(t, "newest", n.Ahead.Slots[1].State)
			require.Equal(t, "8, 10–11", n.Ahead.Slots[1].Ranges)
			require.True(t, *n.Ahead.Slots[1].Owned)
		}
	}
}

// The text and the JSON of a damaged store, as an operator gets them.
func TestGolden(t *testing.T) {
	m := fixture(t).without("clean")
	m = flipped(flipped(m, log1, 30), wal2, 3*walFrame+40)
	m = flipped(m, aheadPath, 44).with("topics/orders/p00000/core", []byte("x"))
	r := m.verify()
	scrub(r)
	var text bytes.Buffer
	require.NoError(t, r.WriteText(&text))
	golden(t, "damaged.txt", text.Bytes())
	b, err := json.MarshalIndent(r, "", "  ")
	require.NoError(t, err)
	golden(t, "damaged.json", append(b, '\n'))
	var back Report
	require.NoError(t, json.Unmarshal(b, &back))
	require.Equal(t, r.Findings, back.Findings)

	text.Reset()
	r, err = fixture(t).run("/"+aheadPath, Options{})
	require.NoError(t, err)
	require.NoError(t, r.WriteText(&text))
	golden(t, "ahead.txt", text.Bytes())
}

// scrub takes out what is random.
func scrub(r *Report) {
	visit(r.Root, 0, func(n *Node, _ int) {
		if n.Metastore != nil {
			n.Metastore.Store = "…"
		}
	})
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// Names and payloads come from a disk and may hold anything; what is printed is printable.
func TestOutputIsPrintable(t *testing.T) {
	m := fixture(t)
	b := record.AppendFrame(nil, 6, record.AppendRecord(nil, []byte("\x1b[31m\x00"), baseMs+100, []byte("a\nb\xff\x1b]0;x\x07")))
	m = m.with(log2, b).with("topics/orders/p00000/\x1b[2Jx", nil)
	for _, at := range []string{"/", "/" + log2} {
		r, err := m.run(at, Options{Records: true})
		require.NoError(t, err)
		var text bytes.Buffer
		require.NoError(t, r.WriteText(&text))
		require.NotContains(t, text.String(), "\x1b")
		require.NotContains(t, text.String(), "\x07")
		require.NotContains(t, text.String(), "\x00")
	}
	r, err := m.run("/", Options{})
	require.NoError(t, err)
	require.ErrorIs(t, r.WriteText(failing{}), io.ErrClosedPipe)
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// It is told whether anybody still waits for what is lost.
func TestLostAndSettled(t *testing.T) {
	m := fixture(t)
	for _, c := range []struct {
		m         *memory
		unsettled int64
	}{
		{flipped(m, log1, 30), 0},                                                  // 0 and 1, the frontier is 6
		{flipped(m, log2, 40), 8 - 1 - 3},                                          // 6 to 13: 6 is the frontier, 8, 10 and 11 are ahead
		{flipped(m.without(aheadPath).without(levelPath), log1, 30), 2},            // nothing is settled
		{flipped(m.without(aheadPath).with(levelPath, point(0)), log1, 30), 2 - 1}, // 0 is
	} {
		r, err := c.m.run("/topics/orders/p00000", Options{Verify: true})
		require.NoError(t, err)
		require.Equal(t, c.unsettled, r.Root.Partition.LostUnsettled)
	}
}
