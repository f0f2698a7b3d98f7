package workload

import (
	"strings"

	"narad/segment"
)

// Kinds of files and directories.
const (
	kindIngress    = "ingress log"
	kindAhead      = "consumer.ahead"
	kindOffset     = "consumer.offset"
	kindLog        = "partition log"
	kindDir        = "partition directory"
	kindCheckpoint = "ingress checkpoint"
	kindIndex      = "partition index"
	kindBounds     = "partition bounds"
	kindMetastore  = "metastore"
	kindOther      = "other names"
)

var fileKinds = []string{kindIngress, kindCheckpoint, kindAhead, kindOffset, kindLog, kindIndex, kindBounds, kindDir, kindMetastore, kindOther}

// FileKind names the kind of file or directory that a path of a node is of, for the table of faults and operations.
func FileKind(path string) string {
	base := path[strings.LastIndexByte(path, '/')+1:]
	switch {
	case strings.HasSuffix(base, ".wal"):
		return kindIngress
	case strings.Contains(path, "/ingress/") && !strings.HasSuffix(path, "/produce"):
		return kindCheckpoint
	case strings.HasPrefix(base, "consumer.ahead"):
		return kindAhead
	case strings.HasPrefix(base, "consumer.offset"):
		return kindOffset
	case strings.Contains(path, "/topics/") && strings.Contains(base, ".log"):
		return kindLog
	case strings.Contains(path, "/topics/") && strings.Contains(base, ".idx"):
		return kindIndex
	case strings.Contains(path, "/topics/") && base == segment.BoundsFile:
		return kindBounds
	case isPartitionDir(path):
		return kindDir
	case strings.Contains(path, "/meta"):
		return kindMetastore
	}
	return kindOther
}
