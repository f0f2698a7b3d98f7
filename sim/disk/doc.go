// Package disk is the disk of one simulated machine: page cache above, durable image below.
package disk
