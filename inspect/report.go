package inspect

// ReportVersion is the version of the report's structure. Fields may be added within a version.
const ReportVersion = 1

// Report is what was found at a path. Its JSON form is documented and stable within ReportVersion.
type Report struct {
	Version  int    `json:"version"`
	Path     string `json:"path"`
	Verified bool   `json:"verified"` // with Options.Verify
	Locked   bool   `json:"locked"`   // the lock of the data directory was held meanwhile
	// Complete tells that every checksum was verified, not only the headers of frames.
	Complete bool      `json:"complete"`
	Outcome  Outcome   `json:"outcome"`
	Totals   Totals    `json:"totals"`
	Findings []Finding `json:"findings"`
	Root     *Node     `json:"root"`
}

// Outcome is the answer in a word.
type Outcome string

// The outcomes, and the exit status of the command for each.
const (
	Clean      Outcome = "clean"      // 0: no damage; there may be notes and warnings
	Damaged    Outcome = "damaged"    // 1
	Unreadable Outcome = "unreadable" // 2: no damage seen, but something could not be read
)

// Totals counts.
type Totals struct {
	Files    int   `json:"files"`
	Bytes    int64 `json:"bytes"`
	Damage   int   `json:"damage"`
	Unread   int   `json:"unread"`
	Warnings int   `json:"warnings"`
	Notes    int   `json:"notes"`
}

// Severity says how bad a finding is.
type Severity string

// The severities, worst first.
const (
	SeverityDamage  Severity = "damage"
	SeverityUnread  Severity = "unread"
	SeverityWarning Severity = "warning"
	SeverityNote    Severity = "note"
)

func (s Severity) rank() int {
	switch s {
	case SeverityDamage:
		return 4
	case SeverityUnread:
		return 3
	case SeverityWarning:
		return 2
	case SeverityNote:
		return 1
	}
	return 0
}

// Finding is one thing that deserves a look.
type Finding struct {
	Severity Severity `json:"severity"`
	File     string   `json:"file"`             // below Report.Path; "." is the path itself
	Offset   int64    `json:"offset"`           // byte where it begins; -1: the file as a whole
	Length   int64    `json:"length,omitempty"` // bytes concerned, 0 when unknown
	Code     string   `json:"code"`             // a word for programs
	What     string   `json:"what"`             // what is wrong
	Effect   string   `json:"effect"`           // what it means for the messages and for the next start
	Advice   string   `json:"advice,omitempty"` // what to do, if anything
}

// Kind says what a file or directory is.
type Kind string

// The kinds.
const (
	KindDataDir      Kind = "data_directory"
	KindTopicsDir    Kind = "topics_directory"
	KindTopicDir     Kind = "topic_directory"
	KindStaleDir     Kind = "stale_topic_directory"
	KindPartitionDir Kind = "partition_directory"
	KindIngressDir   Kind = "ingress_directory"
	KindMetastoreDir Kind = "metastore_directory"
	KindWAL          Kind = "wal_segment"
	KindCheckpoint   Kind = "wal_checkpoint"
	KindLog          Kind = "log_segment"
	KindIndex        Kind = "log_index"
	KindBounds       Kind = "log_bounds"
	KindAhead        Kind = "consumer_ahead"
	KindOffset       Kind = "consumer_offset"
	KindIncarnation  Kind = "incarnation"
	KindSnapshot     Kind = "metastore_snapshot"
	KindJournal      Kind = "metastore_journal"
	KindClean        Kind = "clean_mark"
	KindLock         Kind = "lock"
	KindPassword     Kind = "password"
	KindLeftover     Kind = "leftover" // of an interrupted write
	KindOther        Kind = "other"    // of another release; not looked at
	KindUnknown      Kind = "unknown"
	KindEmptyDir     Kind = "directory"
)

// Node is a file or directory. Of the pointers below Worst at most those of its kind are set.
type Node struct {
	Name    string   `json:"name"`
	Kind    Kind     `json:"kind"`
	Size    int64    `json:"size"` // bytes; of a directory, of all files below it
	Summary string   `json:"summary"`
	Worst   Severity `json:"worst,omitempty"` // of what was found in it or below

	WAL        *WALSegment `json:"wal_segment,omitempty"`
	Ingress    *Ingress    `json:"ingress,omitempty"`
	Log        *LogSegment `json:"log_segment,omitempty"`
	Bounds     *LogBounds  `json:"log_bounds,omitempty"`
	Partition  *Partition  `json:"partition,omitempty"`
	Ahead      *AheadFile  `json:"consumer_ahead,omitempty"`
	Frontier   *int64      `json:"frontier,omitempty"` // consumer.offset, when it counts
	Checkpoint *uint64     `json:"checkpoint,omitempty"`
	ID         string      `json:"incarnation,omitempty"`
	Metastore  *Metastore  `json:"metastore,omitempty"`

	WALRecords []WALRecord `json:"wal_records,omitempty"`
	Records    []LogRecord `json:"records,omitempty"`
	Changes    []Change    `json:"changes,omitempty"`
	// Withheld counts records or changes beyond Options.Limit.
	Withheld int64 `json:"withheld,omitempty"`

	Children []*Node `json:"children,omitempty"`

	file string // below the report's path
	dir  bool
}

// WALSegment is a file of the ingress log.
type WALSegment struct {
	First   uint64 `json:"first"` // sequence number of the first record
	Next    uint64 `json:"next"`  // one beyond the last that was found
	Records int64  `json:"records"`
	End     int64  `json:"end"`            // byte after the last whole frame
	Torn    int64  `json:"torn,omitempty"` // bytes behind it that look like an unfinished write
	// Prepared is how many bytes behind the frames were written ahead and are not used.
	Prepared int64 `json:"prepared,omitempty"`
	Sealed   bool  `json:"sealed"`
	// Done tells that every record is below the checkpoint, so that a broker does not read the file any more.
	Done bool `json:"done"`
}

