package metastore

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"narad/sim/disk"
	"narad/vfs"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files")

var storeID = identity{0xa0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

// sampleFull and its journal hold one of everything that version 2 has and version 1 has not.
func sampleFull(t testing.TB) (snapshot, journal []byte) {
	a := topic("a", 1)
	a.Owner = "u"
	s := &State{sequence: 2, users: []*userRecord{{Name: "u", PasswordHash: []byte("hash"), Grants: []Grant{{Action: ActionProduce, Patterns: []string{"a*"}}}, Root: true, CreatedAtMs: 1, UpdatedAtMs: 2}},
		entries: []*entry{{Topic: a, Schemas: []Schema{{1, []byte(`{"a":"<>"}`)}, {2, []byte("true")}}}}}
	snapshot, err := encodeSnapshot(storeID, s)
	require.NoError(t, err)
	journal = appendHeader(nil, journalMagic, header{store: storeID, sequence: 2}, nil)
	for i, c := range []Change{
		{Op: opSchema, Topic: &Topic{Name: "a", ID: a.ID}, Base: 2, Schema: []byte("{}")},
		{Op: opCreate, Topic: ref(topic("b", 2)), Schema: []byte("true")},
		{Op: opCreateUser, User: &userRecord{Name: "v", PasswordHash: []byte("h"), CreatedAtMs: 3, UpdatedAtMs: 3}},
		{Op: opSetPassword, User: &userRecord{Name: "v", PasswordHash: []byte("i"), UpdatedAtMs: 4}},
		{Op: opSetGrants, User: &userRecord{Name: "v", Grants: []Grant{{Action: ActionAdmin}}, UpdatedAtMs: 5}},
		{Op: opDeleteUser, User: &userRecord{Name: "v"}},
	} {
		journal = mustEntry(t, journal, storeID, uint64(3+i), c)
	}
	return snapshot, journal
}

// TestOpenFull: what the golden files of everything say is what an open shows.
func TestOpenFull(t *testing.T) {
	l, err := openFiles(t, first(sampleFull(t)), second(sampleFull(t)))
	require.NoError(t, err)
	require.Equal(t, Recovery{Topics: 2, Sequence: 8, Replayed: 6}, l.Recovery())
	require.Equal(t, []Schema{{1, []byte(`{"a":"<>"}`)}, {2, []byte("true")}, {3, []byte("{}")}}, l.Schemas("a"))
	require.Equal(t, []Schema{{1, []byte("true")}}, l.Schemas("b"))
	require.Len(t, l.Users(), 1)
	u, _ := l.User("u")
	require.Equal(t, User{"u", []byte("hash"), []Grant{{ActionProduce, []string{"a*"}}}, true, 1, 2}, u)
	a, _ := l.Get("a")
	require.Equal(t, "u", a.Owner)
}

func first(a, _ []byte) []byte  { return a }
func second(_, b []byte) []byte { return b }

// sampleSnapshot and sampleJournal are files as the format draws them: two topics at change 2, then a create, an update and a
// delete.
func sampleSnapshot(t testing.TB) []byte {
	a, b := topic("a", 1), topic("b", 2)
	snapshot, err := encodeSnapshot(storeID, stateOf(t, 2, a, b))
	require.NoError(t, err)
	return snapshot
}

// stateOf returns the state with these topics.
func stateOf(t testing.TB, sequence uint64, topics ...Topic) *State {
	s := &State{sequence: sequence}
	for i := range topics {
		s.entries = append(s.entries, &entry{Topic: topics[i]})
	}
	return s
}

// mustEntry appends the entry of a change.
func mustEntry(t testing.TB, dst []byte, store identity, sequence uint64, c Change) []byte {
	payload, err := c.Encode()
	require.NoError(t, err)
	return appendEntry(dst, store, sequence, payload)
}

func ref(t Topic) *Topic { return &t }

func sampleJournal(t testing.TB) (journal []byte, ends []int) {
	journal = appendHeader(nil, journalMagic, header{store: storeID, sequence: 2}, nil)
	ends = []int{len(journal)}
	updated := topic("b", 2)
	updated.Partitions = 8
	for i, c := range []Change{{Op: opCreate, Topic: ref(topic("c", 3))}, {Op: opUpdate, Topic: &updated}, {Op: opDelete, Topic: &Topic{Name: "a", ID: topic("a", 1).ID}}} {
		journal = mustEntry(t, journal, storeID, uint64(3+i), c)
		ends = append(ends, len(journal))
	}
	return journal, ends
}

// confirm fills the cells of a journal for these changes.
func confirm(journal []byte, changes ...uint64) []byte {
	b := slices.Clone(journal)
	for _, n := range changes {
		cell := header{store: storeID, sequence: 2}.cell(n)
		copy(b[cellsAt+n%2*cellSize:], cell[:])
	}
	return b
}

// TestGolden holds the formats to bytes kept in files.
func TestGolden(t *testing.T) {
	journal, _ := sampleJournal(t)
	for name, b := range map[string][]byte{"snapshot.golden": sampleSnapshot(t), "journal.golden": journal, "confirmed.golden": confirm(journal, 4, 5),
		"full-snapshot.golden": first(sampleFull(t)), "full-journal.golden": second(sampleFull(t))} {
		path := filepath.Join("testdata", name)
		text := []byte(hex.Dump(b))
		if *update {
			require.NoError(t, os.MkdirAll("testdata", 0o755))
			require.NoError(t, os.WriteFile(path, text, 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), string(text), name)
	}
}

// TestVersion1: files of the version before, as they are kept, are read, and rewritten in the version of now.
func TestVersion1(t *testing.T) {
	golden := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join("testdata", name+".v1.golden"))
		require.NoError(t, err)
		var b []byte
		for line := range strings.Lines(string(text)) {
			digits, _, _ := strings.Cut(line[8:], "|")
			part, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
			require.NoError(t, err)
			b = append(b, part...)
		}
		return b
	}
	journal, _ := sampleJournal(t)
	for _, old := range []string{"journal", "confirmed"} {
		// A crash in the first open may leave the new snapshot with the old journal.
		for _, snapshot := range [][]byte{golden("snapshot"), sampleSnapshot(t)} {
			l, err := openFiles(t, snapshot, golden(old))
			require.NoError(t, err)
			now, err := openFiles(t, sampleSnapshot(t), journal)
			require.NoError(t, err)
			require.Equal(t, now.List("", 0), l.List("", 0))
			require.Equal(t, now.Recovery(), l.Recovery())
			b, err := vfs.ReadFile(l.dir, snapshotName, 1<<20)
			require.NoError(t, err)
			require.EqualValues(t, formatVersion, b[8])
			require.NoError(t, l.CreateUser(User{Name: "u", PasswordHash: []byte("h")}))
		}
	}
	for _, file := range []string{"snapshot", "journal"} { // what a newer program wrote is left alone
		newer := map[string][]byte{"snapshot": sampleSnapshot(t), "journal": journal}
		newer[file] = slices.Clone(newer[file])
		newer[file][8]++
		_, err := openFiles(t, newer["snapshot"], newer["journal"])
		require.EqualValues(t, 8, requireCorrupt(t, err, "topics."+file).Offset)
	}
}

