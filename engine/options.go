package engine

import (
	"encoding/json"
	"fmt"
	"time"

	"narad/committer"
	"narad/env"
	"narad/metastore"
	"narad/record"
	"narad/segment"
)

// Limits that are part of the contract (narad-facts 1.2, 1.3).
const (
	MaxPayload    = 1 << 20 // bytes of one message's payload
	MaxKey        = 1 << 16 // bytes of one message's key
	MaxPartitions = 108     // default of Options.MaxPartitions
	MaxWait       = 30 * time.Second
)

// Options configure an engine. The zero value of every field means its default.
type Options struct {
	// Env is the world to run in; nil is the real one.
	Env *env.Env
	// Metastore holds the topics; the caller closes it after the engine. Its contents must be as new as the data directory's:
	// a replica has caught up. Nil is a metastore of the engine's own, in the data directory (metastore.OpenLocal).
	Metastore metastore.Store
	// CommitInterval is the durability interval D of consumer state: a power loss brings back at most the
	// acks of about D + T + one sync, T = min(WriteoutInterval, D). Default 1 s, from 10 ms to 60 s (CFG-01).
	CommitInterval time.Duration
	// WriteoutInterval bounds T, how often consumer state goes to the page cache: a killed process brings back the acks of about
	// that time. Default and most 100 ms, at least 10 ms.
	WriteoutInterval time.Duration
	// SegmentBytes is the size at which a partition log rolls. Default 64 MiB.
	SegmentBytes int64
	// WALSegmentBytes is the size at which the ingress log rolls. Default 64 MiB.
	WALSegmentBytes int64
	// WALPreallocate has the files of the ingress log prepared ahead; see wal.Options.Preallocate. It makes produces
	// quicker and takes up to two more files of WALSegmentBytes of disk space. Default off.
	WALPreallocate bool
	// MaxConsumerFiles bounds the consumer.ahead descriptors that are held open. Default: the smaller of
	// 4096 and a quarter of the process's limit of open files, as far as the file system can tell (COM-33).
	MaxConsumerFiles int
	// DispatchWindow is how many accepted messages may be in flight between the ingress log and the
	// partition logs, a quarter of it for one partition. Default: 16,384, and more with more than 256 partitions.
	DispatchWindow int
	// IdleAfter is how long a partition goes unused before its log and its lease table are closed; the next use opens them
	// again. Default 30 minutes.
	IdleAfter time.Duration
	// RetentionInterval is how often expired records are looked for in open partitions. Default 1 minute.
	RetentionInterval time.Duration
	// ColdRetentionInterval is how often closed partitions are looked at as well, in whole RetentionIntervals. Default: five of
	// them.
	ColdRetentionInterval time.Duration
	// Codec is how partition logs store what is committed from now on. Any codec is read, whatever it is. Default: not compressed.
	Codec record.Codec
	// CompressionLevel is how hard the codec tries. Default: the quickest.
	CompressionLevel record.Level
	// Listener sees everything that happens, in order, as typed events. It is called under locks: it must be
	// quick, must not block and must not call the engine. Logs, metrics and the simulator are listeners.
	Listener func(Event)
	// Coarse leaves out what only a check of the rules or a trace of single messages wants to hear, as each event costs an
	// allocation: Accepted, Dispatched, Leased, ConsumerSnapshot, Replayed, and those of waiters and of the pump. What counts
	// messages stays: Stored for each commit, Delivered, Settled, and all ends of leases.
	Coarse bool
	// Tally hears of messages that are delivered and settled in place of the Listener, without an event for each. Default: none.
	Tally Tally
	// SharedReads has deliveries share the memory of their keys and payloads with other reads, which spares a copy: whoever gets one
	// must not change them, and should let go of them soon. Default: they belong to whoever gets them.
	SharedReads bool
}

// Tally counts messages. It is called as a Listener is, and must be as quick.
type Tally interface {
	// Delivered says that messages of a partition, with so many bytes of keys and payloads, are about to be returned to consumers.
	Delivered(key Key, messages, bytes int)
	// Settled says that an ack was accepted.
	Settled(key Key, at env.Instant)
}