// Ingress is the ingress log as a whole.
type Ingress struct {
	First      uint64  `json:"first"`
	Next       uint64  `json:"next"`
	Checkpoint *uint64 `json:"checkpoint,omitempty"`
	Waiting    uint64  `json:"waiting"` // records accepted and not known to be in their partitions
}

// LogSegment is a file of a partition's log.
type LogSegment struct {
	Base     int64 `json:"base"` // offset of the first record
	Next     int64 `json:"next"` // one beyond the last
	Frames   int64 `json:"frames"`
	Zstd     int64 `json:"zstd_frames,omitempty"`
	End      int64 `json:"end"`            // byte after the last intact frame
	Torn     int64 `json:"torn,omitempty"` // bytes behind it that look like an unfinished write
	Sealed   bool  `json:"sealed"`
	Lost     int64 `json:"lost,omitempty"` // offsets that no intact frame holds
	Gaps     []Gap `json:"gaps,omitempty"` // these offsets, at most the first hundred runs
	OldestMs int64 `json:"oldest_ms,omitempty"`
	NewestMs int64 `json:"newest_ms,omitempty"`

	lastNext int64 // offset after the last frame that was accepted
	lastCRC  uint32
}

// LogBounds is how far a partition's log durably goes, at least.
type LogBounds struct {
	Oldest    int64  `json:"oldest"`               // where it begins
	End       int64  `json:"end"`                  // one beyond the last offset
	LastFrame string `json:"last_frame,omitempty"` // checksum of the frame that ends there, hexadecimal; absent: not known
}

// Gap is the offsets [From, To) that no intact frame holds.
type Gap struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Partition is a partition as a whole.
type Partition struct {
	Oldest        int64      `json:"oldest"`
	HighWatermark int64      `json:"high_watermark"`           // the next offset
	Lost          int64      `json:"lost,omitempty"`           // offsets that cannot be read
	LostUnsettled int64      `json:"lost_unsettled,omitempty"` // those of them that no consumer had settled
	Consumer      *Consumers `json:"consumer,omitempty"`
}

// Consumers is what a start would take to be settled in a partition.
type Consumers struct {
	Frontier       int64  `json:"frontier"` // all up to here are settled; -1: none
	Ahead          int    `json:"ahead"`    // offsets settled above it
	AheadFrontier  *int64 `json:"ahead_frontier,omitempty"`
	OffsetFrontier *int64 `json:"offset_frontier,omitempty"`
	Wins           string `json:"wins"` // the file whose frontier counts, "both" or "none"
	Waiting        int64  `json:"waiting"`
}

// AheadFile is a consumer.ahead.
type AheadFile struct {
	Slots  [2]Slot `json:"slots"`
	Newest int     `json:"newest"` // the slot that counts, -1: none
}

// Slot is one of its slots. What could not be read is zero.
type Slot struct {
	Offset   int64  `json:"offset"` // byte of the slot
	State    string `json:"state"`  // "newest", "older", "blank" or "unusable"
	Why      string `json:"why"`
	Magic    string `json:"magic,omitempty"`
	Version  int    `json:"version,omitempty"`
	Encoding string `json:"encoding,omitempty"`
	Identity string `json:"identity,omitempty"` // hexadecimal
	Owned    *bool  `json:"owned,omitempty"`    // the identity is that of this partition, when it is known
	Sequence uint64 `json:"sequence,omitempty"`
	Frontier int64  `json:"frontier"`
	Ahead    int    `json:"ahead"`
	Ranges   string `json:"ranges,omitempty"` // of the offsets ahead, the first of them
}

// Metastore is the store of topics, or one of its files.
type Metastore struct {
	Store    string  `json:"store,omitempty"` // identity, hexadecimal
	Sequence uint64  `json:"sequence"`        // of the last change
	Changes  int     `json:"changes,omitempty"`
	Topics   []Topic `json:"topics,omitempty"`
}

// Topic is a topic of the metastore.
type Topic struct {
	Name       string `json:"name"`
	ID         string `json:"id"`
	Partitions int32  `json:"partitions"`
}

// WALRecord is a message in the ingress log.
type WALRecord struct {
	Seq         uint64 `json:"seq"`
	At          int64  `json:"at"` // byte of its frame
	Topic       string `json:"topic"`
	Incarnation string `json:"incarnation,omitempty"`
	Partition   int32  `json:"partition"`
	CreatedMs   int64  `json:"created_ms"`
	Message
}

// LogRecord is a message in a partition.
type LogRecord struct {
	Offset      int64 `json:"offset"`
	At          int64 `json:"at"` // byte of its frame
	CommittedMs int64 `json:"committed_ms"`
	Message
}

// Message is the key and the payload of a message, cut short.
type Message struct {
	Key          string `json:"key,omitempty"` // a Go string literal without its quotes, at most previewMax bytes
	KeyBytes     int    `json:"key_bytes,omitempty"`
	Payload      string `json:"payload"` // likewise
	PayloadBytes int    `json:"payload_bytes"`
}

// Change is a change in the metastore's journal.
type Change struct {
	Sequence uint64 `json:"sequence"`
	At       int64  `json:"at"`
	Op       string `json:"op"`
	Topic    string `json:"topic"`
	ID       string `json:"id"`
}