// openFiles opens a store made of these two files; nil is a missing one.
func openFiles(t testing.TB, snapshot, journal []byte) (*Local, error) {
	dir := openDir(t, disk.FS(disk.New(disk.Adversarial)), "meta")
	for name, b := range map[string][]byte{snapshotName: snapshot, journalName: journal} {
		if b != nil {
			require.NoError(t, vfs.ReplaceFile(dir, name, b))
		}
	}
	l, err := openLocal(envForTests, dir)
	if err == nil {
		t.Cleanup(func() { l.Close() })
	}
	return l, err
}

func requireCorrupt(t testing.TB, err error, file string, what ...any) *CorruptError {
	var corrupt *CorruptError
	require.ErrorAs(t, err, &corrupt, what...)
	require.Equal(t, file, corrupt.File, what...)
	return corrupt
}

// TestOpenSample: what the golden files say is what an open shows.
func TestOpenSample(t *testing.T) {
	journal, _ := sampleJournal(t)
	l, err := openFiles(t, sampleSnapshot(t), journal)
	require.NoError(t, err)
	require.Equal(t, Recovery{Topics: 2, Sequence: 5, Replayed: 3}, l.Recovery())
	require.Equal(t, []string{"b", "c"}, names(l.List("", 0)))
	b, _ := l.Get("b")
	require.EqualValues(t, 8, b.Partitions)
	require.Equal(t, storeID, l.store)
}

