// Package wal is the ingress write-ahead log.
package wal
