package realfs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/engine"
	"narad/inflight"
	"narad/sim/disk"
	"narad/sim/model"
	"narad/vfs"
)

// What crashes leave of real files is recovered, on both kinds of disk. (INV-01, INV-02, INV-04, INV-07…INV-11)
func TestRounds(t *testing.T) {
	var c Counts
	for seed := range uint64(2) {
		config := Config{Dir: t.TempDir(), Seed: seed, Personality: disk.Personality(seed), Run: 150 * time.Millisecond, Cuts: 2, Draws: 2, Enumerate: 4}
		require.NoError(t, Round(config, &c))
		left, err := os.ReadDir(config.Dir)
		require.NoError(t, err)
		require.Empty(t, left)
	}
	require.Equal(t, 4, c.Lives)
	require.Positive(t, c.Killed)
	require.Positive(t, c.Power)
	require.Positive(t, c.Delivered)
	t.Logf("%+v", c)
}

// noSync is a file system that forgets to sync what its filter matches.
type noSync struct {
	vfs.FS
	forget func(name string) bool // the name of a file, "." for directories
}

func (n noSync) OpenRoot(name string, create bool) (vfs.Dir, error) {
	d, err := n.FS.OpenRoot(name, create)
	return noSyncDir{d, n}, err
}

type noSyncDir struct {
	vfs.Dir
	fs noSync
}

func (d noSyncDir) OpenDir(name string) (vfs.Dir, error) {
	sub, err := d.Dir.OpenDir(name)
	return noSyncDir{sub, d.fs}, err
}

func (d noSyncDir) Create(name string) (vfs.File, error) { return d.wrap(name, d.Dir.Create) }
func (d noSyncDir) Open(name string) (vfs.File, error)   { return d.wrap(name, d.Dir.Open) }

func (d noSyncDir) wrap(name string, open func(string) (vfs.File, error)) (vfs.File, error) {
	f, err := open(name)
	if err != nil || !d.fs.forget(filepath.Base(name)) {
		return f, err
	}
	return noSyncFile{f}, nil
}

func (d noSyncDir) Sync() error {
	if d.fs.forget(".") {
		return nil
	}
	return d.Dir.Sync()
}

type noSyncFile struct{ vfs.File }

func (noSyncFile) Sync() error { return nil }

// A sync that is forgotten shows; the image that shows it is kept, and shows it again.
func TestPlanted(t *testing.T) {
	for name, c := range map[string]struct {
		forget func(name string) bool
		want   string
	}{
		"ingress log":   {func(name string) bool { return strings.HasSuffix(name, ".wal") }, "INV-02 INV-11"},
		"directories":   {func(name string) bool { return name == "." }, "INV-02 INV-04 INV-09 INV-11"},
		"partition log": {func(name string) bool { return strings.HasSuffix(name, ".log") }, "INV-02 INV-04 INV-11"},
		"acks":          {func(name string) bool { return name == "consumer.ahead" }, "INV-09"},
	} {
		t.Run(name, func(t *testing.T) {
			spoil := func(files vfs.FS) vfs.FS { return noSync{files, c.forget} }
			var counts Counts
			var failure *Failure
			for seed := uint64(1); seed < 20; seed++ {
				err := Round(Config{Dir: t.TempDir(), Seed: seed, Lives: 1, Run: 300 * time.Millisecond, Cuts: 12, Draws: 4, Enumerate: 1, spoil: spoil}, &counts)
				if errors.As(err, &failure) {
					break
				}
				require.NoError(t, err)
			}
			require.NotNil(t, failure, "%+v", counts)
			var violation *model.Violation
			require.ErrorAs(t, failure, &violation)
			require.Contains(t, c.want, violation.Invariant, failure)
			for range 2 { // what is kept is not changed by looking
				_, err := Again(failure.Dir)
				require.ErrorAs(t, err, &violation)
				require.Contains(t, c.want, violation.Invariant, err)
			}
		})
	}
}

