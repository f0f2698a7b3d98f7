package check

// Scope says what a world needs for a goal to be reached.
type Scope uint8

// Scopes.
const (
	OneNode Scope = iota // reached by the default profile: a campaign over the default seeds that does not is wrong
	Cluster              // needs more nodes, which there are not yet
)

// Goal is a situation that a campaign has to bring about at least once, since checks that never meet it prove nothing
// (S-nn of docs/requirements.md, some of which have parts, and the mechanisms of INV-34).
type Goal struct {
	ID    string
	What  string
	Scope Scope
}

// Goals lists all goals.
func Goals() []Goal { return goals }

var goals = []Goal{
	{"S-01", "the pump put a waiter back, found the flag cleared and ran again", OneNode},
	{"S-02", "a cancel met a hand-over", OneNode},
	{"S-03 expiry", "a waiter was served by an expiry alone", OneNode},
	{"S-03 nack", "a waiter was served by a nack alone", OneNode},
	{"S-03 close", "a waiter was served by the close of a log alone", OneNode},
	{"S-04", "an ack took a partition from its cap, with a waiter parked", OneNode},
	{"S-05", "a late ack met an offset that was leased again", OneNode},
	{"S-06", "a late ack met an offset that had expired and was free", OneNode},
	{"S-07", "a deadline that an extend had superseded came and was skipped", OneNode},
	{"S-08", "acked-ahead at its cap, the hole leased: nothing was handed out", OneNode},
	{"S-09", "acked-ahead above its cap", OneNode},
	{"S-10", "a window in which all was reserved ended by an expiry", OneNode},
	{"S-11 before prime", "a process crash between a tick and its writeout, then power lost before the prime", OneNode},
	{"S-11 primed", "the same, then power lost between the prime and the first window", OneNode},
	{"S-11 torn", "the newest window was torn, and the anchor counted", OneNode},
	{"S-12", "a writeout failed and a full window was written after it", OneNode},
	{"S-13", "both slots valid with the newest in slot 1 at a prime", OneNode},
	{"S-14", "a file of 4 KiB that came with a move was primed", Cluster},
	{"S-15", "a descriptor was evicted, opened again, and an opening refused", OneNode},
	{"S-16", "a descriptor for one use", OneNode},
	{"S-17", "a partition was stranded and forgotten later", OneNode},
	{"S-18", "EIO where a path was looked up, tried again", OneNode},
	{"S-19", "a drop landed between an ack and its report", OneNode},
	{"S-20 create first", "a creation of a shard raced a drop and ended before it", OneNode},
	{"S-20 drop first", "a creation of a shard raced a drop and came after it", OneNode},
	{"S-21", "a tick took longer than T", OneNode},
	{"S-22", "an overdue partition was written out off its turn", OneNode},
	{"S-23", "more was acked ahead than a slot holds", OneNode},
	{"S-24", "a closed log was read below its floor, its successor's shard open", OneNode},
	{"S-25", "two consumes met at one retention gap", OneNode},
	{"S-26 head", "a corrupt frame at the frontier was skipped", OneNode},
	{"S-26 middle", "a corrupt frame above the frontier was skipped", OneNode},
	{"S-27", "a notification was declined and offered again", Cluster},
	{"S-28", "a hold ended by a flagged claim, by a pass, by its deadline", Cluster},
	{"S-29", "a wake was passed to a neighbour", Cluster},
	{"S-30", "a token was replaced while it was being fired", Cluster},
	{"S-31", "a share was refused because of its TTL", Cluster},
	{"S-32", "clocks of two nodes an hour apart", Cluster},
	{"S-33", "a claim was downgraded", Cluster},
	{"S-34", "a lost notification was repaired by the keeper, by a gateway probe", Cluster},
	{"S-35", "an AckBatch with mixed results", Cluster},
	{"S-36", "a batch requester gave up before its slot", Cluster},
	{"S-37", "an AckBatch was refused by an old owner", Cluster},
	{"S-38", "a cancel raced a forwarded batch reply", Cluster},
	{"S-39 resent", "a commit was stored, its answer was a failure, and it was sent again to the same partition", OneNode},
	{"S-39 rerouted", "the same, sent to another partition after 3 s", Cluster},
	{"S-40", "the node crashed with out-of-order confirmations above its checkpoint", OneNode},
	{"S-41", "power lost within 250 ms of a checkpoint store", OneNode},
	{"S-42", "the disk under the ingress log failed in the middle of a batch", OneNode},
	{"S-43", "a crash between the sync of a commit and raising the high watermark", OneNode},
	{"S-44", "a move with leases out; its source died, came back, never came back", Cluster},
	{"S-45", "a topic was deleted and created again under load", OneNode},
	{"S-46", "a majority was down, a direct produce accepted, then healed", Cluster},
	{"INV-34 redelivery", "a message whose lease lapsed or that was given back came after a newer one", OneNode},
	{"INV-34 quiet", "a partition that had nothing to hand out because of one lease went on with that message, after newer ones", OneNode},
	{"INV-34 restart", "a message whose ack a crash had undone came after a newer one", OneNode},
	{"INV-34 dispatchers", "messages of one key came in another order than they were produced in, through two nodes", Cluster},
	{"INV-34 reroute", "messages of one key came in another order because the owner of their partition was down", Cluster},
}

// known are the names of the goals, to tell them from other counters.
var known = func() map[string]bool {
	m := map[string]bool{}
	for _, g := range goals {
		m[g.ID] = true
	}
	return m
}()

// IsGoal reports whether a counter of [Node.Goals] is that of a goal of the list.
func IsGoal(name string) bool { return known[name] }

// Unreached returns the goals of a scope that were not reached.
func Unreached(reached map[string]int, scope Scope) (left []Goal) {
	for _, g := range goals {
		if g.Scope == scope && reached[g.ID] == 0 {
			left = append(left, g)
		}
	}
	return left
}
