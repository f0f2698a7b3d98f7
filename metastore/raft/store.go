package raft

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"narad/metastore"
	"narad/vfs"

	hraft "github.com/hashicorp/raft"
)

const (
	enqueueTimeout = 5 * time.Second
	barrierTimeout = 5 * time.Second
	attempts       = 3 // of a change that others overtake
)

// Store is a metastore on Raft. Any number of goroutines may use it at once.
type Store struct {
	*metastore.Replica

	config Config
	files  files
	fsm    *fsm
	raft   *hraft.Raft
	trans  *watched

	closing  chan struct{} // closed when Raft is left, for whatever reason
	leaving  sync.Once
	watchers sync.WaitGroup

	// change admits one change at a time: a channel, as it is held while others answer.
	change    chan struct{}
	barriered uint64 // the term whose barrier was passed; guarded by change
	closed    bool   // guarded by change
	progress
}

var _ metastore.Store = (*Store)(nil)

// NoLeaderError refuses a change that only the leader can make, and that nobody has made.
type NoLeaderError struct {
	LeaderID   string // empty when this node knows none
	LeaderAddr string
}

func (e *NoLeaderError) Error() string {
	if e.LeaderID == "" {
		return metastore.ErrNoLeader.Error()
	}
	return fmt.Sprintf("%v here: %s at %s leads", metastore.ErrNoLeader, e.LeaderID, e.LeaderAddr)
}

// Unwrap returns metastore.ErrNoLeader.
func (e *NoLeaderError) Unwrap() error { return metastore.ErrNoLeader }

// Open opens the metastore in a data directory, or makes one, and returns when its replica is as new as what the leader has committed.
// The directory need not be locked; another process that has the store open makes Open fail with [vfs.ErrLocked].
func Open(dataDir string, c Config) (*Store, error) {
	s, err := start(dataDir, c)
	if err != nil {
		return nil, fmt.Errorf("open metastore: %w", err)
	}
	if err := s.awaitCaughtUp(s.config.OpenTimeout); err != nil {
		return nil, errors.Join(fmt.Errorf("open metastore: %w", err), s.Close())
	}
	return s, nil
}

// start opens the metastore without waiting for anybody.
func start(dataDir string, c Config) (*Store, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	root, err := vfs.OS{}.OpenRoot(dataDir, true)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := boot(root, dataDir, c); err != nil {
		return nil, err
	}
	s := &Store{config: c, closing: make(chan struct{}), change: make(chan struct{}, 1)}
	s.Replica = metastore.NewReplica(s.commit)
	if err := s.begin(filepath.Join(dataDir, raftDir)); err != nil {
		s.leave()
		return nil, errors.Join(err, s.files.close())
	}
	return s, nil
}

// begin opens the files and joins the cluster.
func (s *Store) begin(dir string) error {
	if err := present(dir, logFile); err != nil {
		return err
	}
	var err error
	if s.files, err = openFiles(dir, s.config); err != nil {
		return err
	}
	state, at, err := s.files.disk.load()
	if err != nil {
		return err
	}
	restore, err := s.files.fit(at)
	if err != nil {
		return err
	}
	id, err := s.files.identity(s.config)
	if err != nil {
		return err
	}
	s.Show(state)
	s.fsm = &fsm{dir: dir, config: s.config, replica: s.Replica, disk: s.files.disk, closing: s.closing, stop: s.halt}
	s.fsm.at.Store(&at)
	s.fsm.bytes.Store(s.files.disk.size())
	trans, err := newTransport(s.config)
	if err != nil {
		return err
	}
	s.trans = watch(trans, s.closing)
	rc := s.config.raftConfig(id)
	rc.NoSnapshotRestoreOnStart = !restore
	if s.raft, err = hraft.NewRaft(rc, s.fsm, s.files.logs, s.files.logs, s.files.snapshots, s.trans); err != nil {
		s.leave()
		return errors.Join(err, s.trans.Close())
	}
	s.watchers.Go(s.followLeadership)
	if servers := s.raft.GetConfiguration().Configuration().Servers; len(servers) == 1 && servers[0].ID == id {
		s.watchers.Go(s.trans.stand)
	}
	return nil
}

// present reports a file that is missing though its directory was complete once.
func present(dir, name string) error {
	d, err := vfs.OS{}.OpenRoot(dir, false)
	if err != nil {
		return err
	}
	defer d.Close()
	if _, err := d.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return &metastore.CorruptError{File: raftDir + "/" + name, Why: "it is missing; restore all of the directory from one copy"}
	} else if err != nil {
		return err
	}
	return nil
}