// A failed open is a nil Store, which callers may compare with nil.
func TestFailedOpenIsNil(t *testing.T) {
	dir := openDir(t, disk.FS(disk.New(disk.Adversarial)), "meta")
	require.NoError(t, vfs.ReplaceFile(dir, snapshotName, []byte("x")))
	store, err := OpenLocal(envForTests, dir)
	requireCorrupt(t, err, journalName)
	require.True(t, store == nil)
}

// TestJournalCutAnywhere: a journal that ends early shows the changes that are whole; less than its header is damage. M2
func TestJournalCutAnywhere(t *testing.T) {
	journal, ends := sampleJournal(t)
	for size := range len(journal) {
		for _, tail := range [][]byte{nil, make([]byte, 700), bytes.Repeat([]byte{0xff}, 50)} {
			if size < headerSize {
				tail = nil // zeros could complete a header
			}
			cut := append(slices.Clone(journal[:size]), tail...)
			l, err := openFiles(t, sampleSnapshot(t), cut)
			if size < headerSize {
				requireCorrupt(t, err, journalName)
				continue
			}
			require.NoError(t, err, "%d bytes", size)
			whole := 0
			for whole+1 < len(ends) && ends[whole+1] <= size {
				whole++
			}
			// A tail of zeros may complete nothing: no entry ends in a zero byte.
			require.Equal(t, Recovery{Topics: l.Recovery().Topics, Sequence: uint64(2 + whole), Replayed: whole, Cut: int64(len(cut) - ends[whole])}, l.Recovery(), "%d bytes", size)
		}
	}
}

// TestJournalFlipAnywhere: a damaged header or an entry with another behind it is an error that names the place; a damaged last
// entry is cut. M2
func TestJournalFlipAnywhere(t *testing.T) {
	journal, ends := sampleJournal(t)
	for at := range journal {
		for _, mask := range []byte{1, 0x80} {
			bad := slices.Clone(journal)
			bad[at] ^= mask
			l, err := openFiles(t, sampleSnapshot(t), bad)
			if at >= ends[2] {
				require.NoError(t, err, "byte %d", at)
				require.Equal(t, uint64(4), l.Version())
				require.EqualValues(t, len(journal)-ends[2], l.Recovery().Cut)
				continue
			}
			if at >= cellsAt && at < headerSize { // a cell that is none
				require.NoError(t, err, "byte %d", at)
				require.Equal(t, uint64(5), l.Version())
				continue
			}
			corrupt := requireCorrupt(t, err, journalName, "byte %d", at)
			if at >= headerSize {
				start := ends[0]
				if at >= ends[1] {
					start = ends[1]
				}
				require.EqualValues(t, start, corrupt.Offset, "byte %d", at)
			}
		}
	}
}

// TestConfirmedJournal: with the last change confirmed, and with the last but one as the cell for the last was torn, no damage
// forgets a confirmed change. M1
func TestConfirmedJournal(t *testing.T) {
	journal, ends := sampleJournal(t)
	for _, x := range []struct {
		last    uint64
		journal []byte
	}{{5, confirm(journal, 4, 5)}, {4, confirm(journal, 4)}, {4, confirm(journal, 3, 4)}} {
		for at := headerSize; at < len(journal); at++ {
			for _, bad := range [][]byte{x.journal[:at], append(slices.Clone(x.journal[:at]), make([]byte, 600)...), flipByte(x.journal, at)} {
				l, err := openFiles(t, sampleSnapshot(t), bad)
				if err == nil {
					require.GreaterOrEqual(t, l.Version(), x.last, "byte %d", at)
					continue
				}
				require.Less(t, at, ends[x.last-2], "byte %d", at)
				require.LessOrEqual(t, requireCorrupt(t, err, journalName).Offset, int64(at))
				_, err = DecodeJournal(bad, func(JournalChange) {})
				requireCorrupt(t, err, journalName)
			}
		}
		for at := cellsAt; at < headerSize; at++ {
			l, err := openFiles(t, sampleSnapshot(t), flipByte(x.journal, at))
			require.NoError(t, err)
			require.Equal(t, uint64(5), l.Version())
		}
	}
}

