package engine

// Events of the life cycle of topics.
type (
	// TopicOpened reports a topic that was found at the start.
	TopicOpened struct{ Topic Topic }
	// TopicAltered reports settings that are durable and about to be in effect.
	TopicAltered struct{ Topic Topic }
	// TopicDeleted reports a topic that is durably gone. Its partitions end a little later.
	TopicDeleted struct{ Name, Incarnation string }
	// TopicPurged reports that a topic's name durably belongs to a new incarnation. The old one's partitions end a little later.
	TopicPurged struct {
		Old   string // incarnation
		Topic Topic
	}
	// RetireFailed reports that the directory of an incarnation which is gone could not be set aside, or its successor's not be put
	// in its place. Nothing is served from the old one; the rest is made up for later.
	RetireFailed struct {
		Name, Incarnation string
		Err               error
	}
	// SetAside reports that a directory of topics/ was renamed and belongs to no topic any more.
	SetAside struct{ Name, Stale string }
	// StaleRemoved reports that a directory which was set aside is gone.
	StaleRemoved struct{ Stale string }
	// TidyFailed reports that a directory could not be removed, or not be put in its place. It is tried again.
	TidyFailed struct {
		Name string
		Err  error
	}
	// DoubtRemains reports that it is not known yet whether changes of topics were made whose leader was lost in the middle. It is
	// asked again.
	DoubtRemains struct{ Err error }
	// LimitsSet reports the caps that a lease table has from now on.
	LimitsSet struct {
		Key                        Key
		MaxInFlight, MaxAckedAhead int
	}
	// OpenRefused reports a partition that was retired while somebody waited to open it (COM-51).
	OpenRefused struct {
		Key         Key
		Incarnation string
	}
	// ReportedLate reports an ack whose lease table was dropped before the committer was told of it (INF-39).
	ReportedLate struct{ Key Key }
	// ShardDropped reports that the lease table of a partition is gone from memory.
	ShardDropped struct {
		Key         Key
		Incarnation string
		Why         Drop
	}
)

// Drop says why a lease table was dropped.
type Drop uint8

// The reasons.
const (
	DropRetired Drop = iota // its incarnation is gone
	DropIdle                // nobody used it; it is made again from its files
)

func (TopicOpened) isEvent()  {}
func (TopicAltered) isEvent() {}
func (TopicDeleted) isEvent() {}
func (TopicPurged) isEvent()  {}
func (RetireFailed) isEvent() {}
func (SetAside) isEvent()     {}
func (StaleRemoved) isEvent() {}
func (TidyFailed) isEvent()   {}
func (DoubtRemains) isEvent() {}
func (ShardDropped) isEvent() {}
func (LimitsSet) isEvent()    {}
func (OpenRefused) isEvent()  {}
func (ReportedLate) isEvent() {}
