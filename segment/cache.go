package segment

// cache keeps decoded blocks of one log, so that sequential readers decode each frame once. Blocks hold
// committed bytes only, which never change: nothing is ever invalidated while the log is open.
// It is guarded by Log.mu.
type cache struct {
	blocks []*block // least recently used first
	bytes  int
}

const (
	cacheBlocksMax = 64
	cacheBytesMax  = 8 << 20
)

// get returns the block that covers an offset, or nil.
func (c *cache) get(offset int64) *block {
	for i := len(c.blocks) - 1; i >= 0; i-- {
		b := c.blocks[i]
		if b.from <= offset && offset < b.to {
			copy(c.blocks[i:], c.blocks[i+1:])
			c.blocks[len(c.blocks)-1] = b
			return b
		}
	}
	return nil
}

// endOf returns the byte of a file where a cached block ends that goes exactly up to an offset.
func (c *cache) endOf(file string, offset int64) (at int64, ok bool) {
	for _, b := range c.blocks {
		if b.to == offset && b.file == file {
			return b.endAt, true
		}
	}
	return 0, false
}

// put adds a block and drops those that it contains, and the least recently used ones over the bounds. It answers false
// for a block of one record that is large: that is not worth keeping. Of any other size the newest always stays.
func (c *cache) put(b *block) bool {
	if b.to-b.from == 1 && b.bytes >= indexStride {
		return false
	}
	kept := c.blocks[:0]
	for _, old := range c.blocks {
		if b.from <= old.from && old.to <= b.to {
			c.bytes -= old.bytes
			continue
		}
		kept = append(kept, old)
	}
	clear(c.blocks[len(kept):])
	c.blocks = append(kept, b)
	c.bytes += b.bytes
	for len(c.blocks) > 1 && (len(c.blocks) > cacheBlocksMax || c.bytes > cacheBytesMax) {
		c.bytes -= c.blocks[0].bytes
		c.blocks[0] = nil
		c.blocks = c.blocks[1:]
	}
	return true
}

// dropBelow drops the blocks of offsets below a bound.
func (c *cache) dropBelow(offset int64) {
	kept := c.blocks[:0]
	for _, b := range c.blocks {
		if b.to <= offset {
			c.bytes -= b.bytes
			continue
		}
		kept = append(kept, b)
	}
	clear(c.blocks[len(kept):])
	c.blocks = kept
}
