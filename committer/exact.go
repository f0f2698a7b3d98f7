package committer

// Exact reports whether nothing of what was written for k is still on its way: no mark waits, nobody works on k, and
// what its files hold is durable and level. It says nothing of acks that Dirty has not been told of yet; who asks compares
// the state of the shard with the one that was written last (see [WindowWritten]).
func (c *Committer) Exact(k Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.roster.parts[k]
	if c.roster.isDirty(k, p) || c.hand.on && c.hand.key == k {
		return false
	}
	return p == nil || p.idle() && !p.levelable() && !p.stranded
}
