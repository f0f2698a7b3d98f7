package config

import (
	"fmt"
	"net"
	"strings"
	"time"
)

// MaxWait is what http.max_consume_wait 0 stands for.
const MaxWait = 30 * time.Second

// ConsumeWait is the longest wait of a consume.
func (h HTTP) ConsumeWait() time.Duration {
	if h.MaxConsumeWait == 0 {
		return MaxWait
	}
	return h.MaxConsumeWait
}

// rules checks values against each other. Each value is allowed by itself.
func (l *loader) rules() {
	c := &l.loaded.Config
	if c.Cluster.NodeID == "" {
		l.refuse("cluster.node_id", `""`, "the name of the host", "allowed is "+l.byKey["cluster.node_id"].allowed)
	}
	wait := fmt.Sprintf("more than http.max_consume_wait, which is %s (from %s)", c.HTTP.ConsumeWait(), l.loaded.Origin("http.max_consume_wait"))
	if c.HTTP.WriteTimeout <= c.HTTP.ConsumeWait() {
		l.contradiction("http.write_timeout", "allowed is "+wait)
	}
	if c.HTTP.ShutdownGrace < c.HTTP.ConsumeWait() {
		l.contradiction("http.shutdown_grace", "allowed is "+strings.Replace(wait, "more than", "at least", 1))
	}
	if c.Topic.DefaultPartitions > c.Topic.MaxPartitions {
		l.contradiction("topic.default_partitions", fmt.Sprintf("allowed is at most topic.max_partitions, which is %d (from %s)",
			c.Topic.MaxPartitions, l.loaded.Origin("topic.max_partitions")))
	}
	l.addresses()
	if c.Secrets.ClusterSecret+c.Secrets.ClusterSecretPrevious != "" {
		l.warn("a cluster secret is set, but this node has no peers; it has no effect")
	}
	if !c.Security.Enabled && !Loopback(c.HTTP.Addr) {
		l.warn("security is off (from %s) and http.addr is %s: whoever reaches that address may do everything",
			l.loaded.Origin("security.enabled"), c.HTTP.Addr)
	}
	if c.HTTP.PprofAddr != "" && !Loopback(c.HTTP.PprofAddr) {
		l.warn("http.pprof_addr is %s: the profiler shows memory to whoever reaches that address", c.HTTP.PprofAddr)
	}
}

func (l *loader) contradiction(key, trouble string) {
	value := l.byKey[key].get(&l.loaded.Config)
	l.refuse(key, value, l.loaded.Origin(key), trouble)
}

// addresses refuses two listeners on one address.
func (l *loader) addresses() {
	keys := []string{"http.addr", "cluster.addr", "http.metrics_addr", "http.pprof_addr"}
	for i, key := range keys {
		for _, earlier := range keys[:i] {
			a, b := l.byKey[earlier].get(&l.loaded.Config), l.byKey[key].get(&l.loaded.Config)
			if collide(a, b) {
				l.contradiction(key, fmt.Sprintf("it must differ from %s, which is %s (from %s)", earlier, a, l.loaded.Origin(earlier)))
			}
		}
	}
}

// collide reports whether two listeners cannot both have their address.
func collide(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	return hostA == hostB || everywhere(hostA) || everywhere(hostB)
}

func everywhere(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// Loopback reports whether only this machine can reach the address.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}