// The cells that a store writes are those of its changes, also after a compaction while it is open.
func TestStoreConfirms(t *testing.T) {
	dir := openDir(t, disk.FS(disk.New(disk.Adversarial)), "meta")
	l := open(t, dir)
	for i := range 7 {
		if i == 4 {
			l.compactMin, l.snapshotSize = 0, 0
		}
		require.NoError(t, l.Create(topic(string(rune('a'+i)), i)))
		l.compactMin = compactMin
		b, err := vfs.ReadFile(dir, journalName, 1<<20)
		require.NoError(t, err)
		h, confirmed, err := parseJournalHeader(b)
		require.NoError(t, err)
		require.EqualValues(t, i+1, confirmed)
		require.Equal(t, i >= 4, h.sequence >= 4)
	}
	require.NoError(t, l.Close())
}

func flipByte(b []byte, at int) []byte {
	c := slices.Clone(b)
	c[at] ^= 0x10
	return c
}

// TestSnapshotDamage: every flipped byte and every missing or added one is an error.
func TestSnapshotDamage(t *testing.T) {
	snapshot := sampleSnapshot(t)
	journal, _ := sampleJournal(t)
	for at := range snapshot {
		bad := slices.Clone(snapshot)
		bad[at] ^= 4
		_, err := openFiles(t, bad, journal)
		requireCorrupt(t, err, snapshotName, "byte %d", at)
		_, err = openFiles(t, snapshot[:at], journal)
		requireCorrupt(t, err, snapshotName, "%d bytes", at)
	}
	_, err := openFiles(t, append(snapshot, 0), journal)
	requireCorrupt(t, err, snapshotName)
}

// TestMisplacedFiles: files that are whole but do not belong together, or lack the other.
func TestMisplacedFiles(t *testing.T) {
	snapshot := sampleSnapshot(t)
	journal, ends := sampleJournal(t)
	empty := func(store identity, sequence uint64) []byte {
		return appendHeader(nil, journalMagic, header{store: store, sequence: sequence}, nil)
	}
	other := storeID
	other[3]++

	_, err := openFiles(t, snapshot, empty(other, 2))
	require.EqualValues(t, 16, requireCorrupt(t, err, journalName).Offset)
	_, err = openFiles(t, snapshot, empty(storeID, 3)) // changes are missing between the two
	require.EqualValues(t, 32, requireCorrupt(t, err, journalName).Offset)
	_, err = openFiles(t, snapshot, nil)
	requireCorrupt(t, err, journalName)
	_, err = openFiles(t, nil, journal)
	requireCorrupt(t, err, snapshotName)
	_, err = openFiles(t, nil, empty(storeID, 7))
	requireCorrupt(t, err, snapshotName)
	_, err = openFiles(t, []byte{}, []byte{})
	requireCorrupt(t, err, snapshotName)

	l, err := openFiles(t, nil, empty(storeID, 0)) // a creation that stopped half-way
	require.NoError(t, err)
	require.True(t, l.Recovery().Created)
	l, err = openFiles(t, snapshot, empty(storeID, 0)) // stopped between snapshot and journal, the entries lost
	require.NoError(t, err)
	require.EqualValues(t, 2, l.Version())

	// An entry twice, one of another store, one that does not fit, one from a newer program: whole, in their place, and wrong.
	_, err = openFiles(t, snapshot, append(slices.Clone(journal), journal[ends[2]:]...))
	requireCorrupt(t, err, journalName)
	alien := mustEntry(t, slices.Clone(journal), other, 6, Change{Op: opCreate, Topic: ref(topic("d", 4))})
	l, err = openFiles(t, snapshot, alien)
	require.NoError(t, err)
	require.NotZero(t, l.Recovery().Cut) // no entry of this store
	for _, c := range []Change{
		{Op: opCreate, Topic: ref(topic("c", 9))}, {Op: opDelete, Topic: ref(topic("c", 9))}, {Op: opUpdate, Topic: ref(topic("d", 9))},
		{Op: "rename", Topic: ref(topic("d", 9))}, {Op: opCreate, Topic: &Topic{Name: "d"}}, {Op: opCreate}, {Op: opDeleteUser},
		{Op: opDeleteUser, User: &userRecord{Name: "nobody"}}, {Op: opCreate, Topic: ref(topic("d", 9)), User: &userRecord{Name: "u"}},
	} {
		wrong := mustEntry(t, slices.Clone(journal), storeID, 6, c)
		_, err = openFiles(t, snapshot, wrong)
		require.EqualValues(t, len(journal), requireCorrupt(t, err, journalName, "%v", c).Offset)
	}
	newer := binary.LittleEndian.AppendUint32(slices.Clone(journal), 19)
	newer = append(newer, 0, 0, 0, 0)
	newer = binary.LittleEndian.AppendUint64(newer, 6)
	newer = append(newer, `{"op":"x","more":1}`...)
	binary.LittleEndian.PutUint32(newer[len(journal)+4:], entrySum(storeID, newer[len(journal):]))
	_, err = openFiles(t, snapshot, newer)
	require.Contains(t, requireCorrupt(t, err, journalName).Why, "unknown field")

	// Two names apart by case, from a program that did not mind.
	a, A := topic("a", 1), topic("A", 2)
	clash, err := encodeSnapshot(storeID, stateOf(t, 2, A, a))
	require.NoError(t, err)
	_, err = openFiles(t, clash, empty(storeID, 2))
	requireCorrupt(t, err, snapshotName)
}