// followLeadership passes the barrier as soon as this node leads, whether or not there is a change to make.
func (s *Store) followLeadership() {
	for {
		select {
		case leads := <-s.raft.LeaderCh():
			if !leads {
				continue
			}
			s.change <- struct{}{}
			if err := s.leadLocked(); err != nil {
				s.config.Logger.Warn("metastore: no barrier after an election", "error", err)
			}
			<-s.change
		case <-s.closing:
			return
		}
	}
}

// commit makes the change of a plan, or answers why there can be none.
func (s *Store) commit(plan metastore.Plan) error {
	s.change <- struct{}{}
	defer func() { <-s.change }()
	for range attempts {
		err := s.tryLocked(plan)
		if !errors.Is(err, errStale) {
			return err
		}
	}
	return s.noLeader() // somebody else leads, or did until now
}

// tryLocked plans a change and proposes it. An error that wraps errStale says that the change was planned against an old state.
func (s *Store) tryLocked(plan metastore.Plan) error {
	if s.closed {
		return metastore.ErrClosed
	}
	if err := s.leadLocked(); err != nil {
		return err
	}
	now := s.State()
	c, err := plan(now)
	if err == nil && !c.IsNone() {
		_, err = now.Apply(c)
	}
	if err != nil || c.IsNone() {
		return s.confirmLocked(err)
	}
	entry, err := encode(now, c)
	if err != nil {
		return err
	}
	return s.proposeLocked(entry)
}

func encode(now *metastore.State, c metastore.Change) ([]byte, error) {
	change, err := c.Encode()
	if err != nil {
		return nil, err
	}
	// Not json.Marshal of the whole: it would escape characters of a document.
	return append(append(fmt.Appendf(nil, `{"after":%d,"change":`, now.Sequence()), change...), '}'), nil
}

// leadLocked returns nil when this node leads and its replica holds everything that was committed before (R1).
func (s *Store) leadLocked() error {
	if err := s.fsm.failed(); err != nil {
		return err
	}
	if s.raft.State() != hraft.Leader {
		return s.noLeader()
	}
	term := s.raft.CurrentTerm()
	if s.barriered == term {
		return nil
	}
	if err := s.raft.Barrier(barrierTimeout).Error(); err != nil {
		s.config.Logger.Info("metastore: barrier failed", "term", term, "error", err)
		return s.noLeader()
	}
	if s.raft.CurrentTerm() != term {
		return s.noLeader()
	}
	s.barriered = term
	s.passed(term)
	return nil
}

// confirmLocked returns the answer of a plan that changes nothing, once a majority has confirmed that what it saw was the
// newest state.
func (s *Store) confirmLocked(answer error) error {
	if err := s.raft.VerifyLeader().Error(); err != nil || s.raft.CurrentTerm() != s.barriered {
		return s.noLeader() // in another term somebody else may have led in between
	}
	return answer
}

// proposeLocked has an entry committed and applied.
func (s *Store) proposeLocked(entry []byte) error {
	f := s.raft.Apply(entry, enqueueTimeout)
	err := f.Error()
	switch {
	case err == nil:
		refused, _ := f.Response().(error)
		return refused
	case errors.Is(err, hraft.ErrNotLeader), errors.Is(err, hraft.ErrLeadershipTransferInProgress), errors.Is(err, hraft.ErrEnqueueTimeout):
		return s.noLeader() // it was refused before it was in any log
	}
	return fmt.Errorf("%w: %w", metastore.ErrUncertain, err)
}

func (s *Store) noLeader() error {
	addr, id := s.raft.LeaderWithID()
	if s.raft.State() == hraft.Leader {
		addr, id = "", "" // for a moment only: it is about to step down, or was just elected
	}
	return &NoLeaderError{string(id), string(addr)}
}

// halt leaves Raft for good, as the replica cannot be kept.
func (s *Store) halt(cause error) {
	s.config.Logger.Error("metastore: stopped", "error", cause)
	go func() {
		s.leave()
		s.raft.Shutdown()
		if s.config.OnStop != nil {
			s.config.OnStop(cause)
		}
	}()
}

func (s *Store) leave() { s.leaving.Do(func() { close(s.closing) }) }

// Close implements [metastore.Store]. A leader hands over first.
func (s *Store) Close() error {
	s.change <- struct{}{}
	closed := s.closed
	s.closed = true
	<-s.change
	if closed {
		return nil
	}
	if s.raft.State() == hraft.Leader && s.voters() > 1 {
		if err := s.raft.LeadershipTransfer().Error(); err != nil {
			s.config.Logger.Info("metastore: leadership was not handed over", "error", err)
		}
	}
	s.leave()
	err := s.raft.Shutdown().Error()
	s.watchers.Wait()
	s.fsm.mu.Lock()
	defer s.fsm.mu.Unlock()
	s.files.disk = s.fsm.disk
	return errors.Join(err, s.files.close())
}
