package sim

// Quiet reports whether no task of the process goes on before time passes or somebody outside of it acts: each is parked on
// a waiter that holds no permit, none is runnable, set aside by the policy, stalled with its machine or inside of a file
// call. At such an instant nothing is half done, and what must hold when all is at rest can be checked.
func (p *Process) Quiet() bool {
	if p.machine != nil && p.machine.pausedUntil > p.w.now {
		return false
	}
	for t := p.tasks.first; t != nil; t = t.next {
		if t.state != stateParked || t.waiter == nil {
			return false
		}
	}
	return true
}