func (o Options) withDefaults() Options {
	if o.Env == nil {
		o.Env = env.OS()
	}
	setDefault(&o.CommitInterval, time.Second)
	setDefault(&o.SegmentBytes, 64<<20)
	setDefault(&o.WALSegmentBytes, 64<<20)
	setDefault(&o.IdleAfter, 30*time.Minute)
	setDefault(&o.RetentionInterval, time.Minute)
	setDefault(&o.ColdRetentionInterval, coldRounds*o.RetentionInterval)
	setDefault(&o.WriteoutInterval, 100*time.Millisecond)
	if o.MaxConsumerFiles == 0 {
		o.MaxConsumerFiles = committer.MaxOpenDefault(openFileLimit(o.Env))
	}
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// openFileLimit returns how many files the process may hold open, 0 when the file system cannot tell.
func openFileLimit(e *env.Env) int {
	if l, ok := e.FS().(interface{ OpenFileLimit() int }); ok {
		return l.OpenFileLimit()
	}
	return 0
}

// A log in use needs one file. What a log can do without takes a part of the files that there may be: bounds files here, consumer.ahead
// by MaxConsumerFiles, and directories in vfs.
const boundsPart = 16

// boundsShare is how many bounds files may be held open.
func boundsShare(e *env.Env) *segment.FileShare {
	limit := openFileLimit(e)
	if limit == 0 {
		return nil
	}
	return segment.NewFileShare(limit / boundsPart)
}

// Validate reports the first option that is out of its range, with the range.
func (o Options) Validate() error {
	o = o.withDefaults()
	switch {
	case o.CommitInterval < 10*time.Millisecond || o.CommitInterval > 60*time.Second:
		return outOfRange("CommitInterval", o.CommitInterval, "10ms to 60s")
	case o.WriteoutInterval < 10*time.Millisecond || o.WriteoutInterval > 100*time.Millisecond:
		return outOfRange("WriteoutInterval", o.WriteoutInterval, "10ms to 100ms")
	case o.SegmentBytes < 4096:
		return outOfRange("SegmentBytes", o.SegmentBytes, "at least 4096")
	case o.WALSegmentBytes < 4096:
		return outOfRange("WALSegmentBytes", o.WALSegmentBytes, "at least 4096")
	case o.MaxConsumerFiles < 1:
		return outOfRange("MaxConsumerFiles", o.MaxConsumerFiles, "at least 1")
	case o.IdleAfter < time.Second:
		return outOfRange("IdleAfter", o.IdleAfter, "at least 1s")
	case o.RetentionInterval < time.Second || o.RetentionInterval > 10*time.Minute:
		return outOfRange("RetentionInterval", o.RetentionInterval, "1s to 10m")
	case o.ColdRetentionInterval < o.RetentionInterval:
		return outOfRange("ColdRetentionInterval", o.ColdRetentionInterval, "at least RetentionInterval")
	case o.Codec > record.CodecZstd:
		return outOfRange("Codec", o.Codec, "none or zstd")
	case o.CompressionLevel > record.LevelBest:
		return outOfRange("CompressionLevel", o.CompressionLevel, "fastest, default, better or best")
	case o.DispatchWindow < 0:
		return outOfRange("DispatchWindow", o.DispatchWindow, "at least 1, or 0 for the default")
	}
	return nil
}

func outOfRange(field string, value any, allowed string) error {
	return fmt.Errorf("%w: %s is %v, allowed is %s", ErrInvalid, field, value, allowed)
}

// TopicSpec describes a topic to create. A zero field means its default.
type TopicSpec struct {
	Name       string        // 1 to 200 characters of [A-Za-z0-9._-], not "." or ".."
	Partitions int           // default 3, at most MaxPartitions
	Visibility time.Duration // how long a lease lasts; default 30 s, in whole milliseconds
	// RetentionMs is how long a message is kept at least, acked or not; 0 means for ever, otherwise at least an hour. It is gone
	// after about twice that.
	RetentionMs   int64
	MaxInFlight   int             // leases per partition; default 1024
	MaxAckedAhead int             // acks parked above a gap, per partition, before only the gap is handed out; default 1024
	Owner         string          // the user that creates it, who must exist in the metastore; empty for none
	Schema        json.RawMessage // first version of its schema, checked by the caller; nil for none
}

func (s TopicSpec) withDefaults() TopicSpec {
	setDefault(&s.Partitions, 3)
	setDefault(&s.Visibility, 30*time.Second)
	setDefault(&s.MaxInFlight, 1024)
	setDefault(&s.MaxAckedAhead, 1024)
	return s
}

func (s TopicSpec) validate() error {
	switch {
	case s.Partitions < 1 || s.Partitions > MaxPartitions:
		return outOfRange("partitions", s.Partitions, fmt.Sprintf("1 to %d", MaxPartitions))
	case s.Visibility < time.Millisecond || s.Visibility%time.Millisecond != 0:
		return outOfRange("visibility timeout", s.Visibility, "whole milliseconds, at least one")
	case s.RetentionMs != 0 && s.RetentionMs < 3_600_000:
		return outOfRange("retention_ms", s.RetentionMs, "0 (for ever) or at least 3600000") // RET-01
	case s.MaxInFlight < 1 || s.MaxInFlight > maxCap:
		return outOfRange("max_in_flight_per_partition", s.MaxInFlight, fmt.Sprintf("1 to %d", maxCap))
	case s.MaxAckedAhead < 1 || s.MaxAckedAhead > maxCap:
		return outOfRange("max_acked_ahead_per_partition", s.MaxAckedAhead, fmt.Sprintf("1 to %d", maxCap))
	}
	return nil
}

// maxCap bounds the caps of a topic so that a lease table's memory stays bounded.
const maxCap = 1 << 20