// stopped is a life of a few messages with a graceful end: three delivered, two of them acked, one never delivered.
func stopped(t *testing.T) *Image {
	t.Helper()
	s, err := Begin(t.TempDir(), nil, disk.Adversarial, engine.Options{})
	require.NoError(t, err)
	require.NoError(t, s.CreateTopic(engine.TopicSpec{Name: "t", Partitions: 1}))
	for range 4 {
		require.NoError(t, s.Produce("t", 0, 100))
	}
	var leases []Lease
	for len(leases) < 3 {
		got, err := s.Consume("t", 0, time.Minute, 1)
		require.NoError(t, err)
		leases = append(leases, got...)
	}
	require.NoError(t, s.Ack(leases[0]))
	require.NoError(t, s.Nack(leases[1]))
	require.NoError(t, s.Extend(leases[2]))
	require.NoError(t, s.Ack(leases[2]))
	require.NoError(t, s.Ack(leases[2]), "the second one finds no lease")
	end, err := s.Stop()
	require.NoError(t, err)
	return end.Stopped()
}

// The judgement finds each way in which an image can differ from the facts.
func TestJudge(t *testing.T) {
	image := stopped(t)
	v, err := image.Judge(t.TempDir())
	require.NoError(t, err)
	require.Equal(t, Verdict{Delivered: 2, Settled: 2}, v)
	for name, c := range map[string]struct {
		want   string
		change func(*Facts, *Part)
	}{
		"another message than was produced": {"INV-01", func(f *Facts, _ *Part) { f.Messages[3].Size++ }},
		"an accepted message is nowhere":    {"INV-02", func(f *Facts, _ *Part) { f.Messages = append(f.Messages, Message{Topic: "t", Accepted: true}) }},
		"a topic is not there":              {"INV-02", func(f *Facts, _ *Part) { f.Topics["u"] = 1 }},
		"a confirmed offset is not there":   {"INV-04", func(_ *Facts, p *Part) { p.Next = 5 }},
		"an offset holds another message":   {"INV-04", func(_ *Facts, p *Part) { p.Copies[3] = 2 }},
		"a durable ack came back":           {"INV-10", func(_ *Facts, p *Part) { p.Durable = inflight.State{Committed: 1} }},
		"a durable ack ahead came back":     {"INV-10", func(_ *Facts, p *Part) { p.Durable = inflight.State{Committed: -1, Ahead: []int64{3}} }},
		"an offset is settled and was not":  {"INV-11", func(_ *Facts, p *Part) { delete(p.AckTried, 2) }},
		"an ack older than the window is lost": {"INV-09", func(f *Facts, p *Part) {
			f.At, f.Ticks = time.Hour, &Ticks{time.Hour, time.Hour}
			p.Acked[1] = time.Hour - f.Interval - 100*time.Millisecond - 2*f.Longest - 3*f.Late - napLasts - 1
		}},
	} {
		t.Run(name, func(t *testing.T) {
			changed := &Image{image.disk, image.Crash, image.Facts.clone()}
			c.change(changed.Facts, changed.Facts.Parts["t/0"])
			_, err := changed.Judge(t.TempDir())
			var violation *model.Violation
			require.ErrorAs(t, err, &violation)
			require.Equal(t, c.want, violation.Invariant, err)
		})
	}
	killed := &Image{image.disk, Killed, image.Facts.clone()}
	killed.Facts.Ticks, killed.Facts.Parts["t/0"].Acked[1] = &Ticks{Began: 2}, 1
	_, err = killed.Judge(t.TempDir())
	require.ErrorContains(t, err, "INV-08: {t 0}: the ack of offset 1 came back")
	killed.Facts.Parts["t/0"].Acked[1] = 2
	_, err = killed.Judge(t.TempDir())
	require.NoError(t, err, "since that tick began")
	full := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(full, "x"), nil, 0o600))
	_, err = image.Judge(full)
	require.ErrorContains(t, err, "not empty")
	_, err = Again(t.TempDir())
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestStates(t *testing.T) {
	state := func(committed int64, ahead ...int64) inflight.State {
		return inflight.State{Committed: committed, Ahead: ahead}
	}
	require.Equal(t, state(6, 9), union(state(3, 6), state(-1, 4, 5, 9)))
	require.Equal(t, state(5), union(state(5), state(2, 4)))
	_, lost := missing(state(3, 6), state(4, 6))
	require.False(t, lost)
	o, lost := missing(state(3, 6), state(2, 6))
	require.True(t, lost)
	require.EqualValues(t, 3, o)
	o, lost = missing(state(3, 6), state(3, 5))
	require.True(t, lost)
	require.EqualValues(t, 6, o)
}