// FuzzOpen: whatever the files hold, an open answers an error or a store that works and that a second open finds as it was left.
func FuzzOpen(f *testing.F) {
	journal, ends := sampleJournal(f)
	f.Add(sampleSnapshot(f), journal)
	f.Add(sampleSnapshot(f), journal[:ends[2]+9])
	f.Add(first(sampleFull(f)), second(sampleFull(f)))
	f.Add(sampleSnapshot(f)[:70], journal[:64])
	f.Add([]byte{}, journal[:64])
	f.Fuzz(func(t *testing.T, snapshot, journal []byte) {
		dir := openDir(t, disk.FS(disk.New(disk.Ordered)), "meta")
		require.NoError(t, vfs.ReplaceFile(dir, snapshotName, repair(snapshot)))
		require.NoError(t, vfs.ReplaceFile(dir, journalName, repair(journal)))
		l, err := openLocal(envForTests, dir)
		if err != nil {
			return
		}
		if _, taken := l.Get("fuzz"); !taken {
			err = l.Create(topic("fuzz", 1))
			var clash *CaseClashError
			if err != nil {
				require.ErrorAs(t, err, &clash)
			}
		}
		want, version := l.List("", 0), l.Version()
		require.NoError(t, l.Close())
		l, err = openLocal(envForTests, dir)
		require.NoError(t, err)
		require.Equal(t, want, l.List("", 0))
		require.Equal(t, version, l.Version())
		require.NoError(t, l.Close())
	})
}

// repair puts the right checksums into a mutated file, so that the fuzzer gets past them.
func repair(b []byte) []byte {
	b = slices.Clone(b)
	if len(b) < headerSize {
		return b
	}
	if string(b[:8]) == snapshotMagic {
		binary.LittleEndian.PutUint32(b[12:], headerSum(b))
		return b
	}
	binary.LittleEndian.PutUint32(b[12:], headerSum(b[:headerSize]))
	store := identity(b[16:32])
	for at := headerSize; at+entryHeaderSize < len(b); {
		length := int(binary.LittleEndian.Uint32(b[at:]))
		if length > len(b)-at-entryHeaderSize {
			break
		}
		end := at + entryHeaderSize + length
		binary.LittleEndian.PutUint32(b[at+4:], entrySum(store, b[at:end]))
		at = end
	}
	return b
}
