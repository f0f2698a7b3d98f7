package workload

import "strings"

// Kinds of files that are referred to.
const (
	kindCheckpoint = "ingress checkpoint"
	kindIndex      = "partition index"
	kindMetastore  = "metastore"
	kindOther      = "other names"
)

// FileKind names the kind of file or directory that a path of a node is of, for the table of faults and operations.
func FileKind(path string) string {
	base := path[strings.LastIndexByte(path, '/')+1:]
	switch {
	case strings.HasSuffix(base, ".wal"):
		return "ingress log"
	case strings.Contains(path, "/ingress/") && !strings.HasSuffix(path, "/produce"):
		return kindCheckpoint
	case strings.HasPrefix(base, "consumer.ahead"):
		return "consumer.ahead"
	case strings.HasPrefix(base, "consumer.offset"):
		return "consumer.offset"
	case strings.Contains(path, "/topics/") && strings.Contains(base, ".log"):
		return "partition log"
	case strings.Contains(path, "/topics/") && strings.Contains(base, ".idx"):
		return kindIndex
	case isPartitionDir(path):
		return "partition directory"
	case strings.Contains(path, "/meta"):
		return kindMetastore
	}
	return kindOther
}
