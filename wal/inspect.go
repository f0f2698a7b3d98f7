package wal

// JudgeTail tells what [Open] would make of rest, the bytes that follow the last good frame of the newest
// segment, from offset on, where a frame with number seq would have to begin; written is Rest.Written. It
// changes nothing and is for tools that look at a log without opening it.
//
// A nil error means that rest is what an unfinished write leaves and would be cut off; whole tells that a whole
// frame is in it all the same. Otherwise the error is why the log would not be opened.
func JudgeTail(rest []byte, offset int64, seq uint64, written int64) (whole bool, refuse error) {
	return judgeTail(rest, offset, seq, written)
}

// ParseSegmentName returns the sequence number of the first record of the segment file of that name.
func ParseSegmentName(name string) (first uint64, ok bool) { return parseSegmentName(name) }

// MaxUnsynced is the largest number of bytes at the end of a segment that one unfinished write can have left.
const MaxUnsynced = maxUnsynced
