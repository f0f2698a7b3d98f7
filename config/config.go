package config

import "time"

// Config is a complete configuration. [Load] makes one; every field has a value.
type Config struct {
	HTTP     HTTP
	Cluster  Cluster
	Storage  Storage
	Topic    Topic
	Fanout   Fanout
	Log      Log
	Security Security
	Remotes  Remotes
	Secrets  Secrets
}

// HTTP is the front.
type HTTP struct {
	Addr           string // host:port; an empty host is every address of the machine
	ReadTimeout    time.Duration
	WriteTimeout   time.Duration // exceeds MaxConsumeWait
	IdleTimeout    time.Duration
	ShutdownGrace  time.Duration // at least MaxConsumeWait
	MaxConsumeWait time.Duration // 0: the ceiling of 30 s
	MaxHeaderBytes int
	MaxConnections int   // 0: no limit
	Direct         bool  // the plainest requests are answered without net/http
	MaxConsumes    int   // in flight per identity; 0: no limit
	MaxProduces    int   // in flight per identity; 0: no limit
	MaxBatchBytes  int64 // of large batch bodies being read, node-wide; 0: no limit
	MetricsAddr    string
	MetricsOpen    bool // /metrics without credentials on Addr
	PprofAddr      string
}

// Cluster is this node and its peers.
type Cluster struct {
	NodeID            string
	Addr              string
	Peers             []string // id@host:port
	AdvertiseAddr     string
	InitialMembers    []string
	SnapshotThreshold int // entries of the Raft log between two snapshots
	SnapshotInterval  time.Duration
	TrailingLogs      int // entries kept behind a snapshot
}

// Storage is the data directory and what the engine does with it.
type Storage struct {
	DataDir          string
	Codec            string        // "none" or "zstd"
	CompressionLevel string        // "fastest", "default", "better" or "best"
	IdleEviction     time.Duration // 0: never
	ColdWalk         time.Duration // 0: never
	CommitInterval   time.Duration // durability interval of consumer state
	WriteoutInterval time.Duration // how often consumer state goes to the page cache; CommitInterval when that is shorter
	WALPrealloc      bool
}

// Topic has the defaults and bounds of topics that are created.
type Topic struct {
	DefaultPartitions    int
	MaxPartitions        int
	DefaultRetentionMs   int64 // 0: for ever
	DefaultVisibilityMs  int64
	DefaultMaxInFlight   int
	DefaultMaxAckedAhead int
}

// Fanout tunes the copying from parents to children.
type Fanout struct {
	MaxBatchRecords int
	MaxBatchBytes   int
	LingerMs        int
}

// Log is how the node logs.
type Log struct {
	Level  string // "debug", "info", "warn" or "error"
	Format string // "json" or "text"
}

// Security is who may do what.
type Security struct {
	Enabled                bool
	TLSCertFile            string
	TLSKeyFile             string
	TLSCAFile              string
	AllowPlaintextRaft     bool
	AllowInsecureCluster   bool
	AllowLegacyClusterAuth bool
}

// Remotes is what other clusters may be shipped to.
type Remotes struct {
	AllowedHosts    []string
	AllowedPorts    []string
	AllowAddresses  []string
	MaxHeldBytes    int64
	APIHopEncrypted bool
}

// Secrets come from the environment only and are never printed.
type Secrets struct {
	AdminPassword         Secret
	ClusterSecret         Secret
	ClusterSecretPrevious Secret
}

// Secret is a text that no formatting verb prints.
type Secret string

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return "(not set)"
	}
	return "(set)"
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return s.String() }
