// Package workload runs simulated worlds: nodes with real engines on simulated machines, clients that behave
// well and badly, and a nemesis that crashes, cuts the power, stalls and restarts. Everything that varies is
// drawn from the world's choices, so that a seed is a world.
//
// A run has four parts: traffic under faults; healing; the drain, in which everything accepted must be
// delivered and acked; and a graceful restart after which nothing may be delivered again.
//
// Files: run.go (Options, Run, Result), plan.go (what a seed draws), flavour.go (what it stresses), node.go (a node and its restarts),
// producer.go, consumer.go, nemesis.go, faults.go (disks that fail for a while), drain.go, campaign.go (many seeds on all
// cores); limits.go, shrink.go, fingerprint.go (smaller worlds that fail alike), case.go (plan files), watch.go and view.go (seeing
// a run).
package workload
