package workload

// Points lists the named points of production code: windows inside of which the scheduler may let others run and a crash may strike
// (env.Env.Point). A test holds the list to the source.
func Points() []string { return points }

var points = []string{
	"committer: prime not synced",
	"committer: primed, window not written",
	"committer: snapshot taken, not written",
	"committer: window synced, not flipped",
	"committer: window written, not synced",
	"engine: acked, not reported",
	"engine: consumer state read, shard not stored",
	"engine: directory set aside, consumer state not dropped",
	"engine: found nothing, not parked",
	"engine: idle partition closed, not forgotten",
	"engine: log resolved, nothing reserved",
	"engine: old directory set aside, new one not in place",
	"engine: reserved, not read",
	"engine: scanned for a waiter, not answered",
	"engine: served, answer not taken",
	"engine: topic retired, directory in place",
	"engine: waiter popped, not served",
	"metastore: change made, not shown",
	"metastore: change planned, not proposed",
	"metastore: change synced, not confirmed",
	"metastore: change written, not synced",
	"metastore: snapshot replaced, journal not",
	"segment: active segment too old, not rolled",
	"segment: closed, files still open",
	"segment: commit failed, cut, not synced",
	"segment: commit failed, not cut",
	"segment: created, name not synced",
	"segment: oldest offset raised, files still there",
	"segment: read back, not visible",
	"segment: recovered, not synced",
	"segment: renamed, name not synced",
	"segment: segments removed, files still there",
	"segment: synced, not read back",
	"segment: tail cut, not synced",
	"segment: unlinked, not synced",
	"segment: visible, not confirmed",
	"segment: written, not synced",
	"wal: batch staged, not written",
	"wal: batch synced, not announced",
	"wal: batch written, not synced",
	"wal: checkpoint about to be synced",
	"wal: checkpoint stored, not synced",
	"wal: empty segment about to be replaced",
	"wal: opened, names not synced",
	"wal: segment created, directory not synced",
	"wal: segment prepared, not synced",
	"wal: segment removed, directory not synced",
	"wal: tail written again, not synced",
	"wal: torn tail cut, not synced",
}

// Beyond says why no world of one node passes a point; "" when some can.
func Beyond(point string) string { return beyond[point] }

// beyond are points of a metastore with several voters.
var beyond = map[string]string{
	"metastore: change made, not shown":       "only with several voters, profile replicated",
	"metastore: change planned, not proposed": "only with several voters, profile replicated",
}

// elsewhere are points that no simulated machine has: its disk has no cache of its own that would have to be flushed.
var elsewhere = []string{"committer: at the device, not flushed"}
